package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/hold"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/bolt"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// BenchmarkPauseResume runs cycles, durable, on bbolt: Run until paused; then
// Resume, and drive to the final message, each by a drive of its own. The
// histories have room in the runner's memory. After a few cycles a session makes
// place for a new one, so that its history keeps about its length.
//
//	commits/cycle  batches applied
//	cycles/s       of all sessions together
//	pct-of-bound   over as many bare commits, of as many entries (put or
//	               deleted) and bytes, through the same engine, in turns with
//	               them
//	x-1000-vs-10   Resume calls per second at 1,000 messages of history, over
//	               those at 10, in turns
func BenchmarkPauseResume(b *testing.B) {
	for _, sessions := range []int{1, 64} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			cycles(b, newFleet(b, sessions, 10))
		})
	}
	b.Run("sessions=64/history=1000", func(b *testing.B) {
		far := newFleet(b, 64, 1000)
		cycles(b, far)
		acceptance(b, newFleet(b, 64, 10), far)
	})
}

func cycles(b *testing.B, f *fleet) {
	const rounds, each = 9, 5
	turns := max(1, 8/f.sessions)
	var perSecond, share []float64
	for b.Loop() {
		for range rounds {
			var took, bound time.Duration
			var commits int64
			for range turns {
				f.renew(b)
				took += f.each(func(i int) {
					for range each {
						f.finish(b, f.accept(b, i, f.pause(b, i)))
					}
				})
				commits += f.kv.commits.Load()
				bound += f.bare(b)
			}
			done := float64(turns * each * f.sessions)
			perSecond = append(perSecond, done/took.Seconds())
			share = append(share, 100*bound.Seconds()/took.Seconds())
			b.ReportMetric(float64(commits)/done, "commits/cycle")
		}
	}
	b.ReportMetric(median(perSecond), "cycles/s")
	b.ReportMetric(median(share), "pct-of-bound")
	b.ReportMetric(0, "ns/op") // of no meaning here
}

// acceptance compares how fast Resume accepts the answers of two fleets.
func acceptance(b *testing.B, short, far *fleet) {
	const rounds = 15
	var ratios []float64
	resume := func(f *fleet) time.Duration {
		f.renew(b)
		pauses, accepted := make([]string, f.sessions), make([]*runner.Resumed, f.sessions)
		f.each(func(i int) { pauses[i] = f.pause(b, i) })
		took := f.each(func(i int) { accepted[i] = f.accept(b, i, pauses[i]) })
		f.each(func(i int) { f.finish(b, accepted[i]) })
		return took
	}
	for range rounds {
		ratios = append(ratios, resume(short).Seconds()/resume(far).Seconds())
	}
	b.ReportMetric(median(ratios), "x-1000-vs-10")
}

// fleet is sessions on one store.
type fleet struct {
	sessions, history int
	renewed           int
	rn                *runner.Runner
	store             *session.Store
	kv                *counting
	db                *bolt.Store
}

func newFleet(b *testing.B, sessions, history int) *fleet {
	db := openBolt(b)
	f := &fleet{sessions: sessions, history: history, kv: &counting{Exclusive: db}, db: db}
	f.store = session.NewStore(f.kv, nil)
	f.rn = newRunner(b, f.store,
		plain{llm.ToolCall{Name: "job", Arguments: json.RawMessage(`{"text":"x"}`)},
			llm.Text{Text: "Done."}}, job)
	f.renew(b)
	return f
}

// renew makes new sessions, and counts anew what is written.
func (f *fleet) renew(b *testing.B) {
	f.renewed++
	f.each(func(i int) {
		f.finish(b, f.accept(b, i, f.pause(b, i)))
		fill(b, f.store, f.id(i), f.history)
	})
	f.kv.reset()
}

func (f *fleet) id(i int) string { return sessionID(f.renewed*f.sessions + i) }

// each does something for all sessions at once, and returns how long that took.
func (f *fleet) each(do func(i int)) time.Duration {
	start := time.Now()
	var all sync.WaitGroup
	for i := range f.sessions {
		all.Go(func() { do(i) })
	}
	all.Wait()
	return time.Since(start)
}

// pause runs a session until it is paused.
func (f *fleet) pause(b *testing.B, i int) (pause string) {
	end := drain(b, f.rn.Run(context.Background(), "ada", f.id(i), llm.UserText("Go."), nil),
		event.FinishPaused)
	return end.Pending[0].ID
}

// accept answers its pause.
func (f *fleet) accept(b *testing.B, i int, pause string) *runner.Resumed {
	res, err := f.rn.Resume(context.Background(), f.id(i), runner.Complete(pause, "ci", jobDone))
	if err != nil {
		b.Fatal(err)
	}
	return res
}

// finish drives it to the final message.
func (f *fleet) finish(b *testing.B, res *runner.Resumed) {
	drain(b, res.Events(context.Background()), event.FinishStop)
}

// bare takes the time of as many bare commits as were counted, by as many writers
// as there are sessions, through the same engine.
func (f *fleet) bare(b *testing.B) time.Duration {
	commits, like := int(f.kv.commits.Load()), f.kv.bare()
	return f.each(func(i int) {
		for n := range commits / f.sessions {
			if _, err := f.db.Apply(context.Background(), like(f.id(i), fmt.Sprint(n))); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkDuplicate redelivers an answer that was accepted: dup/s, and writes,
// of which there are none.
func BenchmarkDuplicate(b *testing.B) {
	f := newFleet(b, 1, 10)
	again := runner.Complete(f.pause(b, 0), "ci", jobDone)
	if _, err := f.rn.Resume(b.Context(), f.id(0), again); err != nil {
		b.Fatal(err)
	}
	f.kv.reset()
	for b.Loop() {
		res, err := f.rn.Resume(b.Context(), f.id(0), again)
		if err != nil || !res.Receipts[0].Duplicate {
			b.Fatal(res, err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "dup/s")
	b.ReportMetric(float64(f.kv.commits.Load()), "writes")
}

// BenchmarkBurst has 1,000 answers come at once for 1,000 sessions: x-vs-bound
// is the time until all are accepted, over that of as many bare commits, of as
// many entries and bytes, by as many writers.
func BenchmarkBurst(b *testing.B) {
	const sessions, rounds = 1000, 9
	f := newFleet(b, sessions, 10)
	var ratios []float64
	for b.Loop() {
		for range rounds {
			f.renew(b)
			pauses, accepted := make([]string, sessions), make([]*runner.Resumed, sessions)
			f.each(func(i int) { pauses[i] = f.pause(b, i) })
			f.kv.reset()
			took := f.each(func(i int) { accepted[i] = f.accept(b, i, pauses[i]) })
			bound := f.bare(b)
			ratios = append(ratios, took.Seconds()/bound.Seconds())
			f.each(func(i int) { f.finish(b, accepted[i]) })
		}
	}
	b.ReportMetric(median(ratios), "x-vs-bound")
	b.ReportMetric(0, "ns/op") // of no meaning here
}

// BenchmarkIdleWork compares what a worker's look for work costs over a million
// idle sessions with what it costs over a thousand, nothing being due.
func BenchmarkIdleWork(b *testing.B) {
	few, many := idleStore(b, 1000), idleStore(b, 1_000_000)
	var ratios []float64
	for b.Loop() {
		for range 15 {
			ratios = append(ratios, look(b, many)/look(b, few))
		}
	}
	b.ReportMetric(median(ratios), "x-1m-vs-1k")
	b.ReportMetric(0, "ns/op") // of no meaning here
}

// idleStore returns a store with idle sessions: copies of one that a run has
// made.
func idleStore(b *testing.B, sessions int) *session.Store {
	kv := kvstore.NewMemory()
	store := session.NewStore(kv, nil)
	rn := newRunner(b, store, plain{llm.Text{Text: "Hello."}})
	drain(b, rn.Run(b.Context(), "ada", sessionID(0), llm.UserText("Hello?"), nil),
		event.FinishStop)
	page, err := kv.Scan(b.Context(), kvstore.Range{})
	if err != nil {
		b.Fatal(err)
	}
	var batch kvstore.Batch
	for i := 1; i < sessions; i++ {
		for _, e := range page.Entries {
			if e.Key[0] == 'h' || e.Key[0] == 'm' {
				batch.Puts = append(batch.Puts,
					kvstore.Put{Key: renamed(e.Key, i), Value: renamed(e.Value, i)})
			}
		}
		if len(batch.Puts) > 90 || i == sessions-1 {
			if _, err := kv.Apply(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
			batch.Puts = batch.Puts[:0]
		}
	}
	return store
}

// renamed returns a record of the first session as that of another one.
func renamed(b []byte, i int) []byte {
	return bytes.ReplaceAll(b, []byte(sessionID(0)), []byte(sessionID(i)))
}

// look is a worker's look for work, many times.
func look(b *testing.B, s *session.Store) float64 {
	start := time.Now()
	for range 2000 {
		due, more, _, err := hold.Of(s).Due(b.Context(), "bench", nil)
		if err != nil || len(due) > 0 || more {
			b.Fatal(due, more, err)
		}
	}
	return time.Since(start).Seconds()
}
