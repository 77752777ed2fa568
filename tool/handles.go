package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// A handle is a call that runs beside its session: a session below it, of one
// call and no model. Package tool/handle makes tools of which a model begins
// such calls, and what is here is how those tools reach the runtime.

// HandleWait is the handles that a pause waits for: all of All, and one of Any
// if there are any. They are named as in the session.
type HandleWait struct {
	All []string `json:"all,omitempty"`
	Any []string `json:"any,omitempty"`
	// Success: of Any only a handle that ended well counts. If none does, the
	// wait is over once all of Any have ended.
	Success bool `json:"success,omitempty"`
	// Scope, if set, is that of wait handles that are not the session's own.
	Scope WaitScope `json:"scope,omitempty"`
	// Permit, if set, is what the pause waits for in place of the handle's end.
	Permit *PermitWait `json:"permit,omitempty"`
}

func (w *HandleWait) check(a *Await) error {
	switch {
	case w != nil && a.Gate != "":
		return fmt.Errorf("of layer %q: a layer waits for a decision, and not for handles", a.Gate)
	case w == nil && a.Reason == ReasonHandles && a.Gate == "":
		return fmt.Errorf("reason %q goes with Await.Handles, which is nil", ReasonHandles)
	case w == nil:
		return nil
	case a.Reason != ReasonHandles:
		return fmt.Errorf("handles go with reason %q, not %q", ReasonHandles, a.Reason)
	case len(w.All)+len(w.Any) == 0:
		return errors.New("it waits for no handle")
	case w.Success && len(w.Any) == 0:
		return errors.New("it waits for the success of one handle, and names none")
	case len(w.All)+len(w.Any) > MaxAwaited:
		return fmt.Errorf("it waits for %d handles, at most %d are taken", len(w.All)+len(w.Any),
			MaxAwaited)
	}
	return w.checkScope()
}

// MaxAwaited is how many handles a pause waits for at most.
const MaxAwaited = 1000

// HandleStep is what a call does to a handle of its session, in the commit that
// stores the call's result, or its pause.
type HandleStep struct {
	Name string
	// Begin has a call of the same tool run beside the session, with these
	// arguments; nil: nothing is begun.
	Begin json.RawMessage
	// Tool, with Begin, is another tool of the agent that is called; empty: the
	// same. One that the agent doesn't have is waited for, as after a deploy that
	// took it away. Policy is that of the tool which begins it.
	Tool string
	// Wait, with Begin, has the handle be a wait handle.
	Wait *WaitStep
	// Child, Shown and Told note what the result tells of a handle, as
	// Host.Handle returned it: the session, up to where its content was told,
	// and whether its end was.
	Child string
	Shown int
	Told  bool
	// Progress, of the Child of a wait handle, is a JSON value that tells how far
	// that is; empty: nothing is told.
	Progress json.RawMessage
	// Ends names handles whose ends the result tells beside, and their sessions:
	// MaxEnds at most.
	Ends []HandleEnd
}

// HandleEnd is a handle of which a result tells the end.
type HandleEnd struct{ Name, Child string }

// MaxEnds is how many ends a HandleStep notes at most.
const MaxEnds = 40

// HandleRoom is how many bytes an Output may have beyond Limits.Result where its
// HandleStep has a Child: it tells of a handle, whose result may be as long as
// any, and stands in it whole.
const HandleRoom = 4 << 10

// mostOutput is how many bytes an output may have under a limit.
func (s *HandleStep) mostOutput(limit int) int {
	if s != nil && s.Child != "" {
		limit += HandleRoom
	}
	return limit
}

// ResultLimit returns how many bytes the call's Output may have: its registry's
// Limits.Result, or the default where its Host doesn't know that.
func (c Call) ResultLimit() int {
	if h, ok := c.Host.(interface{ ResultLimit() int }); ok {
		return h.ResultLimit()
	}
	return defaultResult
}

// HandleState is where a handle is.
type HandleState string

// The states of a handle.
const (
	HandleRunning HandleState = "running"
	HandleWaiting HandleState = "waiting" // for an answer, see Handle.Pause
	HandleStopped HandleState = "stopped"
)

// Handle is a handle as its session sees it. Its JSON is good for an HTTP API,
// as that of a Pause is.
type Handle struct {
	Name    string      `json:"name"`
	Tool    string      `json:"tool"`
	Session string      `json:"session"` // the one that runs it
	Call    string      `json:"call"`    // that session's one call
	State   HandleState `json:"state"`
	Since   time.Time   `json:"since"`
	// Content is what its body has produced: text of which the middle may be
	// left out.
	Content Content `json:"content"`
	// Shown is how many bytes of the content the session was told before.
	Shown int `json:"shown,omitempty"`
	// Told: the session was told of its end.
	Told  bool   `json:"told,omitempty"`
	Pause *Pause `json:"pause,omitempty"` // that it waits for, with HandleWaiting
	// How it ended, with HandleStopped. Status is one of event.Status.
	Status string          `json:"status,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	Actor  string          `json:"by,omitempty"`
	Ended  time.Time       `json:"ended,omitzero"`
	// Failure is what its body told of its failure beside the output; nil:
	// nothing.
	Failure *HandleFailure `json:"failure,omitempty"`
}

// HandleFailure is what a body told of its failure, beside the text that is the
// call's output.
type HandleFailure struct {
	Trace     []string `json:"trace,omitempty"`     // how it came to it, which stands in the output as well
	Transient bool     `json:"transient,omitempty"` // the same again may succeed
}

// Content is what a body has produced so far.
type Content struct {
	// Total is how many bytes were produced. Head has the first, and Tail the
	// last of them; what lies between is left out.
	Total int    `json:"total"`
	Head  string `json:"head,omitempty"`
	Tail  string `json:"tail,omitempty"`
	// Screen: Tail is all that a terminal's screen shows, and not what was
	// produced one after the other.
	Screen bool `json:"screen,omitempty"`
	// Question is what the body asks while it runs; nil: nothing. An input that
	// is given while it stands is the answer, see Mail.
	Question *LiveQuestion `json:"question,omitempty"`
	At       time.Time     `json:"at,omitzero"` // when that was stored, or produced in this process
}

// LiveQuestion is a question of a body that runs.
type LiveQuestion struct {
	ID        string          `json:"id"`
	Text      string          `json:"text"`
	Schema    json.RawMessage `json:"schema,omitzero"`
	Assistant bool            `json:"assistant,omitzero"` // the model answers; otherwise a person
}

// Handles is how a call reaches the handles of its session. A Host that has
// them implements it.
type Handles interface {
	// Handle returns a handle of the call's session, by its name.
	Handle(ctx context.Context, c Call, name string) (Handle, error)
	// Apply gives a running handle input, or answers the question that it asks.
	// The same call's input arrives once.
	Apply(ctx context.Context, c Call, name string, input json.RawMessage) error
	// Abort ends a handle. It may take its body a moment.
	Abort(ctx context.Context, c Call, name string) error
	// Names lists handles of the call's session, for an error's suggestion.
	Names(ctx context.Context, c Call) ([]string, error)
}

// ErrUnknownHandle refuses a name: the session has no handle of that name.
var ErrUnknownHandle = errors.New("tool: no such handle")

// ErrNoHandles refuses what is done to handles: the call has no Host that has
// handles, as in a unit test.
var ErrNoHandles = errors.New("tool: this call can't have handles")

// Handles returns how the call reaches the handles of its session.
func (c Call) Handles() (Handles, error) {
	if h, ok := c.Host.(Handles); ok {
		return h, nil
	}
	return nil, ErrNoHandles
}

// Live is how a body that runs for long tells what it produces, and hears what
// it is told meanwhile. A Host that can do so implements it.
type Live interface {
	// Produce tells what the body has produced so far, in place of what it told
	// before.
	Produce(ctx context.Context, c Call, content Content)
	// NextMail waits for events of the call beyond the number after, and returns
	// them with the number of the last. It returns ctx's error once that ends,
	// and io.EOF where the call is no handle: it is waited for, and none comes.
	NextMail(ctx context.Context, c Call, after int) (mail []Mail, last int, err error)
	// Lasting returns a context for what a body still does once its own has
	// ended, for that cause. When it ends, the body must be gone at once, with
	// all that it has started: another process may begin it anew, or what waits
	// for its end waits no longer.
	Lasting(c Call, cause error) (context.Context, context.CancelFunc)
}

// InputEvent is the name of the event in a tool's Mailbox that is the input of
// its running calls. A tool without it takes none.
const InputEvent = "input"
