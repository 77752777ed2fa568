package bench

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// BenchmarkIdleFollowers is what following 1,000 sessions costs in which
// nothing happens, each by one follower, on bbolt. BenchmarkIdleStreams has
// streams of one session.
func BenchmarkIdleFollowers(b *testing.B) {
	const sessions = 1000
	kv := &tally{Exclusive: openBolt(b)}
	rn := newRunner(b, session.NewStore(kv, nil), plain{llm.Text{Text: "Hello."}})
	defer rn.Close()
	for i := range sessions {
		drain(b, rn.Run(b.Context(), "ada", sessionID(i), llm.UserText("Hi."), nil), event.FinishStop)
	}
	var memory, goroutines, reads float64
	for b.Loop() {
		ctx, leave := context.WithCancel(b.Context())
		before, running := inUse(), runtime.NumGoroutine()
		var all, resting sync.WaitGroup
		resting.Add(sessions)
		for i := range sessions {
			all.Go(func() {
				o := &runner.FollowOptions{Stay: true}
				for ev := range rn.Follow(ctx, sessionID(i), "ada", o) {
					if _, rests := ev.(event.End); rests {
						resting.Done()
					}
				}
			})
		}
		resting.Wait()
		kv.take(1)
		begun := time.Now()
		time.Sleep(time.Second)
		reads = kv.take(1).reads / time.Since(begun).Seconds()
		memory = (inUse() - before) / sessions
		goroutines = float64(runtime.NumGoroutine()-running) / sessions
		leave()
		all.Wait()
	}
	b.ReportMetric(memory/1000, "kB/follower")
	b.ReportMetric(goroutines, "goroutines/follower")
	b.ReportMetric(reads, "reads/s")
	b.ReportMetric(0, "ns/op") // of no meaning here
}
