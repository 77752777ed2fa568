package bench

import (
	"context"
	"encoding/json"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/hold"
	core "github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// BenchmarkHistory compares what an operation costs in a session of 10,000
// messages with what it costs in one of 10, durable, on bbolt, in one file:
//
//	x-10000-vs-10  the median of rounds in which the two take turns
//	bytes/cycle    keys and values in batches, from Run until the final
//	               message, beside the messages themselves
func BenchmarkHistory(b *testing.B) {
	b.Run("Resume", func(b *testing.B) {
		benchHistory(b, func(s *long, p tool.Pause) error {
			_, err := s.rn.Resume(b.Context(), s.id, runner.Complete(p.ID, "ci", jobDone))
			return err
		})
	})
	b.Run("Progress", func(b *testing.B) {
		benchHistory(b, func(s *long, p tool.Pause) error {
			s.clock.Add(int64(time.Second)) // so that each one is written
			return s.rn.Progress(b.Context(), s.id, p.Call, "test",
				tool.Progress{Message: "building", Fraction: 0.5})
		})
	})
	b.Run("Cancel", func(b *testing.B) {
		benchHistory(b, func(s *long, p tool.Pause) error {
			_, err := s.rn.Cancel(b.Context(), s.id, p.Call, "ada", "no longer needed")
			return err
		})
	})
}

func benchHistory(b *testing.B, op func(*long, tool.Pause) error) {
	const rounds = 80
	short := newLong(b)
	far := &long{id: "far", rn: short.rn, store: short.store, clock: short.clock, kv: short.kv}
	// As in any store, there are others: the last one's records would share
	// their pages with what is sorted after them.
	other := &long{id: "third", rn: short.rn, store: short.store, clock: short.clock, kv: short.kv}
	short.begin(b, 10)
	far.begin(b, 10_000)
	other.begin(b, 10)
	var ratios []float64
	for b.Loop() {
		for i := range rounds {
			other.time(b, op)
			if i%2 == 0 { // the order of the two alternates
				ratios = append(ratios, far.time(b, op)/short.time(b, op))
			} else {
				ratios = append(ratios, 1/(short.time(b, op)/far.time(b, op)))
			}
		}
	}
	b.ReportMetric(median(ratios), "x-10000-vs-10")
	b.ReportMetric(median(short.bytes), "bytes/cycle-at-10")
	b.ReportMetric(median(far.bytes), "bytes/cycle")
	b.ReportMetric(0, "ns/op") // of no meaning here
}

// long is a session with a history.
type long struct {
	id    string
	rn    *runner.Runner
	store *session.Store
	clock *atomic.Int64 // what is added to the time
	kv    *counting
	bytes []float64 // of each cycle
}

func newLong(b *testing.B) *long {
	s := &long{id: "short", clock: new(atomic.Int64), kv: &counting{Exclusive: openBolt(b)}}
	s.store = session.NewStore(s.kv,
		&session.Options{Now: func() time.Time {
			return time.Now().Add(time.Duration(s.clock.Load()))
		}})
	s.rn = newRunner(b, s.store,
		plain{llm.ToolCall{Name: "job", Arguments: json.RawMessage(`{"text":"x"}`)},
			llm.Text{Text: "Done."}}, job)
	return s
}

// begin makes the session, with so many messages.
func (s *long) begin(b *testing.B, messages int) {
	drain(b, s.rn.Run(b.Context(), "ada", s.id, llm.UserText("Go."), nil), event.FinishPaused)
	s.finish(b)
	fill(b, s.store, s.id, messages)
}

// fill appends messages to a session until there are so many.
func fill(b *testing.B, store *session.Store, id string, messages int) {
	const atOnce = 20
	for n := 0; n < messages; n += 2 * atOnce {
		err := hold.Of(store).Update(b.Context(), id, func(tx *core.Tx) error {
			for i := 0; i < atOnce && tx.Messages < messages; i++ {
				question, err := core.NewEntry(
					llm.UserText("What is the state of the deployment, and of the jobs that " +
						"belong to it?"))
				if err != nil {
					return err
				}
				answer, err := core.NewEntry(
					llm.AssistantText(
						"All is well: nothing waits, nothing has failed, and nothing is due."))
				if err != nil {
					return err
				}
				if err := tx.Say(question, "", "", false); err != nil {
					return err
				}
				if err := tx.Reply(answer, nil, core.Stopped{Finish: event.FinishStop},
					0); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// time runs a cycle until it is paused, takes the time of op, and finishes the
// cycle.
func (s *long) time(b *testing.B, op func(*long, tool.Pause) error) float64 {
	s.kv.reset()
	end := drain(b, s.rn.Run(b.Context(), "ada", s.id, llm.UserText("Go."), nil),
		event.FinishPaused)
	runtime.GC() // what Run decoded for the model is not this operation's to clear away
	start := time.Now()
	if err := op(s, end.Pending[0]); err != nil {
		b.Fatal(err)
	}
	took := time.Since(start).Seconds()
	s.finish(b)
	s.bytes = append(s.bytes, float64(s.kv.bytes.Load()))
	return took
}

// finish drives the session to its final message, answering what waits.
func (s *long) finish(b *testing.B) {
	for p, err := range s.rn.Pending(b.Context(), session.PauseFilter{Session: s.id}, "test") {
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.rn.Resume(b.Context(), s.id,
			runner.Complete(p.ID, "ci", jobDone)); err != nil {
			b.Fatal(err)
		}
	}
	drain(b, s.rn.Continue(b.Context(), s.id, "test"), event.FinishStop)
}

type jobIn struct {
	Text string `json:"text"`
}

type jobOut struct {
	Result string `json:"result"`
}

var jobDone = json.RawMessage(`{"result":"all tests passed"}`)

// job waits for an outside job.
var job = tool.Must(
	tool.Func(tool.Spec{Name: "job", Description: "Starts a job.", Effect: tool.Idempotent,
		MayPause: true},
		func(context.Context, jobIn) (tool.Result[jobOut], error) {
			return tool.Pending[jobOut](tool.Await{Timeout: time.Hour}), nil
		}))
