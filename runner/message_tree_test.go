package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

var (
	asksByMessage = tool.Await{Reason: tool.ReasonInput, Mode: tool.ModeMessage}
	asksByForm    = tool.Await{Reason: tool.ReasonInput}
	asksAMachine  = tool.Await{Reason: tool.ReasonExternal}
)

type awaits = map[string]tool.Await

// tell runs a message that came with an id.
func (r *rig) tell(id, text string) *seen {
	r.t.Helper()
	return watch(r.t, r.Run(r.t.Context(), user, chat, llm.UserText(text),
		&runner.RunOptions{MessageID: id}))
}

// answeredBy returns the receipts of a call of a child.
func (r *rig) answeredBy(id, call string) []session.Receipt {
	r.t.Helper()
	d, err := r.Call(r.t.Context(), id, call, user)
	must(r.t, err)
	return d.Receipts
}

// untold fails the test if a message of the user's beside the first has become
// part of the session.
func (r *rig) untold() {
	r.t.Helper()
	for _, m := range r.transcript().History[1:] {
		if m.Role == llm.RoleUser {
			r.t.Errorf("the message %q is stored: it was an answer", m.Text())
		}
	}
}

// The user's next message answers the only question in the tree, as an answer
// of the child's. Waits of machines don't matter, and a repeat is known.
func TestMessageAnswersAQuestionBelow(t *testing.T) {
	r := treeRig(t, nil, awaits{"q": asksByMessage, "m": asksAMachine}, awaits{"w": asksAMachine})
	for range 2 {
		if s := r.tell("m-2", "The blue one."); s.err != nil {
			t.Fatalf("it is told %v", s.err)
		}
		got := r.answeredBy(child(0), "q")
		if len(got) != 1 || got[0].Kind != session.KindMessage || got[0].Actor != user {
			t.Errorf("the question's receipts are %v", got)
		}
		r.untold()
		r.restart()
	}
	if s := r.tell("m-2", "Red."); !errors.Is(s.err, session.ErrMessageConflict) {
		t.Errorf("another message of that id is told %v", s.err)
	}
}

// With two people's pauses anywhere in the tree, or one that takes no message,
// a message is refused, and told what waits, with the paths.
func TestMessageThatMightAnswerTwo(t *testing.T) {
	for name, w := range map[string][]awaits{
		"two questions":  {{"q": asksByMessage}, {"p": asksByMessage}},
		"a form as well": {{"q": asksByMessage, "p": asksByForm}},
		"a form":         {{"p": asksByForm}},
	} {
		t.Run(name, func(t *testing.T) {
			r := treeRig(t, nil, w...)
			s := r.tell("m-2", "The blue one.")
			var pending *session.PendingError
			if !errors.As(s.err, &pending) {
				t.Fatalf("it is told %v", s.err)
			}
			people := 0
			for _, ps := range [][]tool.Pause{pending.Pending, s.end.Pending, r.transcript().Pending} {
				if len(ps) < len(w)+1 || ps[0].ID != delegate(0)+".1" || len(ps[0].Path) != 0 {
					t.Fatalf("what waits is %v", ps)
				}
				for _, p := range ps[len(w):] {
					people++
					if len(p.Path) != 1 || p.Path[0].Session != chat || p.Agent != "helper" {
						t.Errorf("%s of %s is listed with the path %v", p.ID, p.Agent, p.Path)
					}
				}
			}
			if people%3 != 0 || s.end.Finish != event.FinishPaused {
				t.Errorf("the lists differ; it ended as %s", s.end.Finish)
			}
			r.untold()
		})
	}
}

// A message that doesn't fit the question below is refused, and leaves nothing.
func TestMessageThatDoesNotFitAQuestionBelow(t *testing.T) {
	asks := asksByMessage
	asks.Schema = []byte(`{"type":"string","enum":["red","blue"]}`)
	r := treeRig(t, nil, awaits{"q": asks})
	for range 2 {
		if s := r.tell("m-2", "green"); !errors.Is(s.err, session.ErrInvalidResumePayload) ||
			s.end.Finish != event.FinishPaused {
			t.Errorf("it is told %v, and ended as %s", s.err, s.end.Finish)
		}
	}
	if got := r.answeredBy(child(0), "q"); len(got) != 0 {
		t.Errorf("the question's receipts are %v", got)
	}
	// Its id is free: the message was not taken.
	if s := r.tell("m-2", "blue"); s.err != nil {
		t.Errorf("another is told %v", s.err)
	}
	if got := r.answeredBy(child(0), "q"); len(got) != 1 {
		t.Errorf("the question's receipts are %v", got)
	}
	r.untold()
}

// What was answered below, and no drive has carried on, is carried on before the
// user's message: the message is refused only if calls still wait then.
func TestMessageComesAfterWhatWasAnsweredBelow(t *testing.T) {
	for name, c := range map[string]struct {
		waits []awaits
		want  error
	}{
		"the last":        {[]awaits{{"q": asksByForm}}, nil},
		"one of two":      {[]awaits{{"q": asksByForm}, {"p": asksByForm}}, session.ErrPending},
		"one that worked": {[]awaits{{"q": asksByForm}, nil}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := treeRig(t, nil, c.waits...)
			_, err := r.Resume(t.Context(), child(0), runner.Complete("q.1", "bob", text("v")))
			must(t, err)
			if s := r.tell("m-2", "And?"); !errors.Is(s.err, c.want) {
				t.Errorf("it is told %v", s.err)
			}
			d, err := r.Call(t.Context(), chat, delegate(0), user)
			if must(t, err); d.Status != session.Settled && d.Status != session.Answered {
				t.Errorf("the call is %s", d.Status)
			}
			if got := r.texts(); slices.Contains(got, "And?") != (c.want == nil) {
				t.Errorf("the session has %q", got)
			}
		})
	}
}

// Killed at any write, and sent again, the message arrives once: it is neither
// lost nor taken for another one.
func TestMessageBelowArrivesOnce(t *testing.T) {
	for _, fault := range []func(int) faultkv.Fault{faultkv.FailAt, faultkv.LoseAt} {
		for n, struck := 1, true; struck; n++ {
			t.Run(fault(n).String(), func(t *testing.T) {
				r := treeRig(t, nil, awaits{"q": asksByMessage}, awaits{"w": asksAMachine})
				r.faults.Add(fault(r.faults.Applies() + n).AndDie())
				r.tell("m-2", "The blue one.")
				struck = r.faults.Struck() > 0
				r.restart()
				if s := r.tell("m-2", "The blue one."); s.err != nil {
					t.Fatalf("sent again it is told %v", s.err)
				}
				if got := r.answeredBy(child(0), "q"); len(got) != 1 {
					t.Errorf("the question's receipts are %v", got)
				}
				r.untold()
				for p, err := range r.store.Check(t.Context()) {
					t.Error(p, err)
				}
			})
		}
	}
}

// An actor answers the question before the message that was on its way to it
// comes again. Then the message is as good as new: it is not held to have
// answered.
func TestMessageBelowThatIsOvertaken(t *testing.T) {
	for n := 1; n <= 2; n++ {
		t.Run(fmt.Sprint("after write ", n), func(t *testing.T) {
			r := treeRig(t, nil, awaits{"q": asksByMessage, "p": asksAMachine})
			r.faults.Add(faultkv.FailAt(r.faults.Applies() + n).AndDie())
			r.tell("m-2", "The blue one.")
			r.restart()
			_, err := r.Resume(t.Context(), child(0),
				runner.Complete("q.1", "bob", []byte(`"red"`)))
			must(t, err)
			if s := r.tell("m-2", "The blue one."); !errors.Is(s.err, session.ErrPending) {
				t.Errorf("it is told %v", s.err)
			}
			if got := r.answeredBy(child(0), "q"); len(got) != 1 || got[0].Actor != "bob" {
				t.Errorf("the question's receipts are %v", got)
			}
			r.untold()
		})
	}
}

// A superseding message looks at the leaves of the tree: it is taken if all
// wait for people, and the user may deny each of them.
func TestMessageSupersedesATree(t *testing.T) {
	supersede := func(r *rig) *seen {
		return watch(r.t, r.Run(r.t.Context(), user, chat, llm.UserText("Never mind."),
			&runner.RunOptions{Supersede: true}))
	}
	t.Run("people alone", func(t *testing.T) {
		var asked []string
		r := treeRig(t, &runner.Options{
			Authorizer: func(_ context.Context, op runner.Operation) error {
				if op.Answer != "" {
					asked = append(asked, fmt.Sprint(op.Session, " ", op.Pause, " ", op.Tool, " ",
						op.User, " ", op.Answer))
				}
				return nil
			},
		}, awaits{"q": asksByMessage}, awaits{"p": asksByForm})
		supersede(r).finished(event.FinishStop)
		want := []string{child(0) + " q.1 work ada deny", child(1) + " p.1 work ada deny"}
		if !slices.Equal(asked, want) {
			t.Errorf("the Authorizer was asked about %v", asked)
		}
		for i := range 2 {
			c, err := r.Call(t.Context(), chat, delegate(i), user)
			if must(t, err); c.Settled != event.Denied {
				t.Errorf("%s ended as %s", c.Call, c.Settled)
			}
		}
		if got := r.texts(); !slices.Contains(got, "Never mind.") {
			t.Errorf("the session has %q", got)
		}
		_, err := r.store.Deliver(t.Context(), chat)
		must(t, err)
		for i := range 2 {
			st, err := r.store.Load(t.Context(), child(i))
			if must(t, err); st.Ending == nil && st.Halt == nil {
				t.Errorf("the child %s goes on", st.ID)
			}
		}
		r.acceptable()
	})
	for name, w := range map[string][]awaits{
		"a machine":           {{"q": asksByForm, "m": asksAMachine}},
		"a machine elsewhere": {{"q": asksByForm}, {"m": asksAMachine}},
		"a child that works":  {{"q": asksByForm}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := treeRig(t, nil, w...)
			for i := range w {
				if w[i] == nil { // a drive has it
					d, err := r.store.Acquire(t.Context(), child(i), nil)
					must(t, err)
					defer d.Release()
				}
			}
			if s := supersede(r); !errors.Is(s.err, session.ErrPending) {
				t.Errorf("it is told %v", s.err)
			}
			for i := range w {
				c, err := r.Call(t.Context(), chat, delegate(i), user)
				if must(t, err); c.Status != session.Pending {
					t.Errorf("%s is %s", c.Call, c.Status)
				}
			}
			r.untold()
		})
	}
	t.Run("not allowed", func(t *testing.T) {
		r := treeRig(t, &runner.Options{
			Authorizer: func(_ context.Context, op runner.Operation) error {
				if op.Pause == "p.1" {
					return errors.New("not hers")
				}
				return nil
			},
		}, awaits{"q": asksByForm}, awaits{"p": asksByForm})
		if s := supersede(r); !errors.Is(s.err, runner.ErrNotAllowed) {
			t.Errorf("it is told %v", s.err)
		}
		r.untold()
	})
}
