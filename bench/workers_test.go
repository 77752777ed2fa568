package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fermatatest/sharedkv"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// BenchmarkWorkers has 1, 4 and 16 workers, each as a process of its own has
// it, carry on 600 sessions that are due, over one engine that they share by
// TCP. In "burst" all are due when the workers begin. In "stream" another
// process sends a message to one after the other, as fast as it can.
//
//	ms/session         until the last one has ended, and shared by all
//	gets/session       and what else the workers ask of the engine
//	entries/session    that scans read
//	conflicts/session  writes for which another worker was faster
//	ms-to-begin        from the message to the session's first event, the median
func BenchmarkWorkers(b *testing.B) {
	for _, mode := range []string{"burst", "stream"} {
		for _, n := range []int{1, 4, 16} {
			b.Run(fmt.Sprintf("%s/workers=%d", mode, n), func(b *testing.B) {
				for b.Loop() {
					benchWorkers(b, n, mode == "stream")
				}
				b.ReportMetric(0, "ns/op") // of no meaning here
			})
		}
	}
}

// asked counts what is asked of an engine.
type asked struct {
	*sharedkv.SignalClient
	gets, scans, entries, applies, conflicts *atomic.Int64
}

func (a asked) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	a.gets.Add(1)
	return a.SignalClient.Get(ctx, key)
}

func (a asked) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	a.scans.Add(1)
	p, err := a.SignalClient.Scan(ctx, r)
	a.entries.Add(int64(len(p.Entries)))
	return p, err
}

func (a asked) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	a.applies.Add(1)
	r, err := a.SignalClient.Apply(ctx, b)
	if errors.Is(err, kvstore.ErrConflict) {
		a.conflicts.Add(1)
	}
	return r, err
}

func benchWorkers(b *testing.B, workers int, stream bool) {
	const many = 600
	server, err := sharedkv.Listen(kvstore.NewMemory())
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	var gets, scans, entries, applies, conflicts atomic.Int64
	open := func() *runner.Runner {
		kv := asked{sharedkv.OpenSignals(b.Context(), server.Addr(), nil), &gets, &scans, &entries,
			&applies, &conflicts}
		b.Cleanup(func() { kv.Close() })
		ag, err := agent.New(agent.Config{Name: "ops", Model: delegating{}})
		if err != nil {
			b.Fatal(err)
		}
		rn, err := runner.New(ag, session.NewStore(kv, nil),
			&runner.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { rn.Close() })
		return rn
	}
	var mu sync.Mutex
	sent, came := map[string]time.Time{}, map[string]time.Duration{}
	ended := map[string]bool{}
	over := make(chan struct{})
	onEvent := func(id string, ev event.Event, _ error) {
		mu.Lock()
		defer mu.Unlock()
		if _, begun := came[id]; !begun {
			came[id] = time.Since(sent[id])
		}
		if _, isEnd := ev.(event.End); isEnd && !ended[id] {
			if ended[id] = true; len(ended) == many {
				close(over)
			}
		}
	}
	front := open()
	send := func() {
		var next atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for i := next.Add(1); i <= many; i = next.Add(1) {
					id := fmt.Sprintf("m-%05d", i)
					mu.Lock()
					sent[id] = time.Now()
					mu.Unlock()
					_, err := front.Send(b.Context(), fmt.Sprint("user ", i%50), id, llm.UserText("Go."), nil)
					if err != nil {
						b.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
	ctx, stop := context.WithCancel(b.Context())
	var works sync.WaitGroup
	begin := func() {
		for range workers {
			rn := open()
			works.Go(func() { _ = rn.Work(ctx, &runner.WorkOptions{OnEvent: onEvent, SweepEvery: -1}) })
		}
	}
	if !stream {
		send()
	}
	for _, n := range []*atomic.Int64{&gets, &scans, &entries, &applies, &conflicts} {
		n.Store(0)
	}
	begun := time.Now()
	begin()
	if stream {
		send()
	}
	<-over
	took := time.Since(begun)
	stop()
	works.Wait()
	var waits []float64
	for _, d := range came {
		waits = append(waits, float64(d.Microseconds())/1000)
	}
	per := func(n *atomic.Int64) float64 { return float64(n.Load()) / many }
	b.ReportMetric(float64(took.Microseconds())/1000/many, "ms/session")
	b.ReportMetric(per(&gets), "gets/session")
	b.ReportMetric(per(&scans), "scans/session")
	b.ReportMetric(per(&entries), "entries/session")
	b.ReportMetric(per(&applies), "applies/session")
	b.ReportMetric(per(&conflicts), "conflicts/session")
	b.ReportMetric(median(waits), "ms-to-begin")
}
