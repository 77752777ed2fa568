package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// Each user has a wait handle, for which a call of the session waits. It is
// made before the session begins, and ended by a sender outside, before anyone
// waits for it or later.

// userWait is the handle's id among those of its user.
const userWait = "paid"

func waitOf(user string) runner.WaitName {
	return runner.WaitName{Scope: tool.UserScope, User: user, ID: userWait}
}

// permits is the handle whose one permit calls hold.
var permits = runner.WaitName{Scope: tool.StoreScope, ID: "drill"}

// handleWaits has the doors of wait handles.
func handleWaits(rn *runner.Runner, handle handleFunc) {
	handle("/makewait", func(r *http.Request, id string) (any, error) {
		_, err := rn.CreateWait(r.Context(), waitOf(id), runner.NewWait{}, "parent")
		if errors.Is(err, runner.ErrWaitTaken) { // by a try before
			err = nil
		}
		return nil, err
	})
	handle("/endwait", func(r *http.Request, id string) (any, error) {
		return rn.CompleteWait(r.Context(), waitOf(id),
			runner.WaitEnd{Result: json.RawMessage(r.FormValue("result"))}, "bank")
	})
}

// makeWait makes the user's handle.
func (c *chat) makeWait() {
	c.wants("/makewait?"+url.Values{"session": {c.id}}.Encode(), http.StatusOK)
}

// endWait ends it, and then, perhaps, once more: with the same end, which is
// acknowledged, or another one, which is not.
func (c *chat) endWait() {
	end := func(result string, want int) bool {
		return c.wants("/endwait?"+url.Values{"session": {c.id}, "result": {result}}.Encode(), want)
	}
	result := fmt.Sprintf(`{"n":%d}`, c.r.IntN(1000))
	if !end(result, http.StatusOK) {
		return
	}
	c.paid = result
	switch c.r.IntN(3) {
	case 0:
		end(result, http.StatusOK)
	case 1:
		end(`{"n":1000}`, http.StatusConflict)
	}
}

// wants sends until there is an answer, and reports whether it is the one that
// has to come.
func (c *chat) wants(path string, want int) bool {
	status, text := c.send(path, "")
	if status != want && status != gaveUp {
		c.w.violation("session %s: %s got %d %s", c.id, path, status, text)
	}
	return status == want
}

// paid judges the wait handle of a session, and the call that waited for it.
func (a *audit) paid(c *chat) {
	if c.paid == "" {
		return // the session was cancelled before
	}
	w, err := a.rn.Wait(a.t.Context(), waitOf(c.id), "audit")
	if err != nil || string(w.Result) != c.paid {
		a.violation("session %s: the wait handle was ended with %q, and has %q: %v", c.id, c.paid,
			w.Result, err)
	}
}

func (a *audit) waitedFor(c *call) {
	var told struct {
		Status tool.WaitStatus
		Result json.RawMessage
	}
	err := json.Unmarshal(c.Output, &told)
	if c.Settled != event.Done || err != nil || told.Status != tool.WaitCompleted ||
		string(told.Result) != c.chat.paid {
		a.violation("call %s, which waited for a handle that was ended with %q, is %s %s", c.Call,
			c.chat.paid, c.Settled, c.Output)
	}
}

// permitHeld judges the entries of bodies that hold the one permit. None begins
// before the one before it has ended, unless that one's session may have been
// taken over, or cancelled.
func (a *audit) permitHeld(notes []note) {
	var holder note
	for _, n := range notes {
		switch c := a.calls[holder.Call]; {
		case !kinds[n.Tool].permit:
		case n.What == finished && n.Key == holder.Key && n.Process == holder.Process:
			holder = note{}
		case n.What == entered:
			a.held++
			if c != nil && n.Call != holder.Call && !c.chat.cancels &&
				!a.lostIn(holder, min(n.At, a.ended(c, holder))) {
				a.violation("two calls held one permit: %+v %+v", holder, n)
			}
			holder = n
		}
	}
}

// free reports whether no call holds the permit any more, or waits for it.
func (w *world) free() bool {
	h, err := w.rn.Wait(w.t.Context(), permits, "parent")
	if errors.Is(err, runner.ErrUnknownWait) {
		return true // no session has come so far
	}
	must(w.t, err)
	return h.Permits.Held == 0 && h.Permits.Queued == 0
}

// notBegun reports whether a call ended since its permit could not be looked
// for, or its drive was stopped meanwhile: its body was not entered.
func (a *audit) notBegun(c *call) bool {
	ended := c.Settled == event.Failed || c.Settled == event.Cancelled
	return ended && kinds[c.Tool].permit &&
		!slices.ContainsFunc(c.notes, func(n note) bool { return n.What == entered })
}
