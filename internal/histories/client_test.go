package histories

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// client is one of the callers that do something to the session.
type client struct {
	*world
	number int
	r      *rand.Rand
}

// began is the beginning of an operation.
type began struct {
	at   int64
	hour int
}

func (w *world) begin() began {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at++
	return began{w.at, int(w.hour.Load())}
}

// ended records an operation.
func (c *client) ended(b began, in operation, out outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at++
	in.since, in.now = b.hour, int(c.hour.Load())
	o := porcupine.Operation{ClientId: len(c.all), Input: in, Output: out, Call: b.at, Return: c.at}
	if out.uncertain { // it may yet happen
		in.now = 2 * mostHours
		o.Input, o.Return = in, math.MaxInt64
	}
	c.all = append(c.all, o)
}

// act is one operation, on a call of the last turn mostly.
func (c *client) act(by string) {
	ids := c.calls()
	call := anyCall
	if n := len(ids); n > 3 && c.r.IntN(5) > 0 {
		call = ids[n-1-c.r.IntN(3)]
	} else if n > 0 {
		call = ids[c.r.IntN(n)]
	}
	in := operation{call: call, by: by, runner: c.r.IntN(2)}
	rn := c.runners[in.runner]
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	if c.r.IntN(10) == 0 {
		turns := c.r.IntN(200)
		go func() {
			for range turns {
				runtime.Gosched()
			}
			cancel()
		}()
	}
	switch p := c.r.IntN(100); {
	case p < 36 && c.r.IntN(4) > 0 && c.takesMail(call):
		c.send(ctx, in)
	case p < 36:
		in.name, in.content = "resume", c.content(call)
		in.pause = []int{0, 1, 1, 1, 1, 2, 2, 2, 3}[c.r.IntN(9)]
		c.resume(ctx, rn, in)
	case p < 41:
		in.name = "cancel"
		c.do(in, func() (string, error) {
			receipt, err := rn.Cancel(ctx, chat, call, runner.Actor(by), "")
			return told(receipt), err
		})
	case p < 50:
		in.name, in.by = "progress", ""
		c.do(in, func() (string, error) {
			return "ok", rn.Progress(ctx, chat, call, user, tool.Progress{Message: by})
		})
	case p < 56:
		in.name, in.pause = "extend", c.r.IntN(3)
		in.deadline = int(c.hour.Load()) + 1 + c.r.IntN(3)
		pause := call
		if in.pause > 0 {
			pause = session.PauseID(call, in.pause)
		}
		c.do(in, func() (string, error) {
			return "ok", rn.Extend(ctx, chat, pause, runner.Actor(by),
				c.begun.Add(time.Duration(in.deadline)*time.Hour))
		})
	case p < 66:
		c.look(ctx, in.runner, call)
	case p < 73:
		c.find(ctx, in)
	case p < 78:
		c.show(ctx, in.runner)
	case p < 84:
		in.name = "say"
		c.say(ctx, in)
	case p < 87:
		in.name = "supersede"
		c.say(ctx, in)
	case p < 88:
		c.endRun(ctx, in.runner)
	case p < 95:
		_ = c.drive(ctx, in.runner, "continue")
	case c.hour.Load() < mostHours:
		c.hour.Add(1)
	}
}

func (c *client) content(call string) string {
	c.mu.Lock()
	tool := c.tools[call]
	c.mu.Unlock()
	switch gated := tool == "act" || tool == "pay" || tool == "sign"; {
	case gated && c.r.IntN(2) == 0:
		return []string{yes, yes, yes, no}[c.r.IntN(4)]
	case tool == asksOperator && c.r.IntN(3) > 0:
		return again
	case textual(tool) && c.r.IntN(8) > 0:
		return sayings[c.r.IntN(len(sayings))]
	}
	return []string{"a", "a", "a", "b", "b", failure, yes}[c.r.IntN(7)]
}

// sayings are the user's messages, and the answers to questions that take one.
var sayings = []string{"say a", "say a", "say b"}

// do is an operation whose refusal is its outcome.
func (c *client) do(in operation, f func() (string, error)) string {
	b := c.begin()
	text, err := f()
	out, happened := c.outcome(text, err)
	if happened {
		c.ended(b, in, out)
	}
	return out.text
}

// outcome says what an operation came to. One that an error kept from happening
// has no outcome.
func (c *client) outcome(text string, err error) (out outcome, happened bool) {
	var conflict *session.ConflictError
	var settled *session.SettledError
	var required *session.PauseRequiredError
	switch {
	case err == nil:
	case errors.Is(err, kvstore.ErrUncertain):
		return outcome{text: err.Error(), uncertain: true}, true
	case isFault(err), errors.Is(err, context.Canceled):
		return outcome{text: err.Error()}, false
	case errors.As(err, &conflict):
		text = "conflict with " + conflict.Receipt.Actor
	case errors.As(err, &settled):
		text = fmt.Sprint("settled ", settled.Status)
	case errors.As(err, &required):
		text = "pause required"
		if _, number, found := strings.Cut(required.Open, "."); found {
			text += ": " + number
		}
	case errors.Is(err, session.ErrInvalidResumePayload):
		text = "misfit"
	case errors.Is(err, session.ErrDeleted):
		text = isGone
	case errors.Is(err, session.ErrUnknownEvent):
		text = "unknown event"
	case errors.Is(err, session.ErrMailboxFull):
		text = "full"
	case errors.Is(err, session.ErrNotPaused):
		text = "not paused"
	case errors.Is(err, session.ErrUnknownPause):
		text = "unknown pause"
	case errors.Is(err, session.ErrUnknownCall), errors.Is(err, session.ErrUnknownSession):
		text = "unknown"
	case strings.Contains(err.Error(), "is past"):
		text = "past"
	default:
		c.t.Errorf("seed %d: %v", c.seed, err)
		text = err.Error()
	}
	return outcome{text: text}, true
}

func isFault(err error) bool { return errors.Is(err, faultkv.ErrFault) }

func told(r session.Receipt) string {
	if r.Duplicate {
		return strings.TrimSpace("duplicate of " + r.Actor + " " + eventFate(r))
	}
	return isAccepted
}

func (c *client) resume(ctx context.Context, rn *runner.Runner, in operation) {
	pause := in.call
	if in.pause > 0 {
		pause = session.PauseID(in.call, in.pause)
	}
	answer := map[string]runner.Resumption{
		yes:     runner.Approve(pause, runner.Actor(in.by), ""),
		no:      runner.Deny(pause, runner.Actor(in.by), ""),
		failure: runner.Fail(pause, runner.Actor(in.by), "no disk", false),
		again:   runner.RunAgain(pause, runner.Actor(in.by), ""),
	}
	r, special := answer[in.content]
	if !special {
		r = runner.Complete(pause, runner.Actor(in.by), payload(in.content))
	}
	var resumed *runner.Resumed
	came := c.do(in, func() (string, error) {
		var err error
		if resumed, err = rn.Resume(ctx, chat, r); err != nil {
			return "", err
		}
		return told(resumed.Receipts[0]), nil
	})
	if came == isAccepted {
		c.mu.Lock()
		c.given = append(c.given, in)
		c.mu.Unlock()
		if c.r.IntN(2) == 0 {
			_ = c.watch(in.runner, resumed.Events(ctx))
		}
	}
}

// payload is an answer that isn't special: a string, or an object.
func payload(content string) json.RawMessage {
	var v any = words{content}
	if isString(content) {
		v = content
	}
	b, _ := json.Marshal(v)
	return b
}

func textOf(raw json.RawMessage) (s string) {
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var out words
	_ = json.Unmarshal(raw, &out)
	return out.Text
}

// say has a user's message taken, perhaps in place of what waits for a person.
func (c *client) say(ctx context.Context, in operation) {
	b := c.begin()
	in.call, in.content, in.by = everyCall, sayings[c.r.IntN(len(sayings))], user
	o := &runner.RunOptions{Supersede: in.name == "supersede"}
	err := c.watch(in.runner, c.runners[in.runner].Run(ctx, user, chat,
		llm.UserText(in.content), o))
	switch {
	case errors.Is(err, session.ErrPending), errors.Is(err, session.ErrBusy),
		errors.Is(err, session.ErrInvalidResumePayload):
		return // it was refused
	case err != nil:
		c.ended(b, in, outcome{text: err.Error(), uncertain: true})
	default:
		c.ended(b, in, outcome{text: "taken"})
	}
}

// endRun cancels the session.
func (c *client) endRun(ctx context.Context, runner int) {
	b, in := c.begin(), operation{name: "end", call: everyCall, runner: runner}
	switch err := c.runners[runner].CancelSession(ctx, chat, "bob", "enough"); {
	case errors.Is(err, session.ErrUnknownSession):
	case err == nil:
		c.ended(b, in, outcome{text: "ok"})
	case errors.Is(err, kvstore.ErrUncertain), isFault(err), errors.Is(err, context.Canceled):
		// what follows the commit may have failed
		c.ended(b, in, outcome{text: err.Error(), uncertain: true})
	default:
		c.t.Errorf("seed %d: the session could not be cancelled: %v", c.seed, err)
	}
}

// drive runs or carries on, and may leave early.
func (c *client) drive(ctx context.Context, runner int, name string) error {
	rn := c.runners[runner]
	if name == "run" {
		return c.watch(runner, rn.Run(ctx, user, chat, llm.UserText("Go."), nil))
	}
	return c.watch(runner, rn.Continue(ctx, chat, user))
}

// settle brings the session to rest, tells once more what was told before, and
// lets all deadlines pass.
func (c *client) settle() {
	c.rest()
	c.atRest(false)
	for _, in := range c.given {
		if in.name == "send" {
			c.sendAgain(in)
			continue
		}
		c.resume(c.t.Context(), c.runners[0], in)
	}
	c.rest()
	c.hour.Add(2 * mostHours)
	c.rest()
	c.atRest(true)
	t, err := c.runners[0].Show(c.t.Context(), chat, user)
	must(c.t, err)
	closed := t.History
	if len(t.Pending) > 0 {
		closed = closed[:len(closed)-1]
	}
	if err := fakellm.Check(llm.Request{Messages: closed}); err != nil {
		c.t.Errorf("seed %d: %v", c.seed, err)
	}
	for p, err := range c.store.Check(c.t.Context()) {
		c.t.Errorf("seed %d: %v, %v", c.seed, p, err)
	}
}

// rest carries the session on until there is nothing to do. A drive that others
// left behind is waited for, or its stored lease is.
func (c *client) rest() {
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for range 1000 {
		err := c.drive(c.t.Context(), c.r.IntN(2), "continue")
		if errors.Is(err, session.ErrUnknownSession) { // the first message was not taken
			err = c.drive(c.t.Context(), 0, "run")
		}
		st, loadErr := c.store.Load(c.t.Context(), chat)
		must(c.t, loadErr)
		step := session.Next(st, c.now())
		switch driven, until := c.store.Driven(st); {
		case !driven && (step.Kind == session.StepIdle || step.Kind == session.StepWait):
			return
		case errors.Is(err, session.ErrBusy) && !until.IsZero() && c.r.IntN(20) == 0:
			c.hour.Add(1)
		}
		<-again.C
	}
	c.t.Fatalf("seed %d: the session does not come to rest", c.seed)
}

// atRest looks at all calls, none of which may be on its way.
func (c *client) atRest(late bool) {
	for _, call := range c.calls() {
		c.look(c.t.Context(), 0, call)
		in := c.all[len(c.all)-1].Input.(operation)
		if in.call != call || in.name != "receipts" {
			continue // the model's message was given up
		}
		st, err := c.runners[0].Call(c.t.Context(), chat, call, user)
		must(c.t, err)
		if st.Status != session.Pending && st.Status != session.Settled {
			c.t.Errorf("seed %d: %s is left %s", c.seed, call, st.Status)
		}
		p, err := c.runners[0].Find(c.t.Context(),
			runner.Ref{Pause: session.PauseID(call, st.Pauses)}, user)
		if st.Status == session.Pending && (err != nil || late && !p.Deadline.IsZero() &&
			!p.Deadline.After(c.now())) {
			c.t.Errorf("seed %d: %s waits beyond its deadline, %s, %v", c.seed, call,
				p.Deadline, err)
		}
		if n := c.entries[call]; c.once && n > len(stepsOf[st.Tool])+len(st.Again) {
			c.t.Errorf("seed %d: %s was entered %d times", c.seed, call, n)
		}
	}
}
