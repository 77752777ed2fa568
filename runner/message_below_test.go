package runner_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// askingBelow is an agent whose nested agent waits for a job, and then asks.
func askingBelow(
	t *testing.T, question tool.Await, wrap func(kvstore.Store) kvstore.Store,
) *rig {
	t.Helper()
	var n counter
	ask := tool.Must(tool.Func(tool.Spec{Name: "ask", Effect: tool.Idempotent, MayPause: true},
		func(context.Context, textIn) (tool.Result[string], error) {
			return tool.Pending[string](question), nil
		}))
	helper := nestedTool(t, "helper", messages(calls("work", `{"text":"job"}`),
		calls("ask", `{"text":"?"}`), says("Fine.")), waiting("work", tool.Idempotent, &n), ask)
	return newRig(t, agent.Config{Tools: []tool.Tool{helper}, Model: fakellm.New(
		fakellm.Calls("helper", `{"what":"Go."}`), fakellm.Says("Done."), fakellm.Says("Yes."))},
		&rigOptions{memory: true, wrap: wrap})
}

// jobDone ends the job of the nested agent, as far as the store lets it.
func (r *rig) jobDone(job tool.Pause) {
	r.t.Helper()
	res, err := r.Resume(r.t.Context(), job.Session,
		runner.Complete(job.ID, "ci", []byte(`{"text":"ok"}`)))
	if err == nil {
		watch(r.t, res.Events(r.t.Context()))
	}
}

// A message waits in the queue while a nested agent works. Then that one asks,
// and the message is the answer, or what the agent asks is denied for it. So it
// is whichever write of that a process dies at, with the user's next message at
// the latest.
func TestMessageThatWaitsForAQuestionBelow(t *testing.T) {
	for name, test := range map[string]struct {
		question tool.Await
		while    runner.While
		want     string
	}{
		"an answer":   {asksByMessage, runner.WhileQueue, "Go. | Done."},
		"superseding": {asksByForm, runner.WhileSupersede, "Go. | blue | Done."},
	} {
		for kind, wrap := range engineKinds {
			for n, struck := 0, true; struck || n == 1; n++ {
				if n > 0 && wrap != nil {
					break // a lease that is stored outlives its process
				}
				struck = false
				t.Run(fmt.Sprint(name, " ", kind, " ", n), func(t *testing.T) {
					r := askingBelow(t, test.question, wrap)
					r.say("Go.")
					job := r.pauseOf("work")
					r.send("blue", test.while)
					r.settled()
					if n > 0 {
						r.faults.Add(faultkv.FailAt(r.faults.Applies() + n).AndDie())
					}
					r.jobDone(job)
					r.settled()
					want := test.want
					if struck = r.faults.Struck() > 0; struck {
						r.restart()
						r.jobDone(job)
						r.send("more", "")
						want += " | more | Yes."
					}
					r.taken("blue")
					r.settled()
					r.reads(want)
					r.rest()
				})
			}
		}
	}
}

// taken has a worker work until a message is taken.
func (r *rig) taken(id string) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	worked := make(chan error, 1)
	go func() { worked <- r.Work(ctx, &runner.WorkOptions{Poll: time.Millisecond}) }()
	waitFor(r.t, func() bool { return r.sentAs(id).Taken })
	cancel()
	<-worked
}

// pauseOf returns the pause of a tool's only call in the tree.
func (r *rig) pauseOf(name string) (found tool.Pause) {
	r.t.Helper()
	for p, err := range r.Pending(r.t.Context(), public.PauseFilter{}, user) {
		if must(r.t, err); p.Tool == name {
			found = p
		}
	}
	if found.ID == "" {
		r.t.Fatalf("no call of %s waits", name)
	}
	return found
}

// A session whose queue was full when it was cancelled goes on with the next
// message, though there is no room for that one yet.
func TestFullQueueOfACancelledSession(t *testing.T) {
	var n counter
	r := payingRig(t, &rigOptions{runner: &runner.Options{Queue: 1}}, &n)
	r.say("use pay")
	r.send("first", "")
	must(t, r.CancelSession(t.Context(), chat, user, "stop"))
	_, err := r.Send(t.Context(), user, chat, llm.UserText("next"),
		&runner.SendOptions{MessageID: "next"})
	if !errors.Is(err, session.ErrQueueFull) {
		t.Errorf("the message beyond the bound is told %v", err)
	}
	r.settled()
	r.send("next", "")
	r.settled()
	r.reads("use pay | first | re: first | next | re: next")
	r.rest()
}
