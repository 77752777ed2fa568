package runner_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// askings notes when layers are asked about calls that weren't decided: "early"
// is before the message that asks for the call is stored.
type askings struct {
	r     *rig
	mu    sync.Mutex
	notes []string
}

func (a *askings) note(ctx context.Context, name string) (early bool) {
	early = true
	if stored, err := a.r.Show(ctx, chat, user); err == nil {
		early = len(stored.History[len(stored.History)-1].ToolCalls()) == 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	when := " stored"
	if early {
		when = " early"
	}
	a.notes = append(a.notes, name+when)
	return early
}

// deciding is what a layer does with a call that wasn't decided.
type deciding func(early bool, c tool.Call, next through) (tool.Execution, error)

type through func() (tool.Execution, error)

// layer is one that notes when it is asked.
func (a *askings) layer(name string, pure bool, decides deciding) interceptor.Layer {
	l := toolLayer(name,
		func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
			passOn := func() (tool.Execution, error) { return next(ctx, c) }
			if _, decided := c.Decided(name); decided {
				return passOn()
			}
			return decides(a.note(ctx, name), c, passOn)
		})
	l.Pure = pure
	return l
}

func wants(a tool.Await) (tool.Execution, error) { return tool.Execution{Await: &a}, nil }

func wantsApproval(bool, tool.Call, through) (tool.Execution, error) {
	return wants(tool.Await{Reason: tool.ReasonApproval})
}

func letsThrough(_ bool, _ tool.Call, next through) (tool.Execution, error) {
	return next()
}

// readsItself has a method of its own to read its JSON, which may take its time.
type readsItself string

func (r *readsItself) UnmarshalText(text []byte) error { *r = readsItself(text); return nil }

type itselfIn struct {
	Text readsItself `json:"text"`
}

// No layer that isn't pure, or stands behind one that isn't, is asked before
// the message is stored. A pure one is; only a pause that it wants counts, and
// all else that it does then comes to nothing.
func TestLayersAreAskedAheadIfTheyArePure(t *testing.T) {
	var a askings
	pure := func(d deciding) interceptor.Chain { return interceptor.Chain{a.layer("a", true, d)} }
	for name, c := range map[string]struct {
		chain   interceptor.Chain
		asked   string
		commits int          // from the user's message to the pause; 0: it doesn't pause
		ends    event.Status // of one that doesn't
		reads   bool
	}{
		"a pure one": {chain: pure(wantsApproval), asked: "a early", commits: 2},
		"one that isn't": {chain: interceptor.Chain{a.layer("a", false, wantsApproval)},
			asked: "a stored", commits: 3},
		"a pure one behind one that isn't": {chain: append(interceptor.Chain{passes},
			pure(wantsApproval)...), asked: "a stored", commits: 3},
		"a pure one that is for another tool, and one that isn't": {
			chain: interceptor.Chain{{Name: "other", Pure: true, Tools: []string{"other"},
				Tool: passes.Tool}, a.layer("a", false, wantsApproval)}, asked: "a stored", commits: 3},
		"one that isn't behind a pure one": {chain: append(pure(letsThrough),
			a.layer("b", false, wantsApproval)), asked: "a early, a stored, b stored", commits: 3},
		"a pure one behind another": {chain: append(pure(letsThrough),
			a.layer("b", true, wantsApproval)), asked: "a early, b early", commits: 2},
		"one that makes a token": {chain: pure(
			func(_ bool, c tool.Call, _ through) (tool.Execution, error) {
				return wants(tool.Await{Prompt: c.Token(tool.PermitApprove)})
			}), asked: "a early, a stored", commits: 3},
		"one that reports": {chain: pure(
			func(_ bool, c tool.Call, _ through) (tool.Execution, error) {
				_ = c.Report(context.Background(), tool.Progress{Message: "asking"})
				return wants(tool.Await{})
			}), asked: "a early, a stored", commits: 4},
		"one that reads the history": {chain: pure(
			func(_ bool, c tool.Call, _ through) (tool.Execution, error) {
				_, err := c.History(context.Background())
				if err != nil {
					return tool.Execution{}, err
				}
				return wants(tool.Await{})
			}), asked: "a early, a stored", commits: 3},
		"one that waits for a job": {chain: pure(
			func(bool, tool.Call, through) (tool.Execution, error) {
				return wants(tool.Await{Key: "job-1"})
			}), asked: "a early, a stored", commits: 3},
		"one that asks for nonsense": {chain: pure(
			func(bool, tool.Call, through) (tool.Execution, error) {
				return wants(tool.Await{Reason: "why not"})
			}), asked: "a early, a stored", ends: event.Failed},
		"one that denies": {chain: pure(
			func(bool, tool.Call, through) (tool.Execution, error) {
				return tool.Execution{}, tool.Denied("no")
			}), asked: "a early, a stored", ends: event.Denied},
		"one that panics": {chain: pure(
			func(bool, tool.Call, through) (tool.Execution, error) {
				panic("no")
			}), asked: "a early, a stored", ends: event.Failed},
		"one that ends its goroutine": {chain: pure(
			func(bool, tool.Call, through) (tool.Execution, error) {
				runtime.Goexit()
				return tool.Execution{}, nil
			}), asked: "a early, a stored", ends: event.Failed},
		"one whose tool reads its arguments itself": {chain: pure(wantsApproval), reads: true,
			asked: "a stored", commits: 3},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			act := instant("act", tool.Once, &n)
			if c.reads {
				act = tool.Must(tool.Func(tool.Spec{Name: "act"},
					func(context.Context, itselfIn) (tool.Result[textOut], error) {
						n.add("act")
						return tool.Done(textOut{"a"}), nil
					}))
			}
			config := oneCall(act, c.chain...)
			config.Tools = append(config.Tools, instant("other", tool.Once, &n))
			a.r = newRig(t, config, nil)
			// The tool's schemas, and the key of tokens, are stored once.
			watch(t, a.r.Run(t.Context(), user, "chat-2", llm.UserText("Go."), nil))
			a.notes = nil
			before := a.r.faults.Applies()
			s := a.r.say("Go.")
			commits := a.r.faults.Applies() - before
			if got := strings.Join(a.notes, ", "); got != c.asked {
				t.Errorf("asked were %s, and not %s", got, c.asked)
			}
			if n.get("act") != 0 {
				t.Error("the body was entered")
			}
			if c.commits == 0 {
				if res := of[event.Result](s.finished(event.FinishStop)); len(res) != 1 ||
					res[0].Status != c.ends {
					t.Errorf("it ended as %+v", res)
				}
				return
			}
			p := s.finished(event.FinishPaused).pause("act")
			if p.Number != 1 || commits != c.commits ||
				strings.Contains(p.Await.Prompt, "no-token") {
				t.Errorf("pause %d, %q, after %d commits, and not %d", p.Number, p.Await.Prompt,
					commits, c.commits)
			}
			a.r.restart()
			in := runner.Approve(p.ID, "eve", "")
			if a.r.answer(in).finished(event.FinishStop); n.get("act") != 1 {
				t.Errorf("the body was entered %d times", n.get("act"))
			}
			a.r.acceptable()
		})
	}
}

// If another commit comes before the message, what a layer answered is thrown
// away: it is asked again, by the session as it is then, or not at all.
func TestAnswerOfALayerThatIsOutrun(t *testing.T) {
	for name, c := range map[string]struct {
		other func(*rig) error
		asked string
		ends  event.Finish
	}{
		"by a message": {func(r *rig) error {
			_, err := r.Send(t.Context(), user, chat, llm.UserText("And then?"), nil)
			return err
		}, "a early, a stored", event.FinishPaused},
		"by the run's end": {func(r *rig) error {
			return r.CancelSession(t.Context(), chat, user, "enough")
		}, "a early", event.FinishCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			var a askings
			var n counter
			a.r = newRig(t, oneCall(instant("act", tool.Once, &n), a.layer("a", true,
				func(early bool, _ tool.Call, _ through) (tool.Execution, error) {
					if early {
						must(t, c.other(a.r))
					}
					return wants(tool.Await{Reason: tool.ReasonApproval})
				})), nil)
			s := a.r.say("Go.").finished(c.ends)
			if got := strings.Join(a.notes, ", "); got != c.asked || n.get("act") != 0 {
				t.Errorf("asked were %s, and not %s", got, c.asked)
			}
			if paused := of[event.Pause](s); len(paused) > 1 ||
				len(paused) == 1 && (c.ends != event.FinishPaused || paused[0].Pause.Number != 1) {
				t.Errorf("it has paused: %v", paused)
			}
		})
	}
}

// A layer that is declared pure, and isn't done in time, or whose caller has
// left, holds up neither the model's message nor the run.
func TestPureLayerThatHangs(t *testing.T) {
	for name, leaves := range map[string]bool{"a caller that waits": false, "one that leaves": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var a askings
				var n counter
				let, asked := make(chan struct{}), make(chan struct{})
				a.r = newRig(t, oneCall(instant("act", tool.Once, &n), a.layer("a", true,
					func(early bool, _ tool.Call, _ through) (tool.Execution, error) {
						if early {
							close(asked)
							<-let
						}
						return wants(tool.Await{Reason: tool.ReasonApproval})
					})), &rigOptions{memory: true})
				defer close(let) // before Close waits for the layer
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				if leaves {
					go func() { <-asked; leave() }()
				}
				s := watch(t, a.r.Run(ctx, user, chat, llm.UserText("Go."), nil))
				if leaves {
					if s.end.Finish != event.FinishInterrupted {
						t.Fatalf("the run ended as %s", s.end.Finish)
					}
					s = a.r.carryOn()
				}
				s.finished(event.FinishPaused).pause("act")
				if want := []string{"a early", "a stored"}; !slices.Equal(a.notes, want) {
					t.Errorf("asked were %v, and not %v", a.notes, want)
				}
			})
		})
	}
}

// As many pauses are stored with a message as its commit has room for.
func TestManyPausesAreAskedForAhead(t *testing.T) {
	var n counter
	turn := fakellm.Turn{}
	for range 40 {
		turn = turn.And("act", `{"text":"a"}`)
	}
	r := newRig(t, agent.Config{Model: fakellm.New(turn, fakellm.Says("I see.")),
		Tools:        []tool.Tool{instant("act", tool.Once, &n)},
		Interceptors: approval()}, nil)
	if s := r.say("Go.").finished(event.FinishPaused); len(of[event.Pause](s)) != 40 {
		t.Errorf("%d calls wait", len(of[event.Pause](s)))
	}
	// The message, those that it had no room for, and the schema.
	if commits := r.faults.Applies(); commits > 36 {
		t.Errorf("it took %d commits", commits)
	}
	r.restart()
	if got := inbox(t, r, chat); len(got) != 40 {
		t.Errorf("%d approvals are listed", len(got))
	}
}
