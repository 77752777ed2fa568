package session_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// told is the transition by which a call waits for a child that is told that.
func told(t testing.TB, call, text string) session.Transition {
	t.Helper()
	await, err := tool.Await{Reason: tool.ReasonAgent}.Normalize()
	must(t, err)
	n := &session.NewChild{Agent: "helper", Message: entry(t, llm.UserText(text))}
	return func(tx *session.Tx) error { return tx.Pause(call, &session.Hold{Await: await, Child: n}) }
}

// What a child is told is so large that it is written before the commit that
// makes the child. Cut off at any of these writes, the child is there with all
// of it, or there is none, and then a sweep takes away what was written. It
// leaves what may still be on its way, and what a child refers to.
func TestLargeFirstMessageOfAChildIsNotLeftBehind(t *testing.T) {
	text := strings.Repeat("all work and no play ", 100_000) // 2 MB
	made, left := 0, 0
	for n, struck := 1, true; struck; n++ {
		for _, fault := range []func(int) faultkv.Fault{faultkv.FailAt, faultkv.LoseAt} {
			kv := kvstore.NewMemory()
			faults := faultkv.New(kv)
			p := newParent(t, faults.Store, "c1")
			faults.Add(fault(faults.Applies() + n).AndDie())
			_ = p.lease.Update(t.Context(), told(t, "c1", text))
			struck = faults.Struck() > 0

			kv = kv.Reopen()
			s := session.NewStore(kv, nil)
			_, err := s.Sweep(t.Context(), nil)
			must(t, err)
			before := len(values(t, kv, "p"))
			later := session.NewStore(kv, &session.Options{Now: func() time.Time {
				return time.Now().Add(2 * time.Hour)
			}})
			swept, err := later.Sweep(t.Context(), nil)
			must(t, err)
			st, err := s.Load(t.Context(), childOf("c1"))
			after := len(values(t, kv, "p"))
			switch {
			case err == nil:
				made++
				history, err := s.History(t.Context(), st, 0)
				if must(t, err); history[0].Text() != text {
					t.Errorf("%v: the child is told %d bytes", fault(n), len(history[0].Text()))
				}
				if after != before {
					t.Errorf("%v: of %d pieces, %d are left", fault(n), before, after)
				}
			case after != 0:
				t.Errorf("%v: of %d pieces without a child, %d are left", fault(n), before, after)
			case before > 0 && swept.Payloads >= before:
				left++
			}
			problems(t, s)
		}
	}
	if made < 2 || left < 2 {
		t.Errorf("%d children were made, and %d times something was swept", made, left)
	}
}
