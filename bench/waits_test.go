package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// BenchmarkOpenWaits compares a store with 100,000 open wait handles of everyone
// on it with one of ten, on bbolt: what it costs to complete one, to read a page
// of ten of the list with its counts, and what a worker costs that has nothing to
// do.
//
//	x-complete, x-page      time, over that with ten
//	x-complete-kB           bytes read and written, likewise
//	ms/complete, ms/page    with 100,000
//	kB-heap                 that an idle worker adds, with 100,000
func BenchmarkOpenWaits(b *testing.B) {
	few, many := openWaits(b, 10), openWaits(b, 100_000)
	var complete, page, kb []float64
	var completes, pages time.Duration
	var last idle
	n := 0
	for b.Loop() {
		const each = 50
		var of [2][2]time.Duration
		var bytes [2]float64
		for range each { // in turns, so that both see the same noise
			n++
			for i, s := range []*waitStore{few, many} {
				name := runner.WaitName{Scope: tool.StoreScope, ID: fmt.Sprint("new-", n)}
				s.create(b, name)
				s.kv.take(1)
				begun := time.Now()
				s.complete(b, name)
				of[i][0] += time.Since(begun)
				bytes[i] += s.kv.take(1).bytes
				begun = time.Now()
				s.page(b)
				of[i][1] += time.Since(begun)
			}
		}
		complete = append(complete, float64(of[1][0])/float64(of[0][0]))
		page = append(page, float64(of[1][1])/float64(of[0][1]))
		kb = append(kb, bytes[1]/bytes[0])
		completes, pages = of[1][0]/each, of[1][1]/each
		last = idleWork(b, many.kv, func(ctx context.Context) { _ = many.rn.Work(ctx, nil) })
	}
	b.ReportMetric(median(complete), "x-complete")
	b.ReportMetric(median(page), "x-page")
	b.ReportMetric(median(kb), "x-complete-kB")
	b.ReportMetric(completes.Seconds()*1000, "ms/complete")
	b.ReportMetric(pages.Seconds()*1000, "ms/page")
	b.ReportMetric(last.heap/1000, "kB-heap")
	b.ReportMetric(last.goroutines, "goroutines")
	b.ReportMetric(0, "ns/op") // of no meaning here
}

// waitStore is a store with open wait handles.
type waitStore struct {
	kv *tally
	rn *runner.Runner
}

// openWaits returns a store with so many of them. Each has a deadline, far away.
func openWaits(b *testing.B, n int) *waitStore {
	s := &waitStore{kv: &tally{Exclusive: openBolt(b)}}
	s.rn = newRunner(b, session.NewStore(s.kv, nil), plain{})
	var makers sync.WaitGroup
	const side = 64
	for g := range side {
		makers.Go(func() {
			for i := g; i < n; i += side {
				s.create(b, runner.WaitName{Scope: tool.StoreScope, ID: fmt.Sprint("open-", i)})
			}
		})
	}
	makers.Wait()
	return s
}

func (s *waitStore) create(b *testing.B, name runner.WaitName) {
	_, err := s.rn.CreateWait(b.Context(), name,
		runner.NewWait{Type: tool.CustomWait, Timeout: 24 * time.Hour}, "bench")
	if err != nil {
		b.Error(err)
	}
}

func (s *waitStore) complete(b *testing.B, name runner.WaitName) {
	_, err := s.rn.CompleteWait(b.Context(), name, runner.WaitEnd{Result: json.RawMessage(`{"ok":true}`)},
		"bench")
	if err != nil {
		b.Error(err)
	}
}

func (s *waitStore) page(b *testing.B) {
	p, err := s.rn.Waits(b.Context(), runner.WaitName{Scope: tool.StoreScope},
		runner.WaitFilter{Status: tool.WaitPending, Limit: 10}, "bench")
	if err != nil || len(p.Waits) != 10 {
		b.Errorf("a page of %d: %v", len(p.Waits), err)
	}
}
