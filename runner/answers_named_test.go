package runner_test

import (
	"context"
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

// stepping is a tool that waits for one outside job after another; job is given
// the token of each.
func stepping(steps int, job func(step int, token string)) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: "pipeline", Effect: tool.Idempotent, MayPause: true},
		func(ctx context.Context, _ textIn) (tool.Result[textOut], error) {
			call := tool.CallFrom(ctx)
			if call.Pauses == steps {
				return tool.Done(textOut{string(call.Answer.Payload)}), nil
			}
			job(call.Pauses+1, call.Token())
			return tool.Pending[textOut](tool.Await{Mode: tool.ModeReenter}), nil
		}))
}

func TestAnswerNamesAPause(t *testing.T) {
	tokens := map[int]string{}
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{stepping(3, func(step int, token string) { tokens[step] = token })},
		Model: fakellm.New(fakellm.Calls("pipeline", `{"text":"a"}`), fakellm.Says("Done.")),
	}, nil)
	resume := func(pause, payload string) (session.Receipt, error) {
		res, err := r.Resume(t.Context(), chat, runner.Complete(pause, "ci", []byte(payload)))
		if err != nil {
			return session.Receipt{}, err
		}
		return res.Receipts[0], nil
	}
	p := r.say("Go.").finished(event.FinishPaused).pause("pipeline")
	one, two, three := session.PauseID(p.Call, 1), session.PauseID(p.Call, 2), session.PauseID(p.Call, 3)

	// While there was one pause, the call's id means it.
	rc, err := resume(p.Call, `1`)
	if err != nil || rc.Pause != 1 || rc.Duplicate {
		t.Fatalf("by the call's id: %+v, %v", rc, err)
	}
	if rc, err = resume(one, `1`); err != nil || !rc.Duplicate {
		t.Errorf("the same by the pause's id: %+v, %v", rc, err)
	}
	if p = r.carryOn().finished(event.FinishPaused).pause("pipeline"); p.ID != two {
		t.Fatalf("%s waits", p.ID)
	}

	// From the second on it is ambiguous, but for what came already.
	var required *session.PauseRequiredError
	if _, err = resume(p.Call, `2`); !errors.As(err, &required) || !errors.Is(err,
		session.ErrPauseRequired) || required.Open != two {
		t.Errorf("by the call's id, at pause 2: %v", err)
	}
	if rc, err = resume(p.Call, `1`); err != nil || !rc.Duplicate || rc.Pause != 1 {
		t.Errorf("the first answer by the call's id, at pause 2: %+v, %v", rc, err)
	}
	// An answer to pause 1 doesn't answer pause 2, whatever it says, and
	// however pause 1 is named.
	if _, err = resume(one, `2`); !errors.Is(err, session.ErrResumeConflict) {
		t.Errorf("another answer to pause 1: %v", err)
	}
	found, err := r.Find(t.Context(), runner.Ref{Token: tokens[1]}, user)
	if err != nil || found.ID != one || found.Await.Reason != "" {
		t.Errorf("the token of pause 1 finds %+v, %v", found, err)
	}
	if found, err = r.Find(t.Context(), runner.Ref{Token: tokens[2]}, user); err != nil ||
		found.ID != two || found.Await.Reason == "" {
		t.Errorf("the token of pause 2 finds %+v, %v", found, err)
	}
	if st, err := r.Call(t.Context(), chat, p.Call, user); err != nil ||
		st.Status != session.Pending {
		t.Fatalf("the call is %s, %v", st.Status, err)
	}
	for _, id := range []string{three, session.PauseID(p.Call, 4), p.Call + ".0", p.Call + ".x",
		p.Call + ".99999999999999999999"} {
		if _, err := resume(id, `2`); !errors.Is(err, session.ErrUnknownPause) &&
			!errors.Is(err, session.ErrUnknownCall) && !errors.Is(err, session.ErrNotPaused) {
			t.Errorf("%s: %v", id, err)
		}
	}

	// Equal content is no duplicate where it answers another pause.
	if rc, err = resume(two, `1`); err != nil || rc.Duplicate || rc.Pause != 2 {
		t.Errorf("the same content for pause 2: %+v, %v", rc, err)
	}
	r.carryOn().finished(event.FinishPaused)
	if rc, err = resume(three, `3`); err != nil || rc.Duplicate {
		t.Errorf("pause 3: %+v, %v", rc, err)
	}
	r.carryOn().finished(event.FinishStop)
	if got := string(r.result(p.Call).Output); got != string(text("3")) {
		t.Errorf("the result is %s", got)
	}
	// Once the call has settled, each pause still has its own answer.
	for n, id := range map[string]string{`1`: one, `3`: three} {
		if rc, err := resume(id, n); err != nil || !rc.Duplicate {
			t.Errorf("%s again: %+v, %v", id, rc, err)
		}
	}
	if rc, err := resume(p.Call, `3`); err != nil || !rc.Duplicate || rc.Pause != 3 {
		t.Errorf("the last answer by the call's id: %+v, %v", rc, err)
	}
	if _, err := resume(p.Call, `4`); !errors.Is(err, session.ErrSettled) {
		t.Errorf("a new answer by the call's id: %v", err)
	}
	r.acceptable()
}

// Some gateways number calls from 0 in each request: an old answer must not
// meet a new call.
func TestProviderReusesIDsInLaterTurns(t *testing.T) {
	var n counter
	turn := fakellm.Calls("deploy", `{"text":"job"}`).IDs("call_0")
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{instant("touch", tool.Once, &n), waiting("deploy", tool.Once, &n)},
		Model: fakellm.New(fakellm.Calls("touch", `{"text":"a"}`).IDs("call_0"), turn,
			turn, fakellm.Says("Done.")),
	}, nil)
	old := r.say("Go.").finished(event.FinishPaused).pause("deploy")
	next := r.answer(runner.Complete(old.ID,
		"ci", text("v1"))).finished(event.FinishPaused).pause("deploy")
	if next.Call == old.Call {
		t.Fatal("two calls have one id")
	}
	for _, late := range []string{"v1", "v2"} { // redelivered, and changed
		res, err := r.Resume(t.Context(), chat, runner.Complete(old.ID, "ci", text(late)))
		if late == "v1" && (err != nil || !res.Receipts[0].Duplicate) || late == "v2" &&
			!errors.Is(err, session.ErrResumeConflict) {
			t.Errorf("%s: %+v, %v", late, res, err)
		}
	}
	if st, err := r.Call(t.Context(), chat, next.Call, user); err != nil ||
		st.Status != session.Pending {
		t.Fatalf("the new call is %s, %v", st.Status, err)
	}
	r.answer(runner.Complete(next.ID, "ci", text("v3"))).finished(event.FinishStop)
	if a, b := r.result(old.Call), r.result(next.Call); string(a.Output) != string(text("v1")) ||
		string(b.Output) != string(text("v3")) {
		t.Errorf("the results are %s and %s", a.Output, b.Output)
	}
	if n.get("deploy") != 2 || n.get("touch") != 1 {
		t.Errorf("the bodies were entered %v", n.n)
	}
	r.acceptable()
}

// Several calls may come to have one outside key, in one session or in many.
// While one is open the key means that one, and afterwards the one that ended
// last. With several open the key is refused, and they are answered by their
// own ids.
func TestOneKeyOfManyCalls(t *testing.T) {
	var n counter
	cl := newClock()
	job := fakellm.Calls("job", `{"text":"job-1"}`)
	r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("job", tool.Once, &n)},
		Model: fakellm.New(job, fakellm.Says("ok"), job, fakellm.Says("ok"), job, job,
			fakellm.Says("ok"), fakellm.Says("ok"))}, at(cl))
	key := runner.Ref{Tool: "job", Key: "job-1"}
	begin := func(id string) tool.Pause {
		cl.pass(time.Minute)
		return watch(t, r.Run(t.Context(), user, id,
			llm.UserText("Go."), nil)).finished(event.FinishPaused).pause("job")
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
			t.Errorf("the key names %s of session %q, not %s of %q: %v", got.ID, got.Session,
				want.ID, want.Session, err)
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

// A caller looks for a key among its own sessions: the calls of others don't
// count, however many wait under it. Without a user's name the key is ambiguous
// for all, and is never taken for one of them.
func TestKeyOfAnotherUser(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("job", tool.Once, &n)},
		Model: messages(calls("job", `{"text":"job-1"}`), says("ok")),
	}, nil)
	waits := func(user, id string) tool.Pause {
		return watch(t, r.Run(t.Context(), user, id,
			llm.UserText("Go."), nil)).finished(event.FinishPaused).pause("job")
	}
	ours, theirs := waits(user, chat), waits("mallory", "chat-2")
	for name, c := range map[string]struct {
		ref  runner.Ref
		want string
		err  error
	}{
		"without a name": {runner.Ref{}, "", session.ErrAmbiguousKey},
		"the user's":     {runner.Ref{User: user}, ours.ID, nil},
		"the session's":  {runner.Ref{Session: "chat-2"}, theirs.ID, nil},
		"both":           {runner.Ref{User: user, Session: chat}, ours.ID, nil},
		"another user's session": {runner.Ref{User: user, Session: "chat-2"},
			"", session.ErrNotYetKnown},
		"another user's session, long ago": {runner.Ref{User: user, Session: "chat-2",
			At: time.Now().Add(-2 * time.Hour)}, "", session.ErrUnknownPause},
		"of nobody": {runner.Ref{User: "bob"}, "", session.ErrNotYetKnown},
	} {
		c.ref.Tool, c.ref.Key = "job", "job-1"
		if p, err := r.Find(t.Context(), c.ref, user); p.ID != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %s, %v", name, p.ID, err)
		}
	}
	// By its id, too, a pause of another user is none.
	if _, err := r.Find(t.Context(),
		runner.Ref{Pause: theirs.ID, User: user}, user); !errors.Is(err, session.ErrUnknownPause) {
		t.Errorf("by its id: %v", err)
	}
	if p, err := r.Find(t.Context(), runner.Ref{Pause: theirs.ID,
		User: "mallory", Session: "chat-2"}, user); err != nil || p.ID != theirs.ID {
		t.Errorf("by its id, of that user: %+v, %v", p, err)
	}
	// What is damaged of others is in no one's way.
	_, err := r.kv.Apply(t.Context(), kvstore.Batch{
		Puts: []kvstore.Put{{Key: kvstore.Key("h", "chat-2"), Value: []byte(`{}`)}},
	})
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
		-time.Minute: session.ErrNotYetKnown, 0: session.ErrNotYetKnown,
		59 * time.Minute: session.ErrNotYetKnown, 61 * time.Minute: session.ErrUnknownPause,
	} {
		_, err := r.Find(t.Context(), runner.Ref{
			Tool: "job", Key: "job-2", At: cl.now().Add(-age),
		}, user)
		if !errors.Is(err, want) ||
			errors.Is(err, session.ErrNotYetKnown) != (want == session.ErrNotYetKnown) {
			t.Errorf("an event of %v ago: %v", age, err)
		}
	}
	if _, err := r.Find(t.Context(), runner.Ref{Tool: "job", Key: "job-2"}, user); !errors.Is(err,
		session.ErrNotYetKnown) {
		t.Errorf("an event of unknown age: %v", err)
	}
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	old := runner.Ref{Tool: "job", Key: "job-1", At: cl.now().Add(-48 * time.Hour)}
	if found, err := r.Find(t.Context(), old, user); err != nil || found.ID != p.ID {
		t.Errorf("an old event whose call waits: %+v, %v", found, err)
	}
}

func TestUnknownKeyIsNotYetKnown(t *testing.T) {
	var n counter
	var r *rig
	r = deploying(t,
		starting(tool.Once, &n,
			func(ctx context.Context, call tool.Call) (tool.Result[textOut], error) {
				// the job is faster than the pause
				_, err := r.Find(ctx, runner.Ref{Tool: "deploy", Key: "job-1"}, user)
				if !errors.Is(err, session.ErrNotYetKnown) ||
					errors.Is(err, session.ErrUnknownPause) {
					t.Errorf("before the pause: %v", err)
				}
				return tool.Pending[textOut](tool.Await{Key: "job-1"}), nil
			}))
	r.say("Deploy.").finished(event.FinishPaused)
	p, err := r.Find(t.Context(), runner.Ref{Tool: "deploy", Key: "job-1"}, user)
	must(t, err)
	r.answer(runner.Complete(p.ID, "ci", text("v2"))).finished(event.FinishStop)
	over, err := r.Find(t.Context(), runner.Ref{Tool: "deploy", Key: "job-1"}, user)
	if err != nil || over.ID != p.ID || over.Await.Reason != "" {
		t.Errorf("after the end: %+v, %v", over, err)
	}
	if _, err := r.Find(t.Context(),
		runner.Ref{Tool: "deploy", Key: "job-2"}, user); !errors.Is(err, session.ErrNotYetKnown) {
		t.Errorf("a key of nobody: %v", err)
	}
}

// What is not written as fermata writes it names no pause: call.01 is not
// call.1.
func TestIDsOfPausesHaveOneForm(t *testing.T) {
	var n counter
	r, p := deployed(t, &n)
	for _, id := range []string{p.Call + ".01", p.Call + ".+1", p.Call + ".1 ",
		p.Call + ".0", p.Call + ".-1"} {
		_, err := r.Resume(t.Context(), chat, runner.Complete(id, "ci", text("v2")))
		if !errors.Is(err, session.ErrUnknownCall) {
			t.Errorf("%q is told %v", id, err)
		}
		if _, err := r.Find(t.Context(), runner.Ref{Pause: id}, user); err == nil {
			t.Errorf("%q is found", id)
		}
	}
	r.answer(runner.Complete(p.ID, "ci", text("v2"))).finished(event.FinishStop)
}
