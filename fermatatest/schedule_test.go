package fermatatest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/fermatatest"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/schedule"
	"github.com/fermata-ai/fermata/tool"
)

// scheduled is a schedule that fires twice by hand, the second time once the
// run of the first is over, and then once at its time. What fires writes into a
// ledger.
func scheduled(name string, change func(*schedule.Schedule)) fermatatest.Scenario {
	s := schedule.Schedule{
		ID: "hourly", User: "ada", Cron: "0 * * * *",
		Until: time.Date(2025, 1, 2, 4, 30, 0, 0, time.UTC),
		Do:    schedule.Target{Agent: "clerk", Message: llm.UserText("Report.")},
	}
	change(&s)
	text, err := json.Marshal(map[string]any{"schedule": s, "state": struct{}{}})
	if err != nil {
		panic(err)
	}
	now := func(id string) runner.Mail {
		return runner.Mail{Name: "run", ID: id, Payload: json.RawMessage(`null`), Actor: "ada"}
	}
	return fermatatest.Scenario{
		Name: name, Session: schedule.SessionID(s.ID),
		World: func() fermatatest.World {
			var l ledger
			return fermatatest.World{
				Agent: schedule.Agent,
				Others: func() []agent.Config {
					return []agent.Config{{
						Name: "clerk", Tools: []tool.Tool{noted(&l)},
						Model: fakellm.New(fakellm.From(func(r llm.Request) fakellm.Turn {
							if r.Messages[len(r.Messages)-1].Role == llm.RoleUser {
								return fakellm.Calls("note", `{"text":"a"}`)
							}
							return fakellm.Says("Done.")
						}).Forever()),
					}}
				},
				Check: func() error {
					if len(l.done) != 3 {
						return fmt.Errorf("%v has fired; want three times", l.done)
					}
					return nil
				},
			}
		},
		Inputs: []fermatatest.Input{
			fermatatest.Message("create", string(text)),
			fermatatest.Deliver("schedule", now("a"), now("b")),
			fermatatest.Pass(time.Minute), // the runs by hand are over before its time
			fermatatest.Pass(time.Minute),
			fermatatest.Pass(time.Hour),
		},
	}
}

// noted writes down that it was called.
func noted(l *ledger) tool.Tool {
	return fn(tool.Spec{Name: "note", Effect: tool.Idempotent},
		func(ctx context.Context, _ textIn) (tool.Result[textOut], error) {
			l.do(tool.CallFrom(ctx).IdempotencyKey())
			return tool.Done(textOut{"noted"}), nil
		})
}

func schedules() []fermatatest.Scenario {
	return []fermatatest.Scenario{
		scheduled("a schedule that waits", func(*schedule.Schedule) {}),
		scheduled("a schedule that goes on beside", func(s *schedule.Schedule) {
			s.Overlap = schedule.OverlapAllow
		}),
		scheduled("a schedule of messages", func(s *schedule.Schedule) { s.Do.Session = "daybook" }),
	}
}

// Killed at every write, each firing comes once, and none is lost: its message
// stands in its session, as often as in the uncut history.
func TestKilledWhileAScheduleFires(t *testing.T) {
	killed(t, .1, fermatatest.Options{
		Engines: []fermatatest.Engine{fermatatest.Memory(),
			fermatatest.Shared(fermatatest.Memory())},
	}, schedules()...)
}
