package runner_test

import (
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// A rig whose session waits for children, made at the store: how a tool comes
// to make a child is none of the business of these tests.

// treeRig is a rig of two agents. In the session of the first, each call of
// delegate waits for a child of the second agent. What the children wait for,
// waits gives by their calls.
func treeRig(t *testing.T, o *runner.Options, waits ...map[string]tool.Await) *rig {
	t.Helper()
	return treeRigOn(t, nil, o, waits...)
}

// treeRigOn is treeRig on an engine with something around it.
func treeRigOn(t *testing.T, wrap func(kvstore.Store) kvstore.Store, o *runner.Options,
	waits ...map[string]tool.Await) *rig {
	t.Helper()
	var n counter
	if o == nil {
		o = &runner.Options{}
	}
	o.Logger = slog.New(slog.DiscardHandler)
	helper, err := agent.New(agent.Config{Name: "helper", Model: messages(nil, says("Blue.")),
		Tools: []tool.Tool{waiting("work", tool.Idempotent, &n)}})
	must(t, err)
	o.Agents = []*agent.Agent{helper}
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("delegate", tool.Idempotent, &n)},
		Model: messages(nil, says("I see."), says("Sure.")),
	}, &rigOptions{memory: true, wrap: wrap, runner: o})
	var calls []string
	for i := range waits {
		calls = append(calls, delegate(i))
	}
	d := r.begins(chat, &session.New{User: user, Agent: "ops"}, "delegate", calls...)
	for i, call := range calls {
		e, err := session.NewEntry(llm.UserText("Find out."))
		must(t, err)
		await, err := tool.Await{Reason: tool.ReasonAgent}.Normalize()
		must(t, err)
		must(t, d.Update(t.Context(), func(tx *session.Tx) error {
			return tx.Pause(call, &session.Hold{Await: await,
				Child: &session.NewChild{Agent: "helper", Message: e}})
		}))
		r.waits(child(i), waits[i])
	}
	d.Release()
	return r
}

func delegate(i int) string { return "call-" + string(rune('a'+i)) }

// child is the session that the i-th call waits for.
func child(i int) string { return session.ChildID(session.PauseID(delegate(i), 1)) }

// begins makes a model's message in a session, with these calls of one tool.
func (r *rig) begins(id string, n *session.New, name string, calls ...string) *session.Lease {
	r.t.Helper()
	d, err := r.store.Acquire(r.t.Context(), id, n)
	must(r.t, err)
	m := llm.Message{Role: llm.RoleAssistant}
	var open []session.Call
	for _, c := range calls {
		m.Parts = append(m.Parts,
			llm.ToolCall{ID: c, Name: name, Arguments: json.RawMessage(`{"text":"x"}`)})
		open = append(open, session.Call{ID: c, Tool: name, Status: session.Requested,
			Effect: tool.Idempotent, MayPause: true})
	}
	said, err := session.NewEntry(llm.UserText("Go."))
	must(r.t, err)
	asked, err := session.NewEntry(m)
	must(r.t, err)
	must(r.t, d.Update(r.t.Context(), func(tx *session.Tx) error {
		if n != nil {
			if err := tx.Say(said, "", "", true); err != nil {
				return err
			}
		}
		if len(open) == 0 {
			return nil
		}
		return tx.Reply(asked, open, session.Stopped{Finish: event.FinishStop}, 0)
	}))
	return d
}

// waits has calls of a child wait. Without any, the child works.
func (r *rig) waits(id string, awaits map[string]tool.Await) {
	r.t.Helper()
	var calls []string
	for c := range awaits {
		calls = append(calls, c)
	}
	d := r.begins(id, nil, "work", calls...)
	defer d.Release()
	for c, a := range awaits {
		a, err := a.Normalize()
		must(r.t, err)
		hold := &session.Hold{Await: a}
		if len(a.Schema) > 0 {
			hold.Schema, err = r.store.PutSchema(r.t.Context(), a.Schema)
			must(r.t, err)
		}
		must(r.t, d.Update(r.t.Context(), func(tx *session.Tx) error {
			return tx.Pause(c, hold)
		}))
	}
}
