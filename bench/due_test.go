package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// BenchmarkDue has a worker carry on 2,000 sessions of one user that are due,
// and one of another user's that became due after them, on bbolt.
//
//	ms/session     to carry one on
//	reads/session  of the store
//	KB/session     read and written
//	other-came-at  how many of the first user's had come when the other's did
func BenchmarkDue(b *testing.B) {
	const many = 2000
	var ms, reads, kb, came []float64
	for b.Loop() {
		kv := &tally{Exclusive: openBolt(b)}
		rn := dueSessions(b, session.NewStore(kv, nil), many)
		kv.take(1)
		begun := time.Now()
		came = append(came, carryOn(b, rn, many+1))
		ms = append(ms, float64(time.Since(begun).Milliseconds())/many)
		c := kv.take(many)
		reads, kb = append(reads, c.reads), append(kb, c.bytes/1024)
		rn.Close()
	}
	b.ReportMetric(median(ms), "ms/session")
	b.ReportMetric(median(reads), "reads/session")
	b.ReportMetric(median(kb), "KB/session")
	b.ReportMetric(median(came), "other-came-at")
	b.ReportMetric(0, "ns/op") // of no meaning here
}

// other is the session of the user who has only one.
const other = "z-other"

// dueSessions sends a message to each of many sessions, and then to other.
func dueSessions(b *testing.B, store *session.Store, many int) *runner.Runner {
	rn := newRunner(b, store, delegating{})
	send := func(user, id string) error {
		_, err := rn.Send(b.Context(), user, id, llm.UserText("Go."), nil)
		return err
	}
	var next atomic.Int64
	var all sync.WaitGroup
	for range 64 { // who share their commits
		all.Go(func() {
			for i := next.Add(1); i <= int64(many); i = next.Add(1) {
				if err := send("many", fmt.Sprintf("m-%05d", i)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := send("one", other); err != nil {
		b.Fatal(err)
	}
	return rn
}

// carryOn has a worker carry sessions on until so many have ended, and returns
// how many others had when other did.
func carryOn(b *testing.B, rn *runner.Runner, sessions int64) (before float64) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var ended, at atomic.Int64
	err := rn.Work(ctx, &runner.WorkOptions{OnEvent: func(id string, ev event.Event, err error) {
		if _, over := ev.(event.End); !over {
			return
		}
		n := ended.Add(1)
		if id == other {
			at.Store(n - 1)
		}
		if n == sessions {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		b.Fatal(err)
	}
	return float64(at.Load())
}
