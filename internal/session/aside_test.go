package session_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
)

// grow makes a head of about so many bytes.
func grow(n int) session.Transition {
	return func(tx *session.Tx) error {
		tx.Stop(event.FinishFailed, "")
		tx.Halt.Why = strings.Repeat("x", n)
		return nil
	}
}

func begun(t *testing.T, kv kvstore.Store) *session.Store {
	t.Helper()
	s := session.NewStore(kv, nil)
	d, err := s.Acquire(t.Context(), "s", &session.New{User: "ada"})
	must(t, err)
	must(t, d.Update(t.Context()))
	d.Release()
	return s
}

func values(t *testing.T, kv kvstore.Store, prefix string) []kvstore.Entry {
	t.Helper()
	page, err := kv.Scan(t.Context(), kvstore.Range{Prefix: kvstore.Key(prefix)})
	must(t, err)
	return page.Entries
}

// Heads of every size are written as a whole, or not, at each write at which
// the process may die. What a head that lay aside leaves is swept.
func TestHeadsOfEverySize(t *testing.T) {
	sizes := []int{10, 70 << 10, 200 << 10, 10, 900 << 10, 60 << 10, 70 << 10, 10}
	run := func(s *session.Store, from int) (done int, err error) {
		for i, n := range sizes[from:] {
			if err := s.Update(t.Context(), "s", grow(n)); err != nil {
				return from + i, err
			}
		}
		return len(sizes), nil
	}
	whole := faultkv.New(kvstore.NewMemory())
	s := begun(t, whole.Store)
	before := whole.Applies()
	_, err := run(s, 0)
	must(t, err)
	if left := values(t, whole.Store, "p"); len(left) > 0 {
		t.Errorf("%d pieces are left", len(left))
	}
	cuts := faultkv.Cuts(whole.Applies())[2*before:]
	for i := range testlength.EachNth(5, len(cuts)) {
		cut := cuts[i]
		kv := kvstore.NewMemory()
		s := begun(t, faultkv.New(kv, cut).Store)
		done, err := run(s, 0)
		s = session.NewStore(kv, &session.Options{Now: func() time.Time {
			return time.Now().Add(2 * time.Hour)
		}})
		st, loadErr := s.Load(t.Context(), "s")
		must(t, loadErr)
		if got := len(haltOf(st)); err != nil && got != sizes[done] && (done == 0 && got != 0 ||
			done > 0 && got != sizes[done-1]) {
			t.Errorf("%v: cut off at %d, it has %d bytes", cut, done, got)
		}
		_, err = s.Sweep(t.Context(), nil)
		must(t, err)
		_, err = s.Load(t.Context(), "s")
		must(t, err)
		for p, err := range s.Check(t.Context()) {
			must(t, err)
			t.Errorf("%v: %v", cut, p)
		}
		if done == len(sizes) {
			done--
		}
		_, err = run(s, done)
		must(t, err)
		_, err = s.Sweep(t.Context(), &session.Retention{Orphans: time.Nanosecond})
		must(t, err)
		if left := values(t, kv, "p"); len(left) > 0 {
			t.Errorf("%v: %d pieces are left", cut, len(left))
		}
	}
}

func haltOf(st *session.State) string {
	if st.Halt == nil {
		return ""
	}
	return st.Halt.Why
}

// A head that lies aside, and is damaged there, is damaged; and so is a signpost
// of nothing.
func TestDamagedHeadAside(t *testing.T) {
	for name, damage := range map[string]func(head, piece kvstore.Entry) kvstore.Batch{
		"a piece is missing": func(_, piece kvstore.Entry) kvstore.Batch {
			return kvstore.Batch{Deletes: [][]byte{piece.Key}}
		},
		"a piece is cut off": func(_, piece kvstore.Entry) kvstore.Batch {
			return kvstore.Batch{
				Puts: []kvstore.Put{{Key: piece.Key, Value: piece.Value[:len(piece.Value)-1]}},
			}
		},
		"another size": func(head, _ kvstore.Entry) kvstore.Batch {
			return kvstore.Batch{
				Puts: []kvstore.Put{
					{
						Key: head.Key,
						Value: []byte(strings.Replace(string(head.Value), `"size":`,
							`"size":1`, 1)),
					},
				},
			}
		},
		"another place": func(head, _ kvstore.Entry) kvstore.Batch {
			return kvstore.Batch{
				Puts: []kvstore.Put{
					{
						Key: head.Key,
						Value: []byte(strings.Replace(string(head.Value), `"ref":"pl_`,
							`"ref":"pm_`, 1)),
					},
				},
			}
		},
		"another session": func(head, _ kvstore.Entry) kvstore.Batch {
			return kvstore.Batch{
				Puts: []kvstore.Put{
					{
						Key: head.Key,
						Value: []byte(strings.Replace(string(head.Value), `"id":"s"`,
							`"id":"z"`, 1)),
					},
				},
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			kv := kvstore.NewMemory()
			s := begun(t, kv)
			must(t, s.Update(t.Context(), "s", grow(100<<10)))
			_, err := kv.Apply(t.Context(), damage(values(t, kv, "h")[0], values(t, kv, "p")[0]))
			must(t, err)
			if _, err := s.Load(t.Context(), "s"); !errors.Is(err, session.ErrCorrupt) &&
				!errors.Is(err, session.ErrNewerVersion) ||
				errors.Is(err, session.ErrUnknownSession) {
				t.Errorf("it is read as %v", err)
			}
			n := 0
			for p, err := range s.Check(t.Context()) {
				must(t, err)
				n++
				t.Log(p)
			}
			if n == 0 {
				t.Error("a check finds nothing")
			}
		})
	}
}
