package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

func TestAcceptedMeansDurable(t *testing.T) {
	for name, goOn := range map[string]func(*rig){
		"Continue": func(r *rig) { r.carryOn().finished(event.FinishStop) },
		"Run":      func(r *rig) { r.say("And?").finished(event.FinishStop) },
		"a worker": func(r *rig) {
			ctx, stop := context.WithCancel(r.t.Context())
			err := r.Work(ctx,
				&runner.WorkOptions{OnEvent: func(_ string, ev event.Event, _ error) {
					if _, ended := ev.(event.End); ended {
						stop()
					}
				}})
			if !errors.Is(err, context.Canceled) {
				r.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			r, p := deployed(t, &n)
			res, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v2")))
			must(t, err)
			if rc := res.Receipts[0]; rc.Duplicate || rc.Err != nil || rc.Call != p.Call ||
				rc.Pause != 1 || rc.Actor != "ci" {
				t.Errorf("the receipt is %+v", rc)
			}
			r.restart() // no caller has ranged over the events
			goOn(r)
			if got := string(r.result(p.Call).Output); got != string(text("v2")) {
				t.Errorf("the result is %s", got)
			}
			if n.get("deploy") != 1 {
				t.Errorf("the body was entered %d times", n.get("deploy"))
			}
			r.acceptable()
		})
	}
}

func TestAcceptingIsOneCommit(t *testing.T) {
	payloads := map[string]json.RawMessage{"small": text("v2"),
		"of 40 KiB": text(strings.Repeat("x", 40<<10))}
	for name, payload := range payloads {
		for _, fault := range []string{"none", "fail", "lose"} {
			t.Run(name+" "+fault, func(t *testing.T) {
				var n counter
				r, p := deployed(t, &n)
				before := r.faults.Applies()
				switch fault {
				case "fail":
					r.faults.Add(faultkv.FailAt(before + 1).AndDie())
				case "lose":
					r.faults.Add(faultkv.LoseAt(before + 1).AndDie())
				}
				_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", payload))
				if (err == nil) != (fault == "none") {
					t.Fatalf("Resume: %v", err)
				}
				if writes := r.faults.Applies() - before; fault == "none" && writes != 1 {
					t.Errorf("accepting took %d commits", writes)
				}
				r.restart()
				st, err := r.Call(t.Context(), chat, p.Call, user)
				must(t, err)
				due, _, _, err := r.store.Due(t.Context(), "ops", nil)
				must(t, err)
				if fault == "fail" { // nothing of it is there
					if st.Status != session.Pending || len(st.Receipts) != 0 || len(due) != 0 {
						t.Errorf("the call is %s, with receipts %v and %d wake-ups", st.Status,
							st.Receipts, len(due))
					}
				} else if st.Status != session.Answered || len(st.Receipts) != 1 ||
					len(due) != 1 { // all of it is
					t.Errorf("the call is %s, with receipts %v and %d wake-ups", st.Status,
						st.Receipts, len(due))
				}
				again, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", payload))
				must(t, err)
				if again.Receipts[0].Duplicate != (fault != "fail") {
					t.Errorf("redelivered: %+v", again.Receipts[0])
				}
				watch(t, again.Events(t.Context())).finished(event.FinishStop)
				if got := r.result(p.Call).Output; string(got) != string(payload) {
					t.Errorf("the result has %d bytes", len(got))
				}
				r.acceptable()
			})
		}
	}
}

func TestOutputModeRepeatsAfterACrash(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
		t.Run(string(effect), func(t *testing.T) {
			var n counter
			var r *rig
			var saw []string
			stamp := interceptor.Layer{Name: "stamp",
				Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
					return func(ctx context.Context, call tool.Call) (tool.Execution, error) {
						exec, err := next(ctx, call)
						if call.Answer == nil || err != nil {
							return exec, err
						}
						st, err := r.store.Load(ctx, chat)
						if err != nil {
							return exec, err
						}
						saw = append(saw,
							string(call.Answer.Payload)+" "+string(st.Calls[0].Status))
						exec.Output = text("stamped")
						return exec, nil
					}
				}}
			r = newRig(t, agent.Config{
				Tools:        []tool.Tool{waiting("deploy", effect, &n)},
				Interceptors: interceptor.Chain{stamp},
				Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`),
					fakellm.Says("Deployed.")),
			}, nil)
			p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
			res, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v2")))
			must(t, err)
			r.faults.Add(faultkv.FailAt(r.faults.Applies() + 1).AndDie()) // the result
			if s := watch(t, res.Events(t.Context())); !errors.Is(s.err, faultkv.ErrFault) {
				t.Fatalf("the run ended with %v", s.err)
			}
			r.restart()
			r.carryOn().finished(event.FinishStop)
			// no claim in between
			want := []string{`{"text":"v2"} answered`, `{"text":"v2"} answered`}
			if diff := cmp.Diff(want, saw); diff != "" {
				t.Errorf("the layer saw (-want +got):\n%s", diff)
			}
			if got := string(r.result(p.Call).Output); got != string(text("stamped")) ||
				n.get("deploy") != 1 {
				t.Errorf("the result is %s; the body was entered %d times", got, n.get("deploy"))
			}
			r.acceptable()
		})
	}
}

func TestFailedJobIsAnAnswer(t *testing.T) {
	for _, retryable := range []bool{false, true} {
		for _, mode := range []tool.Mode{tool.ModeOutput, tool.ModeReenter} {
			t.Run(string(mode), func(t *testing.T) {
				var n counter
				model := fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`),
					fakellm.Says("It failed."))
				r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{
					starting(tool.Once, &n,
						func(context.Context, tool.Call) (tool.Result[textOut], error) {
							return tool.Pending[textOut](tool.Await{Mode: mode}), nil
						})}}, nil)
				p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
				s := r.answer(runner.Fail(p.ID, "ci",
					"no disk", retryable)).finished(event.FinishStop)
				if res := of[event.Result](s); len(res) != 1 || res[0].Status != event.Failed ||
					res[0].Actor != "ci" {
					t.Errorf("it settled as %v", res)
				}
				res := r.result(p.Call)
				if says := string(res.Output); !res.Error || !strings.Contains(says, "no disk") ||
					strings.Contains(says, "tried again") != retryable {
					t.Errorf("the model reads %s, error %v", says, res.Error)
				}
				if n.get("deploy") != 1 || len(model.Requests()) != 2 {
					t.Errorf("the body was entered %d times, the model asked %d times",
						n.get("deploy"), len(model.Requests()))
				}
				r.acceptable()
			})
		}
	}
}

// A failure may come without a reason.
func TestFailedJobWithoutAReason(t *testing.T) {
	var n counter
	r, p := deployed(t, &n)
	r.answer(runner.Fail(p.ID, "ci", "", false)).finished(event.FinishStop)
	if res := r.result(p.Call); !res.Error || string(res.Output) != `"Failed."` {
		t.Errorf("the model reads %s", res.Output)
	}
}
