package runner_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// A handle that has stopped is known, with its result, for its retention, after
// a restart as well, and then its id is unknown.
func TestStoppedHandlesAreKnownForAWhile(t *testing.T) {
	const day = 24 * time.Hour
	cl := newClock()
	fetch := fakellm.Calls("build", `{"action":"fetch","id":"a"}`)
	model := fakellm.New(begin("a"), fakellm.Calls("await", `{"all":["a"]}`), fakellm.Says("Built."),
		fetch, fakellm.Says("There."), fetch, fakellm.Says("Still there."), fetch, fakellm.Says("Gone."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{builds(t)}, Model: model}, at(cl))
	sweep := func() session.Swept {
		r.restart()
		swept, err := r.store.Sweep(t.Context(), &session.Retention{Handles: 7 * day, Sessions: day})
		must(t, err)
		return swept
	}
	r.say("Go.").finished(event.FinishStop)
	r.settled()
	cl.pass(6 * day)
	r.say("Look.").finished(event.FinishStop) // which keeps the session
	if swept := sweep(); swept != (session.Swept{}) {
		t.Errorf("before its time goes %+v", swept)
	}
	if h, err := r.Fetch(t.Context(), chat, "a", user); err != nil || string(h.Output) != `"built x"` {
		t.Errorf("%+v, %v", h, err)
	}
	cl.pass(day + time.Hour)
	r.say("Look.").finished(event.FinishStop)
	if swept := sweep(); swept != (session.Swept{Handles: 1, Sessions: 1}) {
		t.Errorf("after its time goes %+v", swept)
	}
	if _, err := r.Fetch(t.Context(), chat, "a", user); !errors.Is(err, session.ErrUnknownHandle) {
		t.Errorf("it is fetched, with %v", err)
	}
	r.say("Look.").finished(event.FinishStop)
	got := r.outputs()
	if !strings.Contains(got[3], "built x") || !strings.Contains(got[4], "Handle `a` not found") {
		t.Errorf("%q", got)
	}
	must(t, r.Close())
	r.sound()
}

// A handle whose session was deleted has stopped, and what it came to is told
// as no longer kept, and not as another outcome.
func TestAHandleWhoseSessionWasDeleted(t *testing.T) {
	model := fakellm.New(begin("a"), fakellm.Calls("await", `{"all":["a"]}`), fakellm.Says("Built."),
		fakellm.Calls("build", `{"action":"fetch","id":"a"}`), fakellm.Says("Gone."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{builds(t)}, Model: model},
		&rigOptions{memory: true})
	r.say("Go.").finished(event.FinishStop)
	r.settled()
	h, err := r.Fetch(t.Context(), chat, "a", user)
	must(t, err)
	must(t, r.Delete(t.Context(), h.Session, user))
	h, err = r.Fetch(t.Context(), chat, "a", user)
	must(t, err)
	const gone = "It has stopped (done), and what it came to is no longer kept"
	if h.State != tool.HandleStopped || h.Status != string(event.Unknown) ||
		!strings.Contains(string(h.Output), gone) {
		t.Errorf("%+v", h)
	}
	r.say("Look.").finished(event.FinishStop)
	if got := r.outputs(); !strings.Contains(got[2], `"error"`) || !strings.Contains(got[2], gone) {
		t.Errorf("%q", got)
	}
	must(t, r.Close())
	r.sound()
}
