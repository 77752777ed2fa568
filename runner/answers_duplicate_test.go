package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

func TestRepeatedAnswerIsADuplicate(t *testing.T) {
	gate := interceptor.Chain{
		interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"refund"}}),
	}
	for name, in := range map[string]struct {
		tool string
		make func(p tool.Pause, by runner.Actor, delivery string) runner.Resumption
	}{
		"output": {"deploy", func(p tool.Pause, by runner.Actor, _ string) runner.Resumption {
			return runner.Complete(p.ID, by, text("v2"))
		}},
		"by call": {"deploy", func(p tool.Pause, by runner.Actor, _ string) runner.Resumption {
			return runner.Complete(p.Call, by, text("v2"))
		}},
		"failure": {"deploy", func(p tool.Pause, by runner.Actor, _ string) runner.Resumption {
			return runner.Fail(p.ID, by, "no disk", true)
		}},
		"approval": {"refund", func(p tool.Pause, by runner.Actor, _ string) runner.Resumption {
			return runner.Approve(p.ID, by, "fine")
		}},
		"denial": {"refund", func(p tool.Pause, by runner.Actor, _ string) runner.Resumption {
			return runner.Deny(p.ID, by, "")
		}},
		"edit": {"refund", func(p tool.Pause, by runner.Actor, _ string) runner.Resumption {
			return runner.ApproveEdited(p.ID, by, "half", textIn{"5"})
		}},
		"delivery": {"deploy",
			func(p tool.Pause, by runner.Actor, delivery string) runner.Resumption {
				return runner.Resumption{Pause: p.ID, Payload: text("v2"),
					Actor: by, Delivery: delivery}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{waiting("deploy", tool.Once, &n),
					instant("refund", tool.Once, &n)},
				Interceptors: gate,
				Model: fakellm.New(fakellm.Calls(in.tool, `{"text":"10"}`),
					fakellm.Says("I see."), fakellm.Says("Hello.")),
			}, nil)
			p := r.say("Go.").finished(event.FinishPaused).pause(in.tool)
			var first session.Receipt
			repeat := func(when string) {
				t.Helper()
				commits := r.faults.Commits()
				res, err := r.Resume(t.Context(), chat, in.make(p, "somebody else", "d-2"))
				must(t, err)
				want := first
				want.Duplicate = true
				if diff := cmp.Diff(want, res.Receipts[0]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", when, diff)
				}
				if r.faults.Commits() != commits {
					t.Errorf("%s: a duplicate was written", when)
				}
			}
			res, err := r.Resume(t.Context(), chat, in.make(p, "ci", "d-1"))
			must(t, err)
			first = res.Receipts[0]
			repeat("at once")
			r.restart()
			repeat("after a restart")
			r.carryOn().finished(event.FinishStop)
			repeat("after the run")
			r.say("Hello.").finished(event.FinishStop)
			r.restart()
			repeat("long after")
			r.acceptable()
		})
	}
}

func TestDuplicatesAreByContent(t *testing.T) {
	open := tool.Must(tool.Func(tool.Spec{Name: "ask", MayPause: true},
		func(context.Context, textIn) (tool.Result[any], error) {
			return tool.NeedInput[any]("Well?"), nil
		}))
	const first = `{"a":[1,9007199254740993,{"b":"é<"}],"c":1.0,"d":null}`
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{open},
		Model: fakellm.New(fakellm.Calls("ask", `{"text":"a"}`), fakellm.Says("Thanks.")),
	}, nil)
	p := r.say("Ask.").finished(event.FinishPaused).pause("ask")
	_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ada", json.RawMessage(first)))
	must(t, err)
	for payload, equal := range map[string]bool{
		first: true,
		"{ \"d\" : null,\n\"c\":1.0, \"a\":[ 1,9007199254740993, {\"b\":\"é<\"} ] }": true,  // order and white space
		`{"a":[1,9007199254740993,{"b":"\u00e9\u003c"}],"c":1.0,"d":null}`:           true,  // escapes
		`{"a":[1,9007199254740992,{"b":"é<"}],"c":1.0,"d":null}`:                     false, // the same float64
		`{"a":[1,9007199254740993,{"b":"é<"}],"c":1,"d":null}`:                       false, // digit for digit
		`{"a":[9007199254740993,1,{"b":"é<"}],"c":1.0,"d":null}`:                     false, // order of elements
		`{"a":[1,9007199254740993,{"b":"é<"}],"c":1.0}`:                              false,
		`{"a":[1,9007199254740993,{"b":"é<"}],"c":"1.0","d":null}`:                   false,
		`null`: false,
	} {
		res, err := r.Resume(t.Context(), chat, runner.Resumption{
			Pause: p.ID, Payload: json.RawMessage(payload), Actor: "bob", Delivery: "other"})
		switch {
		case equal && (err != nil || !res.Receipts[0].Duplicate || res.Receipts[0].Actor != "ada"):
			t.Errorf("%s: %+v, %v", payload, res, err)
		case !equal && !errors.Is(err, session.ErrResumeConflict):
			t.Errorf("%s: %v", payload, err)
		}
	}
	r.carryOn().finished(event.FinishStop)
	if got := string(r.result(p.Call).Output); got != first {
		t.Errorf("the model reads %s", got)
	}
}

func TestOtherAnswerIsAConflict(t *testing.T) {
	complete := func(p string) runner.Resumption { return runner.Complete(p, "ci", text("v2")) }
	for name, first := range map[string]func(string) runner.Resumption{
		"an output": complete,
		"a failure": func(p string) runner.Resumption {
			return runner.Fail(p, "ci", "no disk", false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			r, p := deployed(t, &n)
			res, err := r.Resume(t.Context(), chat, first(p.ID))
			must(t, err)
			conflicts := func(when string) {
				t.Helper()
				for _, other := range []runner.Resumption{
					runner.Complete(p.ID, "ci", text("v3")),
					runner.Complete(p.Call, "ci", text("v3")),
					runner.Fail(p.ID, "ci", "no power", false),
					runner.Fail(p.ID, "ci", "no disk", true),
				} {
					var conflict *session.ConflictError
					_, err := r.Resume(t.Context(), chat, other)
					if !errors.As(err, &conflict) || !errors.Is(err, session.ErrResumeConflict) {
						t.Fatalf("%s: %v", when, err)
					}
					if diff := cmp.Diff(res.Receipts[0], conflict.Receipt); diff != "" {
						t.Errorf("%s it says (-want +got):\n%s", when, diff)
					}
					for _, part := range []string{string(conflict.Receipt.Kind), "ci",
						res.Receipts[0].At.Format(time.RFC3339)} {
						if !strings.Contains(err.Error(), part) {
							t.Errorf("%q doesn't say %s", err, part)
						}
					}
				}
			}
			conflicts("at once")
			r.restart()
			r.carryOn().finished(event.FinishStop)
			conflicts("after the run")
		})
	}
}
