package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// visited is a session to which another process comes, once, at a place of the
// first one's drives: a call of the engine, a question to a layer or the model.
type visited struct {
	*rig
	second *runner.Runner
	visit  func(*visited)

	mu     sync.Mutex // guards the rest
	place  int        // at which of the places the other one comes
	passed int        // how many there were
	came   bool
	bodies []string // that were entered, with their arguments, and whether with an answer
	taken  int      // answers that were accepted
}

// pass is at each of the places.
func (v *visited) pass() {
	v.mu.Lock()
	v.passed++
	comes := v.passed == v.place
	v.came = v.came || comes
	v.mu.Unlock()
	if comes {
		v.visit(v)
	}
}

// tool is one of effect once. If it asks, then for an answer with which it is
// entered again.
func (v *visited) tool(name string, asks bool) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: name, MayPause: true},
		func(ctx context.Context, in struct {
			Text string `json:"text,omitempty"` // a body may be entered without, by mistake
		}) (tool.Result[textOut], error) {
			answered := tool.CallFrom(ctx).Answer != nil
			v.mu.Lock()
			defer v.mu.Unlock()
			v.bodies = append(v.bodies, fmt.Sprintf("%s %s %t", name, in.Text, answered))
			if asks && !answered {
				return tool.Pending[textOut](tool.Await{Mode: tool.ModeReenter,
					Schema: []byte(`{"type":"object"}`)}), nil
			}
			return tool.Done(textOut{in.Text}), nil
		}))
}

func newVisited(t *testing.T, place int, visit func(*visited)) *visited {
	v := &visited{place: place, visit: visit}
	gate := func(name string) interceptor.Layer {
		return interceptor.Approval(&interceptor.ApprovalOptions{Name: name, Pure: true,
			Tools: []string{"act"}, Prompt: func(tool.Call) string { v.pass(); return name }})
	}
	script := messages(calls("act", `{"text":"a"}`), calls("ask", `{"text":"b"}`),
		calls("act", `{"text":"c"}`), says("Done."), says("Done, once more."))
	engine := hooked{get: func([]byte) error { v.pass(); return nil },
		apply: func(kvstore.Batch) { v.pass() }, scan: func(kvstore.Range) { v.pass() }}
	v.rig = newRig(t, agent.Config{Tools: []tool.Tool{v.tool("act", false), v.tool("ask", true)},
		Interceptors: interceptor.Chain{gate("one"), gate("two")},
		Model:        modelFunc(func(r llm.Request) []llm.Event { v.pass(); return script(r) })},
		&rigOptions{memory: true, wrap: engine.shared})
	v.second = v.another()
	return v
}

// answers answers what waits, and drives on if it is to. Another process may be
// faster.
func (v *visited) answers(rn *runner.Runner, s *seen, drives bool) (next *seen) {
	for _, p := range s.end.Pending {
		in := runner.Approve(p.ID, "eve", "")
		if p.Tool == "ask" {
			in = runner.Complete(p.ID, "ci", text("v"))
		}
		res, err := rn.Resume(v.t.Context(), chat, in)
		if err != nil {
			continue
		}
		if !res.Receipts[0].Duplicate {
			v.taken++
		}
		if drives {
			next = watch(v.t, res.Events(v.t.Context()))
		}
	}
	return next
}

func (v *visited) carriesOn(rn *runner.Runner) *seen {
	return watch(v.t, rn.Continue(v.t.Context(), chat, user))
}

// toTheEnd drives and answers until there is nothing left to do.
func (v *visited) toTheEnd(rn *runner.Runner, s *seen) {
	v.t.Helper()
	for range 30 {
		if s == nil || s.err != nil || len(s.end.Pending) == 0 {
			s = v.carriesOn(rn)
		}
		switch {
		case s.err == nil && s.end.Finish == event.FinishStop:
			return
		case s.err != nil && !errors.Is(s.err, session.ErrBusy) && !errors.Is(s.err, session.ErrFenced):
			v.t.Fatalf("another one came at place %d: %v", v.place, s.err)
		}
		s = v.answers(rn, s, true)
	}
	v.t.Fatalf("another one came at place %d, and the session doesn't come to its end", v.place)
}

// Wherever another process comes to a session, and however far it takes it:
// each body is entered once, with its own arguments; each person is asked once;
// the model is told of all.
func TestAnotherProcessComesAnywhere(t *testing.T) {
	t.Parallel()
	for name, visit := range map[string]func(*visited){
		"and drives and answers": func(v *visited) { v.answers(v.second, v.carriesOn(v.second), false) },
		"and drives, answers and drives": func(v *visited) {
			v.answers(v.second, v.carriesOn(v.second), true)
		},
		"and drives to the end": func(v *visited) {
			s := v.carriesOn(v.second)
			if !errors.Is(s.err, session.ErrBusy) && !errors.Is(s.err, session.ErrUnknownSession) {
				v.toTheEnd(v.second, s)
			}
		},
		"with a message": func(v *visited) {
			_, err := v.second.Send(v.t.Context(), user, chat, llm.UserText("And?"), nil)
			must(v.t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for place := 3; ; place += testlength.Step(3) { // the session has begun by then
				v := newVisited(t, place, visit)
				v.toTheEnd(v.Runner, v.say("Go."))
				if v.place = 0; v.came { // no later
					v.toTheEnd(v.Runner, nil) // a message may wait
				}
				const want = "act a false, ask b false, ask b true, act c false"
				if got := strings.Join(v.bodies, ", "); got != want || v.taken != 5 {
					t.Fatalf("another one came at place %d: the bodies are %s, and %d answers "+
						"were taken", place, got, v.taken)
				}
				if got := v.texts(); got[len(got)-1] == "And?" {
					t.Fatalf("another one came at place %d: the last message is not answered: %q", place, got)
				}
				v.acceptable()
				if v.Close(); !v.came {
					return
				}
			}
		})
	}
}
