package runner_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// Several calls may come to have one outside key, in one session or in many: while one is open it is meant, and afterwards the one
// that ended last. With several open the key is refused, and by their own ids they are answered.
func TestOneKeyOfManyCalls(t *testing.T) {
	var n counter
	cl := newClock()
	job := fakellm.Calls("job", `{"text":"job-1"}`)
	r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("job", tool.Once, &n)},
		Model: fakellm.New(job, fakellm.Says("ok"), job, fakellm.Says("ok"), job, job, fakellm.Says("ok"), fakellm.Says("ok"))}, at(cl))
	key := runner.Ref{Tool: "job", Key: "job-1"}
	begin := func(id string) tool.Pause {
		cl.pass(time.Minute)
		return watch(t, r.Run(t.Context(), user, id, llm.UserText("Go."), nil)).finished(event.FinishPaused).pause("job")
	}
	end := func(p tool.Pause) {
		cl.pass(time.Minute)
		res, err := r.Resume(t.Context(), p.Session, runner.Complete(p.ID, "ci", text("v")))
		must(t, err)
		watch(t, res.Events(t.Context())).finished(event.FinishStop)
	}
	named := func(want tool.Pause) {
		t.Helper()
		if got, err := r.Find(t.Context(), key, user); err != nil || got.ID != want.ID {
			t.Errorf("the key names %s of session %q, not %s of %q: %v", got.ID, got.Session, want.ID, want.Session, err)
		}
	}
	first := begin("z")
	named(first)
	end(first)
	second := begin("a") // the session sorts before, and the call comes after
	named(second)
	end(second)
	named(second)

	third, fourth := begin("m"), begin("b")
	if _, err := r.Find(t.Context(), key, user); !errors.Is(err, session.ErrAmbiguousKey) {
		t.Errorf("with two open: %v", err)
	}
	end(fourth)
	named(third)
	end(third)
	named(third)
}

// A key that a caller looks for among his own is blind to the calls of others,
// however many wait under it; without a name it is ambiguous for all, and never
// taken for one of them.
func TestKeyOfAnotherUser(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("job", tool.Once, &n)},
		Model: messages(calls("job", `{"text":"job-1"}`), says("ok")),
	}, nil)
	waits := func(user, id string) tool.Pause {
		return watch(t, r.Run(t.Context(), user, id, llm.UserText("Go."), nil)).finished(event.FinishPaused).pause("job")
	}
	ours, theirs := waits(user, chat), waits("mallory", "chat-2")
	for name, c := range map[string]struct {
		ref  runner.Ref
		want string
		err  error
	}{
		"without a name":                   {runner.Ref{}, "", session.ErrAmbiguousKey},
		"the user's":                       {runner.Ref{User: user}, ours.ID, nil},
		"the session's":                    {runner.Ref{Session: "chat-2"}, theirs.ID, nil},
		"both":                             {runner.Ref{User: user, Session: chat}, ours.ID, nil},
		"another user's session":           {runner.Ref{User: user, Session: "chat-2"}, "", session.ErrNotYetKnown},
		"another user's session, long ago": {runner.Ref{User: user, Session: "chat-2", At: time.Now().Add(-2 * time.Hour)}, "", session.ErrUnknownPause},
		"of nobody":                        {runner.Ref{User: "bob"}, "", session.ErrNotYetKnown},
	} {
		c.ref.Tool, c.ref.Key = "job", "job-1"
		if p, err := r.Find(t.Context(), c.ref, user); p.ID != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %s, %v", name, p.ID, err)
		}
	}
	// By its id, too, a pause of another user is none.
	if _, err := r.Find(t.Context(), runner.Ref{Pause: theirs.ID, User: user}, user); !errors.Is(err, session.ErrUnknownPause) {
		t.Errorf("by its id: %v", err)
	}
	if p, err := r.Find(t.Context(), runner.Ref{Pause: theirs.ID, User: "mallory", Session: "chat-2"}, user); err != nil || p.ID != theirs.ID {
		t.Errorf("by its id, of that user: %+v, %v", p, err)
	}
	// What is damaged of others is in no one's way.
	_, err := r.kv.Apply(t.Context(), kvstore.Batch{Puts: []kvstore.Put{{Key: kvstore.Key("h", "chat-2"), Value: []byte(`{}`)}}})
	must(t, err)
	for _, ref := range []runner.Ref{{User: user}, {Session: chat}} {
		ref.Tool, ref.Key = "job", "job-1"
		if p, err := r.Find(t.Context(), ref, user); err != nil || p.ID != ours.ID {
			t.Errorf("beside what is damaged: %+v, %v", p, err)
		}
	}
}

// A key that no call has may be known soon, while the event that it came with
// is young, or of unknown age. Of an old event it never will be.
func TestKeyOfAnOldEvent(t *testing.T) {
	var n counter
	cl := newClock()
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("job", tool.Once, &n)},
		Model: messages(calls("job", `{"text":"job-1"}`), says("ok")),
	}, at(cl))
	for age, want := range map[time.Duration]error{
		-time.Minute: session.ErrNotYetKnown, 0: session.ErrNotYetKnown, 59 * time.Minute: session.ErrNotYetKnown, 61 * time.Minute: session.ErrUnknownPause,
	} {
		_, err := r.Find(t.Context(), runner.Ref{Tool: "job", Key: "job-2", At: cl.now().Add(-age)}, user)
		if !errors.Is(err, want) || errors.Is(err, session.ErrNotYetKnown) != (want == session.ErrNotYetKnown) {
			t.Errorf("an event of %v ago: %v", age, err)
		}
	}
	if _, err := r.Find(t.Context(), runner.Ref{Tool: "job", Key: "job-2"}, user); !errors.Is(err, session.ErrNotYetKnown) {
		t.Errorf("an event of unknown age: %v", err)
	}
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	old := runner.Ref{Tool: "job", Key: "job-1", At: cl.now().Add(-48 * time.Hour)}
	if found, err := r.Find(t.Context(), old, user); err != nil || found.ID != p.ID {
		t.Errorf("an old event whose call waits: %+v, %v", found, err)
	}
}
