package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/bolt"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// BenchmarkPauseResume runs cycles, durable, on bbolt: Run until paused; then Resume, and drive to the final message, all read
// from the store again in between.
//
//	commits/cycle  batches applied
//	cycles/s       of all sessions together
//	pct-of-bound   over as many bare commits of the same size through the same engine, in turns with them
//
// With 1,000 messages of history, which each cycle decodes for the model, x-1000-vs-10 is the acceptance's share of it: Resume
// calls per second over those at 10 messages.
func BenchmarkPauseResume(b *testing.B) {
	for _, sessions := range []int{1, 64} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) { cycles(b, sessions, 10) })
	}
	b.Run("sessions=64/history=1000", func(b *testing.B) { cycles(b, 64, 1000) })
}

func cycles(b *testing.B, sessions, history int) {
	const rounds = 7
	f := newFleet(b, sessions, history)
	var perSecond, share []float64
	for b.Loop() {
		for range rounds {
			f.kv.commits.Store(0)
			f.kv.total.Store(0)
			n := f.cyclesPerSession()
			start := time.Now()
			f.each(func(i int) {
				for range n {
					f.cycle(b, i)
				}
			})
			took := time.Since(start)
			done := float64(n * sessions)
			commits, size := f.kv.commits.Load(), f.kv.total.Load()/max(1, f.kv.commits.Load())
			bound := f.bare(b, int(commits)/sessions, int(size))
			perSecond = append(perSecond, done/took.Seconds())
			share = append(share, 100*bound.Seconds()/took.Seconds())
			b.ReportMetric(float64(commits)/done, "commits/cycle")
		}
	}
	b.ReportMetric(median(perSecond), "cycles/s")
	b.ReportMetric(median(share), "pct-of-bound")
	b.ReportMetric(0, "ns/op") // of no meaning here
}

// fleet is sessions on one store.
type fleet struct {
	sessions int
	rn       *runner.Runner
	kv       *counting
	db       *bolt.Store
}

func newFleet(b *testing.B, sessions, history int) *fleet {
	db, err := bolt.Open(filepath.Join(b.TempDir(), "store.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	f := &fleet{sessions: sessions, kv: &counting{Exclusive: db}, db: db}
	store := session.NewStore(f.kv, nil)
	f.rn = newRunner(b, store, plain{llm.ToolCall{Name: "job", Arguments: json.RawMessage(`{"text":"x"}`)}, llm.Text{Text: "Done."}}, job)
	f.each(func(i int) {
		f.cycle(b, i)
		fill(b, store, sessionID(i), history)
	})
	return f
}

// cyclesPerSession keeps a round below a second or so.
func (f *fleet) cyclesPerSession() int {
	if f.sessions == 1 {
		return 60
	}
	return 8
}

func (f *fleet) each(do func(i int)) {
	var all sync.WaitGroup
	for i := range f.sessions {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

func (f *fleet) cycle(b *testing.B, i int) {
	id := sessionID(i)
	end := drain(b, f.rn.Run(context.Background(), "ada", id, llm.UserText("Go."), nil), event.FinishPaused)
	res, err := f.rn.Resume(context.Background(), id, runner.Complete(end.Pending[0].ID, jobDone, "ci"))
	if err != nil {
		b.Fatal(err)
	}
	drain(b, res.Events(context.Background()), event.FinishStop)
}

// bare takes the time of commits of one value, by as many writers as there are sessions, through the same engine.
func (f *fleet) bare(b *testing.B, perSession, size int) time.Duration {
	value := make([]byte, size)
	start := time.Now()
	f.each(func(i int) {
		for n := range perSession {
			key := kvstore.Key("z", sessionID(i), fmt.Sprint(n))
			_, err := f.db.Apply(context.Background(), kvstore.Batch{Puts: []kvstore.Put{{Key: key, Value: value}}})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	return time.Since(start)
}

// BenchmarkDuplicate redelivers an answer that was accepted: dup/s, and writes, of which there are none.
func BenchmarkDuplicate(b *testing.B) {
	f := newFleet(b, 1, 10)
	end := drain(b, f.rn.Run(b.Context(), "ada", sessionID(0), llm.UserText("Go."), nil), event.FinishPaused)
	again := runner.Complete(end.Pending[0].ID, jobDone, "ci")
	if _, err := f.rn.Resume(b.Context(), sessionID(0), again); err != nil {
		b.Fatal(err)
	}
	f.kv.commits.Store(0)
	for b.Loop() {
		res, err := f.rn.Resume(b.Context(), sessionID(0), again)
		if err != nil || !res.Receipts[0].Duplicate {
			b.Fatal(res, err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "dup/s")
	b.ReportMetric(float64(f.kv.commits.Load()), "writes")
}

// BenchmarkBurst has 1,000 answers come at once for 1,000 sessions: x-vs-bound is the time until all are accepted, over that of
// as many bare commits of the same size by as many writers.
func BenchmarkBurst(b *testing.B) {
	const sessions, rounds = 1000, 3
	f := newFleet(b, sessions, 10)
	var ratios []float64
	for b.Loop() {
		for range rounds {
			pauses := make([]string, sessions)
			f.each(func(i int) {
				end := drain(b, f.rn.Run(context.Background(), "ada", sessionID(i), llm.UserText("Go."), nil), event.FinishPaused)
				pauses[i] = end.Pending[0].ID
			})
			f.kv.commits.Store(0)
			f.kv.total.Store(0)
			start := time.Now()
			f.each(func(i int) {
				if _, err := f.rn.Resume(context.Background(), sessionID(i), runner.Complete(pauses[i], jobDone, "ci")); err != nil {
					b.Error(err)
				}
			})
			took := time.Since(start)
			bound := f.bare(b, int(f.kv.commits.Load())/sessions, int(f.kv.total.Load()/f.kv.commits.Load()))
			ratios = append(ratios, took.Seconds()/bound.Seconds())
			f.each(func(i int) { drain(b, f.rn.Continue(context.Background(), sessionID(i)), event.FinishStop) })
		}
	}
	b.ReportMetric(median(ratios), "x-vs-bound")
	b.ReportMetric(0, "ns/op") // of no meaning here
}

// BenchmarkIdleWork compares what a worker's look for work costs over a million idle sessions with what it costs over a
// thousand, nothing being due.
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

// idleStore is a store with idle sessions. They are copies of one that was made by a run.
func idleStore(b *testing.B, sessions int) *session.Store {
	kv := kvstore.NewMemory()
	store := session.NewStore(kv, nil)
	rn := newRunner(b, store, plain{llm.Text{Text: "Hello."}})
	drain(b, rn.Run(b.Context(), "ada", sessionID(0), llm.UserText("Hello?"), nil), event.FinishStop)
	page, err := kv.Scan(b.Context(), kvstore.Range{})
	if err != nil {
		b.Fatal(err)
	}
	var batch kvstore.Batch
	for i := 1; i < sessions; i++ {
		for _, e := range page.Entries {
			if e.Key[0] == 'h' || e.Key[0] == 'm' {
				batch.Puts = append(batch.Puts, kvstore.Put{Key: renamed(e.Key, i), Value: renamed(e.Value, i)})
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

// renamed is a record of the first session as that of another one.
func renamed(b []byte, i int) []byte {
	return bytes.ReplaceAll(b, []byte(sessionID(0)), []byte(sessionID(i)))
}

// look is a worker's look for work, many times.
func look(b *testing.B, s *session.Store) float64 {
	start := time.Now()
	for range 2000 {
		due, more, _, err := s.Due(b.Context(), "bench", nil)
		if err != nil || len(due) > 0 || more {
			b.Fatal(due, more, err)
		}
	}
	return time.Since(start).Seconds()
}
