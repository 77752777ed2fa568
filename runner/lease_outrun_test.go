package runner_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/agenttool"
)

// outrun is a session with a drive that has not taken its lease yet when
// another one comes, and goes: while the layers are asked about an approved
// call of act.
type outrun struct {
	*rig
	clock  *clock
	other  func()                               // the other drive
	body   func(tool.Call) tool.Result[textOut] // of both tools
	bodies []string                             // that were entered, by their arguments
}

// begin approves the call of act, and carries the session on until it rests.
// There may be a second layer, and the model may then call later, which isn't
// gated.
func (o *outrun) begin(t *testing.T, m llm.Model, second ...interceptor.Layer) *seen {
	came := false
	first := approving(true, func() {
		if !came {
			came = true
			o.other()
		}
	})
	first.Tools = []string{"act"}
	var tools []tool.Tool
	for _, name := range []string{"act", "later"} {
		tools = append(tools, tool.Must(tool.Func(tool.Spec{Name: name, MayPause: true},
			func(ctx context.Context, in struct {
				Text string `json:"text,omitempty"`
			}) (tool.Result[textOut], error) {
				o.bodies = append(o.bodies, name+" "+in.Text)
				if o.body != nil {
					return o.body(tool.CallFrom(ctx)), nil
				}
				return tool.Done(textOut{"done"}), nil
			})))
	}
	o.clock = newClock()
	opts := at(o.clock)
	opts.wrap = hidden
	o.rig = newRig(t, agent.Config{Model: m, Tools: tools,
		Interceptors: append(interceptor.Chain{first}, second...)}, opts)
	p := o.say("Go.").finished(event.FinishPaused).pause("act")
	return o.answer(runner.Approve(p.ID, "eve", ""))
}

// goesOn has another drive carry the session on, and answers what then waits.
func (o *outrun) goesOn(name string, answer func(pause string) runner.Resumption) func() {
	return func() {
		second := o.another()
		s := watch(o.t, second.Continue(o.t.Context(), chat, user)).finished(event.FinishPaused)
		_, err := second.Resume(o.t.Context(), chat, answer(s.pause(name).ID))
		must(o.t, err)
	}
}

func approves(pause string) runner.Resumption { return runner.Approve(pause, "eve", "") }

// Another drive has asked a second person, who has decided: that one isn't
// asked again.
func TestGateThatAnotherDriveHasAsked(t *testing.T) {
	var o outrun
	o.other = func() { o.goesOn("act", approves)() }
	o.begin(t, messages(calls("act", `{"text":"a"}`), says("Done.")),
		interceptor.Approval(&interceptor.ApprovalOptions{Name: "second"})).
		finished(event.FinishStop)
	if !slices.Equal(o.bodies, []string{"act a"}) {
		t.Errorf("the bodies are %q", o.bodies)
	}
}

// Another drive has ended the turn, and begun the next one, whose calls have
// arguments of their own.
func TestTurnThatAnotherDriveHasBegun(t *testing.T) {
	for next, answer := range map[string]func(string) runner.Resumption{
		"act":   approves,
		"later": func(p string) runner.Resumption { return runner.Complete(p, "ci", text("v")) },
	} {
		t.Run(next, func(t *testing.T) {
			var o outrun
			want := []string{"act a", next + " b"}
			o.other = func() { o.goesOn(next, answer)() }
			o.body = func(c tool.Call) tool.Result[textOut] {
				if c.Tool == "later" && c.Answer == nil {
					want = append(want, "later b") // once more, when it is answered
					return tool.Pending[textOut](tool.Await{Mode: tool.ModeReenter,
						Schema: []byte(`{"type":"object"}`)})
				}
				return tool.Done(textOut{"done"})
			}
			o.begin(t, messages(calls("act", `{"text":"a"}`), calls(next, `{"text":"b"}`),
				says("Done."))).finished(event.FinishStop)
			if !slices.Equal(o.bodies, want) {
				t.Errorf("the bodies are %q, and not %q", o.bodies, want)
			}
			o.acceptable()
		})
	}
}

// Another drive has entered the body, and died: it isn't entered again, and the
// model is told.
func TestBodyThatAnotherDriveHasEntered(t *testing.T) {
	var o outrun
	var dying *faultkv.Injector
	o.other = func() {
		dying = faultkv.New(o.engine)
		ag, err := agent.New(o.config)
		must(t, err)
		rn, err := runner.New(ag, public.NewStore(hidden(dying.Store), o.o.session), o.o.runner)
		must(t, err)
		defer rn.Close()
		watch(t, rn.Continue(t.Context(), chat, user))
		o.clock.pass(time.Hour) // its lease is over
	}
	o.body = func(tool.Call) tool.Result[textOut] {
		dying.Kill()
		return tool.Done(textOut{"done"})
	}
	o.begin(t, messages(calls("act", `{"text":"a"}`), says("Done."))).finished(event.FinishStop)
	if !slices.Equal(o.bodies, []string{"act a"}) {
		t.Errorf("the bodies are %q", o.bodies)
	}
	o.acceptable()
}

// Another drive has handed the session over, to an agent that has a tool of the
// same name. It is that agent's tool that its call enters.
func TestSessionThatAnotherDriveHasHandedOver(t *testing.T) {
	var bodies []string
	act := func(of string) tool.Tool {
		return does(tool.Spec{Name: "act"},
			func(_ context.Context, text string) (tool.Result[textOut], error) {
				bodies = append(bodies, of+" "+text)
				return tool.Done(textOut{text}), nil
			})
	}
	billing, err := agent.New(agent.Config{Name: "billing", Tools: []tool.Tool{act("billing")},
		Interceptors: approval(), Model: messages(nil, nil, calls("act", `{"text":"b"}`), says("Done."))})
	must(t, err)
	over, err := agenttool.Handoff("billing", nil)
	must(t, err)
	var o outrun
	came := false
	gate := approving(true, func() {
		if !came {
			came = true
			o.goesOn("act", approves)()
		}
	})
	gate.Tools = []string{"act"}
	o.rig = newRig(t, agent.Config{Tools: []tool.Tool{act("ops"), over},
		Interceptors: interceptor.Chain{gate}, Model: messages(calls("act", `{"text":"a"}`),
			calls("transfer_to_billing", `{"reason":"money"}`))},
		&rigOptions{wrap: hidden, runner: &runner.Options{Agents: []*agent.Agent{billing},
			Logger: slog.New(slog.DiscardHandler)}})
	p := o.say("Go.").finished(event.FinishPaused).pause("act")
	o.answer(runner.Approve(p.ID, "eve", "")).finished(event.FinishStop)
	if !slices.Equal(bodies, []string{"ops a", "billing b"}) {
		t.Errorf("the bodies are %q", bodies)
	}
}
