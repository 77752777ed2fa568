package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/hold"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
)

// damaged is what errors of a damaged store are, and of one in which nothing is
// damaged but what it says has changed.
var damaged = []error{
	session.ErrCorrupt, session.ErrNewerVersion, session.ErrUnknownSession, session.ErrUnknownCall,
	session.ErrUnknownPause, session.ErrNotPaused,
	session.ErrSettled, session.ErrResumeConflict, session.ErrInvalidResumePayload,
	session.ErrPauseRequired, session.ErrNotYetKnown, session.ErrAmbiguousKey,
	session.ErrPending, session.ErrWrongUser, session.ErrDeleted, runner.ErrUnknownAgent,
	runner.ErrBadToken, runner.ErrTokenExpired,
}

func isDamage(err error) bool {
	for _, e := range damaged {
		if errors.Is(err, e) {
			return true
		}
	}
	return err == nil || errors.Is(err, context.DeadlineExceeded) ||
		strings.HasPrefix(err.Error(), "model: ") || strings.Contains(err.Error(), "outdated")
}

// entries lists what is in a store.
func entries(t *testing.T, kv kvstore.Store) []kvstore.Entry {
	t.Helper()
	page, err := kv.Scan(t.Context(), kvstore.Range{})
	must(t, err)
	return page.Entries
}

// handled does to a session what can be done, and says how each of that went
// wrong.
func handled(t *testing.T, f *fixtureRig) (errs []error) {
	t.Helper()
	ctx := context.Background()
	note := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	for _, err := range f.store.Check(ctx) {
		note(err)
	}
	_, err := f.Show(ctx, chat, user)
	note(err)
	for p, err := range f.Pending(ctx, session.PauseFilter{}, user) {
		if note(err); err == nil {
			_, err = f.Find(ctx, runner.Ref{Pause: p.ID}, user)
			note(err)
		}
	}
	if f.token != "" {
		p, err := f.Find(ctx, runner.Ref{Token: f.token}, user)
		if note(err); err == nil {
			_, err = f.Resume(ctx, chat, runner.Complete(p.ID, "ci", text("live")))
			note(err)
		}
	}
	if f.call != "" {
		_, err = f.Call(ctx, chat, f.call, user)
		note(err)
	}
	f.clock.pass(time.Hour)
	// a damaged record may say: in a hundred years
	soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	for _, err := range f.Continue(soon, chat, user) {
		note(err)
	}
	return errs
}

// other makes sure that a second session in the store comes to no harm.
func (f *fixtureRig) other() {
	f.t.Helper()
	for ev, err := range f.Run(context.Background(), user, "other", llm.UserText("Hello."), nil) {
		must(f.t, err)
		if e, ok := ev.(event.End); ok && e.Finish != event.FinishPaused &&
			e.Finish != event.FinishStop {
			f.t.Errorf("the other session ended as %s", e.Finish)
		}
	}
}

// Whatever stands in a record that some version wrote: nothing panics, an error
// tells what it is, and the session beside it goes on.
func FuzzStoredRecords(f *testing.F) {
	files, err := filepath.Glob("testdata/stores/v*/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	seeds := 0
	add := func(file, entry int, value []byte) {
		if seeds++; seeds%testlength.Step(11) == 0 {
			f.Add(uint8(file), uint8(entry), value)
		}
	}
	for i, file := range files {
		kv, _, _ := readFixture(f, file)
		page, err := kv.Scan(context.Background(), kvstore.Range{})
		if err != nil {
			f.Fatal(err)
		}
		for n, e := range page.Entries {
			if len(e.Value) < 2000 {
				add(i, n, e.Value)
				add(i, n, e.Value[:len(e.Value)/2])
				add(i, n,
					bytes.Replace(e.Value, []byte(`"v":1`), []byte(`"v":2`), 1))
			}
			if parts, err := kvstore.Parts(e.Key); err == nil && parts[0] == "h" {
				// a head that lies aside, as it is and damaged
				for _, size := range []int{len(e.Value), len(e.Value) - 1, 1 << 40} {
					add(i, n,
						fmt.Appendf(nil, `{"v":2,"id":%q,"aside":{"ref":"pl_aside","size":%d}}`,
							parts[1], size))
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, file, entry uint8, value []byte) {
		name := files[int(file)%len(files)]
		fx := fixtures[strings.ReplaceAll(strings.TrimSuffix(filepath.Base(name), ".txt"),
			"_", " ")]
		kv, call, token := readFixture(t, name)
		if len(value) > kvstore.MaxValue {
			t.Skip("no store has it")
		}
		all := entries(t, kv)
		key := all[int(entry)%len(all)].Key
		parts, err := kvstore.Parts(key)
		must(t, err)
		_, err = kv.Apply(t.Context(), kvstore.Batch{Puts: []kvstore.Put{
			{Key: key, Value: value}, {
				Key:   kvstore.Key("p", parts[len(parts)-1], "pl_aside", "00000"),
				Value: all[int(entry)%len(all)].Value,
			},
		}})
		must(t, err)
		r := newFixtureRig(t, &fx, kv)
		r.call, r.token = call, token
		for _, err := range handled(t, r) {
			if !isDamage(err) {
				t.Errorf("%q: %v", key, err)
			}
		}
		// schemas, their uses and names are the store's as a whole
		if !strings.Contains("stx", string(key[:1])) {
			r.other()
		}
	})
}

// A single bit of a store that flips never lets a call through that was not
// approved.
func TestFlippedBitsNeverApprove(t *testing.T) {
	t.Parallel()
	const file = "testdata/stores/v1/at_a_gate.txt"
	fx := fixtures["at a gate"]
	whole, call, _ := readFixture(t, file)
	f := newFixtureRig(t, &fx, whole)
	f.call = call
	ag, err := agent.New(f.config)
	must(t, err)
	all := entries(t, whole)
	for at, e := range all {
		for i := range testlength.EachNth(17, len(e.Value)*8) { // all bits of a byte in turn
			kv := kvstore.NewMemory()
			var b kvstore.Batch
			for other, e := range all {
				value := bytes.Clone(e.Value)
				if other == at {
					value[i/8] ^= 1 << (i % 8)
				}
				b.Puts = append(b.Puts, kvstore.Put{Key: e.Key, Value: value})
			}
			_, err := kv.Apply(t.Context(), b)
			must(t, err)
			f.public = public.NewStore(kv, f.o.session)
			f.store = hold.Of(f.public)
			f.Runner, err = runner.New(ag, f.public, f.o.runner)
			must(t, err)
			for _, err := range handled(t, f) {
				if !isDamage(err) {
					t.Errorf("bit %d of %q: %v", i, e.Key, err)
				}
			}
			if f.n.get("refund") > 0 {
				t.Fatalf("bit %d of %q: the refund was made", i, e.Key)
			}
			must(t, f.Close())
		}
	}
}
