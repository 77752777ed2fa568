package session_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
)

// A look from a front on finds what a look at all of the index finds, and the
// front stays before what it found and is still there: what is due at once, and
// what has a time.
func TestAFrontStaysBeforeWhatIsDue(t *testing.T) {
	kv := kvstore.NewMemory()
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	s := session.NewStore(struct{ kvstore.Store }{kv},
		&session.Options{Now: func() time.Time { return now }})
	atOnce := func(at time.Time, id string) []byte {
		return kvstore.Key("w", "ops", fmt.Sprintf("%014d", at.Unix()), id)
	}
	timed := func(at time.Time, id string) []byte {
		return kvstore.Key("w", "ops", fmt.Sprintf("%014d", at.UnixMilli()), id)
	}
	old := [][]byte{atOnce(now, "a"), timed(now, "b")}
	put := func(keys ...[]byte) {
		var b kvstore.Batch
		for _, key := range keys {
			b.Puts = append(b.Puts, kvstore.Put{Key: key, Value: []byte("ada")})
		}
		_, err := kv.Apply(t.Context(), b)
		must(t, err)
	}
	look := func(f session.Front, next time.Time, want ...string) session.Front {
		t.Helper()
		p, err := s.DueFrom(t.Context(), "ops", f, time.Second)
		must(t, err)
		var got []string
		for _, d := range p.Due {
			got = append(got, d.Session)
		}
		if !slices.Equal(got, want) || p.More || !p.Next.Equal(next) {
			t.Errorf("at %v due are %q, more %v, next %v, and not %q, next %v", now, got, p.More, p.Next,
				want, next)
		}
		return p.Then
	}
	put(old...)
	put(timed(now.Add(time.Minute), "c"))
	f := look(session.Front{}, time.Time{}, "a", "b")
	now = now.Add(59*time.Second + 500*time.Millisecond)
	put(atOnce(now, "d"))
	f = look(f, now.Add(500*time.Millisecond), "a", "d", "b")
	now = now.Add(time.Second)
	f = look(f, time.Time{}, "a", "d", "b", "c")
	_, err := kv.Apply(t.Context(), kvstore.Batch{Deletes: old})
	must(t, err)
	now = now.Add(time.Minute)
	f = look(f, time.Time{}, "d", "c")
	put(old...) // by a commit that was under way for two minutes
	look(f, time.Time{}, "d", "c")
	look(session.Front{}, time.Time{}, "a", "d", "b", "c")
}

// Where very much is due, a look tells that there is more.
func TestAFrontTellsOfMore(t *testing.T) {
	kv := kvstore.NewMemory()
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	s := session.NewStore(struct{ kvstore.Store }{kv},
		&session.Options{Now: func() time.Time { return now }})
	for _, at := range []int64{now.Unix(), now.UnixMilli()} {
		var keys [][]byte
		for i := range 300 {
			keys = append(keys, kvstore.Key("w", "ops", fmt.Sprintf("%014d", at), fmt.Sprint(i)))
		}
		for part := range slices.Chunk(keys, 100) {
			var b kvstore.Batch
			for _, key := range part {
				b.Puts = append(b.Puts, kvstore.Put{Key: key})
			}
			_, err := kv.Apply(t.Context(), b)
			must(t, err)
		}
		p, err := s.DueFrom(t.Context(), "ops", session.Front{}, time.Second)
		must(t, err)
		if !p.More || len(p.Due) < 64 {
			t.Errorf("at %d: %d are due, more: %v", at, len(p.Due), p.More)
		}
		for part := range slices.Chunk(keys, 100) {
			_, err := kv.Apply(t.Context(), kvstore.Batch{Deletes: part})
			must(t, err)
		}
	}
}
