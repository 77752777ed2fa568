package runner_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// deployed is a rig whose one call waits.
func deployed(t *testing.T, n *counter) (*rig, tool.Pause) {
	t.Helper()
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("deploy", tool.Once, n)},
		Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`),
			fakellm.Says("Deployed."), fakellm.Says("Hello.")),
	}, nil)
	return r, r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
}

// deploying is a rig for one such call.
func deploying(t *testing.T, deploy tool.Tool) *rig {
	return newRig(t, agent.Config{
		Tools: []tool.Tool{deploy},
		Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`), fakellm.Says("Deployed.")),
	}, nil)
}

// deliver answers as a webhook does: it finds the pause by a token, and
// resumes.
func (r *rig) deliver(token, output string) (session.Receipt, error) {
	p, err := r.Find(r.t.Context(), runner.Ref{Token: token}, user)
	if err != nil {
		return session.Receipt{}, err
	}
	res, err := r.Resume(r.t.Context(), p.Session, runner.Complete(p.ID, "ci", text(output)))
	if err != nil {
		return session.Receipt{}, err
	}
	return res.Receipts[0], nil
}

// closesAmidWork has a worker carry sessions on until nothing moves any more, in
// a bubble, and then closes the process.
func (r *rig) closesAmidWork() {
	r.t.Helper()
	worked := make(chan error)
	go func() { worked <- r.Work(context.Background(), nil) }()
	synctest.Wait()
	must(r.t, r.Close())
	<-worked
}

// receipt is the one of a call's pause, as it is stored.
func (r *rig) receipt(call string, pause int) session.Receipt {
	r.t.Helper()
	st, err := r.Call(r.t.Context(), chat, call, user)
	must(r.t, err)
	for _, rc := range st.Receipts {
		if rc.Pause == pause && rc.Kind != session.KindCancel {
			return rc
		}
	}
	r.t.Fatalf("call %s has no receipt for pause %d: %+v", call, pause, st.Receipts)
	return session.Receipt{}
}

// gated returns an agent whose tools refund and audit answer at once. Refund is
// behind the gates named; by default "approval".
func gated(n *counter, model llm.Model, gates ...string) agent.Config {
	if len(gates) == 0 {
		gates = []string{"approval"}
	}
	c := agent.Config{
		Model: model, Tools: []tool.Tool{
			instant("refund", tool.Once, n), instant("audit", tool.ReadOnly, n),
		},
	}
	for _, g := range gates {
		c.Interceptors = append(c.Interceptors, interceptor.Approval(&interceptor.ApprovalOptions{
			Name: g, Tools: []string{"refund"}, Prompt: func(tool.Call) string { return g + "?" },
		}))
	}
	return c
}

// at returns the options of a rig whose clock is the test's.
func at(c *clock) *rigOptions { return &rigOptions{session: &session.Options{Now: c.now}} }

// crash is a rig whose process dies within the body of a tool: what the body
// returns is not recorded.
func crash(t *testing.T, spec tool.Spec, body func(tool.Call) tool.Result[textOut]) *rig {
	t.Helper()
	var inj *faultkv.Injector
	first := true
	spec.Description, spec.MayPause = "a", true
	act := tool.Must(tool.Func(spec,
		func(ctx context.Context, _ struct{}) (tool.Result[textOut], error) {
			res := body(tool.CallFrom(ctx))
			if first {
				first = false
				inj.Kill()
			}
			return res, nil
		}))
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{act}, Model: messages(calls(spec.Name, `{}`), says("Done.")),
	}, &rigOptions{
		wrap: func(kv kvstore.Store) kvstore.Store { inj = faultkv.New(kv); return inj.Store },
	})
	if run := r.say("Go."); run.err == nil {
		t.Fatalf("the run of a process that died ended as %q", run.end.Finish)
	}
	r.restart()
	return r
}

// overtaken is a rig on an engine that processes share, and another runner on
// it.
func overtaken(t *testing.T, m llm.Model) (r *rig, second *runner.Runner) {
	r = newRig(t, agent.Config{Model: m}, &rigOptions{memory: true, wrap: hidden})
	return r, r.another()
}

// interrupted returns a session whose model's answer is due, and which no drive
// carries on.
func interrupted(t *testing.T, asked *int) (r *rig, second *runner.Runner) {
	script := messages(says("Hello."), says("Hello once more."))
	r, second = overtaken(t, modelFunc(func(req llm.Request) []llm.Event {
		*asked++
		return script(req)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	r.before(cancel)
	watch(t, r.Run(ctx, user, chat, llm.UserText("Hi."), nil))
	if got := r.transcript(); got.Finish != event.FinishInterrupted || *asked != 0 {
		t.Fatalf("it is %q, and the model was asked %d times", got.Finish, *asked)
	}
	return r, second
}

// passesTurns is a turn layer that hands everything on.
var passesTurns = interceptor.Layer{Name: "passes turns",
	Turn: func(next interceptor.TurnHandler) interceptor.TurnHandler {
		return func(ctx context.Context, turn interceptor.Turn) iter.Seq2[event.Event, error] {
			return func(yield func(event.Event, error) bool) {
				for ev, err := range next(ctx, turn) {
					if !yield(ev, err) {
						return
					}
				}
			}
		}
	}}

// busyAgent is an agent whose run shows every kind of event: three calls side
// by side, one of which waits.
func busyAgent(n *counter, layers ...interceptor.Layer) agent.Config {
	make := does(tool.Spec{Name: "make"},
		func(ctx context.Context, s string) (tool.Result[textOut], error) {
			n.add("make " + s)
			err := tool.CallFrom(ctx).Report(ctx, tool.Progress{Message: "half"})
			return tool.Done(textOut{s}), err
		})
	return agent.Config{
		Model: fakellm.New(
			fakellm.Reasons("Hm.").Says("I will see.").And("make", `{"text":"a"}`).And("job",
				`{"text":"b"}`).And("make", `{"text":"c"}`),
			fakellm.Says("All is done.").Chunks(4)),
		Tools: []tool.Tool{make, waiting("job", tool.Once, n)}, Interceptors: layers,
	}
}

// finish carries the session on until the model has said its last, and checks
// that nothing was done twice or lost.
func (r *rig) finish(n *counter) {
	r.t.Helper()
	run := r.carryOn()
	if r.transcript().Messages == 0 {
		run = r.say("Go.")
	}
	for range 3 {
		for _, p := range run.end.Pending {
			_, err := r.Resume(r.t.Context(), chat, runner.Complete(p.ID, "ci", text("b")))
			must(r.t, err)
		}
		if run.end.Finish == event.FinishStop {
			break
		}
		run = r.carryOn()
	}
	run.finished(event.FinishStop)
	history := r.transcript().History
	if len(history) != 4 || history[3].Text() != "All is done." {
		r.t.Errorf("the history is %v", history)
	}
	for _, what := range []string{"make a", "make c", "job"} {
		if n.get(what) != 1 {
			r.t.Errorf("%s was entered %d times", what, n.get(what))
		}
	}
	r.acceptable()
}

// idle fails the test if a drive holds the session although nothing happens any
// more.
func (r *rig) idle() {
	r.t.Helper()
	synctest.Wait()
	st, err := r.store.Load(r.t.Context(), chat)
	if errors.Is(err, session.ErrUnknownSession) {
		return
	}
	must(r.t, err)
	if driven, _ := r.store.Driven(st); driven {
		r.t.Error("a drive holds the session for good")
	}
}
