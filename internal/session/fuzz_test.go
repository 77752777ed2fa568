package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// records are the kinds of what is stored: the first part of their keys, and
// how each is read. Read returns nil for what has no other form than its bytes.
// The order is the corpus's.
var records = []struct {
	kind string
	read func(ctx context.Context, s *Store, key, value []byte) (any, error)
}{
	{"h", func(_ context.Context, _ *Store, key, value []byte) (any, error) {
		return decodeState(key, value)
	}},
	{"c", reads[Record]},
	{"r", reads[storedReceipt]},
	{"g", reads[tool.Progress]},
	{"u", reads[userMessage]},
	{"o", reads[pauseEntry]},
	{"k", func(ctx context.Context, s *Store, key, value []byte) (any, error) {
		_, err := s.FindKey(ctx, OutsideKey{Tool: "deploy", Key: "job-1"})
		return nil, err
	}},
	{"s", func(ctx context.Context, s *Store, key, value []byte) (any, error) {
		parts, _ := kvstore.Parts(key)
		_, err := s.schema(ctx, parts[1])
		return nil, err
	}},
	{"x", reads[keyRing]},
	{"m", func(ctx context.Context, s *Store, key, value []byte) (any, error) {
		m, _, err := s.message(ctx, "chat-1", kvstore.Entry{Key: key, Value: value})
		if err != nil {
			return nil, err
		}
		return m, nil
	}},
	{"p", func(ctx context.Context, s *Store, key, value []byte) (any, error) {
		parts, _ := kvstore.Parts(key)
		_, err := s.Value(ctx, "chat-1", &Blob{Ref: parts[2], Size: max(1, len(value))})
		return nil, err
	}},
}

func reads[T any](_ context.Context, _ *Store, key, value []byte) (any, error) {
	v := new(T)
	if err := decode(key, value, v); err != nil {
		return nil, err
	}
	return v, nil
}

// stored lists the entries of the stores that some version has left, by their
// kinds.
func stored(tb testing.TB) map[string][]kvstore.Entry {
	tb.Helper()
	files, err := filepath.Glob("../../runner/testdata/stores/v*/*.txt")
	if err != nil || len(files) == 0 {
		tb.Fatalf("no stores, %v", err)
	}
	all := map[string][]kvstore.Entry{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")[1:]
		for i := 0; i < len(lines); i += 2 {
			key, err := strconv.Unquote(lines[i])
			if err != nil {
				tb.Fatal(err)
			}
			kind := key[:strings.IndexByte(key, 0)]
			all[kind] = append(all[kind], kvstore.Entry{Key: []byte(key),
				Value: []byte(lines[i+1])})
		}
	}
	return all
}

// place is the key under which a record lies that says what value says.
func place(kind string, value []byte) []byte {
	var says struct {
		ID    string `json:"id"`
		Call  string `json:"call"`
		Pause int    `json:"pause"`
		Kind  Kind   `json:"kind"`
		Fate  Fate   `json:"fate"`
	}
	_ = json.Unmarshal(value, &says)
	switch kind {
	case "h":
		return headKey(says.ID)
	case "c":
		return recordKey("chat-1", says.Call)
	case "r":
		return receiptKey("chat-1", says.Call, Receipt{Call: says.Call, Pause: says.Pause,
			Kind: says.Kind, Fate: says.Fate}.slot())
	case "k":
		return outsideKey("deploy", "job-1", "chat-1", "call_x")
	case "s":
		return schemaKey(SchemaHash(value))
	case "x":
		return keyRingKey
	case "p":
		return chunkKey("chat-1", "pl_x", 0)
	}
	return kvstore.Key(kind, "chat-1", "x")
}

// A record of any bytes is read as something that, written again, is read as
// the same; or the error tells that it is damaged, newer, or about something
// that isn't there.
func FuzzRecords(f *testing.F) {
	all := stored(f)
	for i, r := range records {
		if len(all[r.kind]) == 0 {
			f.Errorf("no store has a record of kind %q", r.kind)
		}
		for _, e := range all[r.kind] {
			if len(e.Value) < 4000 {
				f.Add(uint8(i), e.Value)
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, value []byte) {
		r := records[int(kind)%len(records)]
		key := place(r.kind, value)
		kv := kvstore.NewMemory()
		if len(value) > kvstore.MaxValue || len(key) > kvstore.MaxKey {
			t.Skip("no store has it")
		}
		if _, err := kv.Apply(t.Context(),
			kvstore.Batch{Puts: []kvstore.Put{{Key: key, Value: value}}}); err != nil {
			t.Fatal(err)
		}
		s := NewStore(kv, nil)
		v, err := r.read(t.Context(), s, key, value)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewerVersion) &&
				!errors.Is(err, ErrNotYetKnown) {
				t.Errorf("it is read with the error %v", err)
			}
			return
		}
		if v == nil {
			return
		}
		written, err := encode(v)
		if err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		again, err := r.read(t.Context(), s, key, written)
		if err != nil {
			t.Fatalf("%s\nwritten again is\n%s\nand read as %v", value, written, err)
		}
		if twice, err := encode(again); err != nil || !bytes.Equal(twice, written) {
			t.Errorf("%s\nis written as\n%s\nand then as\n%s, %v", value, written, twice, err)
		}
	})
}

// approved lists the pauses at which a head or a record has an approval.
func approved(v any) (pauses []int) {
	note := func(ds []Decision) {
		for _, d := range ds {
			if d.Approved {
				pauses = append(pauses, d.Pause)
			}
		}
	}
	switch v := v.(type) {
	case *State:
		for i := range v.Calls {
			note(v.Calls[i].Decisions)
		}
	case *Record:
		note(v.Decisions)
	}
	return pauses
}

// A bit that flips in a head or in a call's record makes no approval.
func TestFlippedBitsAreNoApprovals(t *testing.T) {
	all := stored(t)
	denied := false
	for i, r := range records[:2] {
		for _, e := range all[r.kind] {
			v, err := r.read(t.Context(), nil, e.Key, e.Value)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(e.Value, []byte(`"shown"`)) {
				continue // no approval was asked for
			}
			before := len(approved(v))
			denied = denied || bytes.Contains(e.Value, []byte(`"approved":false`))
			for bit := range len(e.Value) * 8 {
				flipped := bytes.Clone(e.Value)
				flipped[bit/8] ^= 1 << (bit % 8)
				v, err := records[i].read(t.Context(), nil, e.Key, flipped)
				if err == nil && len(approved(v)) > before {
					t.Errorf("bit %d of %q approves: %s", bit, e.Key, flipped)
				}
			}
		}
	}
	if !denied {
		t.Error("no store has a denial")
	}
}
