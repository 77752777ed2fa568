package bench

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/session"
)

// idle is what a worker costs that finds nothing to do.
type idle struct {
	reads      float64 // per second
	goroutines float64
	heap       float64 // bytes
}

// idleWork has a worker look at a store for a second. The heap and the
// goroutines are those that it adds.
func idleWork(b *testing.B, kv *tally, work func(context.Context)) (i idle) {
	ctx, cancel := context.WithCancel(b.Context())
	var worker sync.WaitGroup
	defer func() { cancel(); worker.Wait() }()
	heap, goroutines := heapAlloc(), runtime.NumGoroutine()
	worker.Go(func() { work(ctx) })
	time.Sleep(200 * time.Millisecond) // its first rounds
	kv.take(1)
	begun := time.Now()
	time.Sleep(time.Second)
	i.reads = kv.take(1).reads / time.Since(begun).Seconds()
	i.goroutines = float64(runtime.NumGoroutine() - goroutines)
	i.heap = max(0, heapAlloc()-heap)
	return i
}

func heapAlloc() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkOpenChildren compares a worker beside 10,000 children that wait for
// outside jobs, 50 of each session, with one beside 100, on bbolt.
func BenchmarkOpenChildren(b *testing.B) {
	few, many := openChildren(b, 100), openChildren(b, 10_000)
	var reads []float64
	var last idle
	for b.Loop() {
		measure := func(kv *tally) idle {
			rn := newFamily(b, session.NewStore(kv, nil), delegating{50, 50}, plain{}, job)
			defer rn.Close()
			return idleWork(b, kv, func(ctx context.Context) { _ = rn.Work(ctx, nil) })
		}
		one := measure(few)
		last = measure(many)
		reads = append(reads, last.reads/one.reads)
	}
	b.ReportMetric(last.reads, "reads/s")
	b.ReportMetric(last.goroutines, "goroutines")
	b.ReportMetric(last.heap/1000, "kB-heap")
	b.ReportMetric(median(reads), "x-10000-vs-100")
	b.ReportMetric(0, "ns/op") // of no meaning here
}

// openChildren returns a store with so many children that wait: copies of those
// of one session.
func openChildren(b *testing.B, n int) *tally {
	kv := &tally{Exclusive: openBolt(b)}
	rn := newFamily(b, session.NewStore(kv, nil), delegating{50, 50},
		plain{llm.ToolCall{Name: "job", Arguments: []byte(`{"text":"x"}`)}}, job)
	drain(b, rn.Run(b.Context(), "ada", sessionID(0), llm.UserText("Go."), nil),
		event.FinishPaused)
	rn.Close()
	var all []kvstore.Entry
	for r := (kvstore.Range{}); ; {
		page, err := kv.Scan(b.Context(), r)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, page.Entries...)
		if !page.More {
			break
		}
		r.After = page.Entries[len(page.Entries)-1].Key
	}
	var batch kvstore.Batch
	size := 0
	for i := 1; i < n/50; i++ {
		copied := func(of []byte) []byte {
			return bytes.ReplaceAll(renamed(of, i), []byte("call_"), fmt.Appendf(nil, "call%d_", i))
		}
		for j, e := range all {
			if key := copied(e.Key); !bytes.Equal(key, e.Key) { // or else it is of all sessions
				batch.Puts = append(batch.Puts, kvstore.Put{Key: key, Value: copied(e.Value)})
				size += len(key) + len(e.Value)
			}
			if len(batch.Puts) > 90 || size > 200_000 || j == len(all)-1 {
				if _, err := kv.Apply(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
				batch.Puts, size = batch.Puts[:0], 0
			}
		}
	}
	return kv
}

// BenchmarkHeldSessions compares a worker beside 1,000 sessions that drives of
// its process hold, whose models think, with one beside 10, on bbolt.
func BenchmarkHeldSessions(b *testing.B) {
	var reads []float64
	var last idle
	for b.Loop() {
		one := heldSessions(b, 10)
		last = heldSessions(b, 1000)
		reads = append(reads, last.reads/one.reads)
	}
	b.ReportMetric(last.reads, "reads/s")
	b.ReportMetric(median(reads), "x-1000-vs-10")
	b.ReportMetric(0, "ns/op") // of no meaning here
}

func heldSessions(b *testing.B, n int) idle {
	kv := &tally{Exclusive: openBolt(b)}
	var held sync.WaitGroup
	held.Add(n)
	rn := newRunner(b, session.NewStore(kv, nil), thinking(held.Done))
	ctx, cancel := context.WithCancel(b.Context())
	var runs sync.WaitGroup
	for i := range n {
		runs.Go(func() {
			for range rn.Run(ctx, "ada", sessionID(i), llm.UserText("Go."), nil) {
			}
		})
	}
	held.Wait()
	defer func() { cancel(); runs.Wait(); rn.Close() }()
	return idleWork(b, kv, func(ctx context.Context) { _ = rn.Work(ctx, nil) })
}

// thinking is a model that never answers. It tells when it is asked.
type thinking func()

func (asked thinking) Generate(ctx context.Context, _ llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		asked()
		<-ctx.Done()
		yield(nil, ctx.Err())
	}
}
