package runner_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// ofFamilies are the stored stores with events for calls, and with sessions
// below sessions.
var ofFamilies = map[string]fixture{
	"with events": {
		calls: calls("buy", `{"text":"x"}`),
		leave: func(f *fixtureRig) {
			f.say("Go.").finished(event.FinishPaused)
			f.sends("offer", "o-1")
		},
		goOn: func(f *fixtureRig) *seen {
			if again := f.sends("offer", "o-1").Receipts[0]; !again.Duplicate {
				f.t.Errorf("the event that came before is %+v", again)
			}
			return watch(f.t, f.sends("done", "d-1").Events(f.t.Context()))
		},
		want: func(f *fixtureRig, _ *seen) {
			f.has(f.call, event.Done, `{"text":"(offer o-1*, done d-1*)"}`)
		},
	},
	// Beside the chat, whose helper waits for a person, there is a deleted
	// session that owes its child the deletion. A call of each helper was
	// cancelled, and what it had begun could not be called off yet.
	"with children": {
		calls: calls("helper", `{"what":"Find a room."}`),
		leave: func(f *fixtureRig) {
			ctx := f.t.Context()
			for _, id := range []string{"deleted", chat} {
				watch(f.t, f.Run(ctx, user, id, llm.UserText("Go."), nil)).finished(event.FinishPaused)
				_, err := f.Cancel(ctx, f.child(id), f.below(id, "build"), "bob", "no")
				must(f.t, err)
			}
			f.callsOff(1)
			f.call = f.first()
			f.faults.Add(faultkv.FailAt(f.faults.Applies() + 2).AndDie())
			_ = f.Delete(ctx, "deleted", "bob")
		},
		goOn: func(f *fixtureRig) *seen {
			if _, err := f.Show(f.t.Context(), "deleted", user); !errors.Is(err, session.ErrDeleted) {
				f.t.Errorf("the other session is shown, with %v", err)
			}
			pauses := f.transcript().Pending
			ask := pauses[slices.IndexFunc(pauses, func(p tool.Pause) bool { return p.Tool == "ask" })]
			if len(pauses) != 2 || len(ask.Path) != 1 || ask.Path[0].Call != f.call {
				f.t.Errorf("it waits for %+v", pauses)
			}
			res, err := f.Resume(f.t.Context(), ask.Session,
				runner.Complete(ask.ID, "ada", json.RawMessage(`"7"`)))
			must(f.t, err)
			return watch(f.t, res.Events(f.t.Context()))
		},
		want: func(f *fixtureRig, _ *seen) {
			f.has(f.call, event.Done, `"Room 7."`)
			f.clock.pass(time.Hour)
			f.settled("deleted")
			for range 100 { // the child is deleted as well, and no list has it
				if len(f.off.seen()) == 2 {
					break
				}
				f.settled("deleted")
			}
			if got := f.off.seen(); len(got) != 2 || got[0].Try != 2 || got[1].Try != 2 {
				f.t.Errorf("called off is %+v", got)
			}
			must(f.t, f.Close())
			if n := f.sessions(); n != 2 {
				f.t.Errorf("there are %d sessions", n)
			}
		},
	},
}

// helper is an agent who asks a person, and begins a job. The process that leaves
// the store can't call the job off.
func (f *fixtureRig) helper(t *testing.T, left bool) tool.Tool {
	f.off = newCallsOff(func(try int) error {
		if !left {
			return errors.New("no answer")
		}
		return nil
	})
	return nestedTool(t, "helper", fakellm.New(
		fakellm.Calls("build", `{"text":"a"}`).And("ask", `{}`), fakellm.Says("Room 7.")),
		build(f.off, tool.Once), roomTool())
}

// sends sends one event for the call of buy.
func (f *fixtureRig) sends(name, id string) *runner.Resumed {
	f.t.Helper()
	payload := json.RawMessage(`{"cents":5}`)
	if name == "done" {
		payload = json.RawMessage(`"yes"`)
	}
	res, err := f.Deliver(f.t.Context(), chat, runner.Mail{Call: f.first(), Name: name, ID: id,
		Payload: payload, Actor: "shop"})
	must(f.t, err)
	return res
}

// first returns the chat's first call.
func (f *fixtureRig) first() string { return f.transcript().History[1].ToolCalls()[0].ID }

// child returns the session below another one.
func (f *fixtureRig) child(root string) (id string) {
	f.t.Helper()
	for st, err := range f.store.List(f.t.Context(), public.Filter{Root: root}) {
		must(f.t, err)
		id = st.ID
	}
	return id
}

// below returns the call of a tool in the session below another one.
func (f *fixtureRig) below(root, name string) (call string) {
	f.t.Helper()
	shown, err := f.Show(f.t.Context(), f.child(root), user)
	must(f.t, err)
	for _, c := range shown.Calls {
		if c.Tool == name {
			call = c.Call
		}
	}
	return call
}

// callsOff waits until each helper's job was tried to be called off so often,
// and nothing else is under way.
func (f *fixtureRig) callsOff(tries int) {
	f.t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for range 5000 {
		<-look.C
		done := 0
		for u, err := range f.Undos(f.t.Context(), public.UndoFilter{}, user) {
			must(f.t, err)
			if u.Tries == tries && u.Failed != "" {
				done++
			}
		}
		if done == 2 {
			return
		}
	}
	f.t.Fatal("the jobs were not tried to be called off")
}
