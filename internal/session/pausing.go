package session

import (
	"slices"

	"github.com/fermata-ai/fermata/tool"
)

// How a call is made to wait, and how its pause ends.

// Hold is what a call is to wait for: a pause in the making.
type Hold struct {
	Await   tool.Await // normalized
	Prompt  *Blob
	Data    *Blob
	Actions *Blob     // what the body made before
	Media   bool      // and that media for the model is among it
	Args    *Blob     // at a gate: the arguments it saw
	Undo    *Blob     // the arguments that ran, if the tool has a Cancel
	Schema  string    // hash
	Child   *NewChild // with ReasonAgent: the session to begin
	// Begins is a handle that begins with the pause, and Shown what was told of
	// one before.
	Begins *NewHandle
	Shown  []HandleShown
	// Fits judges what was kept for its outside key, which is kept here.
	Fits Fits
	kept map[string]*Blob
	// Awaited are the handles that it waits for, and AwaitedList the same for
	// the store. Scope is that of wait handles; empty: they are the session's.
	Awaited     []Awaited
	AwaitedList *Blob
	Scope       string
}

// Pause makes a call wait. An answer that came early is consumed: the call is
// answered at once.
func (tx *Tx) Pause(call string, h *Hold) error {
	c, err := tx.live(call)
	if err != nil {
		return err
	}
	if err := c.move(Pending); err != nil {
		return err
	}
	tx.touch()
	tx.gotOn()
	if c.Early != nil && h.Await.Gate != "" {
		// It came for the tool's pause. A layer asks first, so the number of
		// that pause is taken.
		if err := tx.refuseEarly(c, c.Early); err != nil {
			return err
		}
		c.Early = nil
		c.Pauses++
	}
	c.Pauses++
	p := tx.pauseOf(c, h)
	c.Pause = p
	if h.Actions != nil {
		c.Actions = append(c.Actions[:len(c.Actions):len(c.Actions)], tx.place(h.Actions))
		c.Media = c.Media || h.Media
	}
	if err := tx.handleActs(c, h.Begins, h.Shown); err != nil {
		return err
	}
	if h.Child != nil {
		if err := tx.spawn(c, h.Child); err != nil {
			return err
		}
	}
	tx.putJSON(pauseKey(PauseID(c.ID, c.Pauses)), tx.entry(c))
	if p.Key != "" {
		tx.putJSON(outsideKey(c.Tool, p.Key, tx.ID, c.ID), c.Pauses)
	}
	if early := c.Early; early != nil && p.Gate == "" {
		if err := tx.consume(c, early); err != nil {
			return err
		}
	} else {
		tx.list(c)
	}
	tx.takeMail(c, "", "")
	if err := tx.takeKept(c, h); err != nil {
		return err
	}
	tx.oweAsks(c)
	return nil
}

// pauseOf returns the pause of a call that a Hold becomes.
func (tx *Tx) pauseOf(c *Call, h *Hold) *Pause {
	p := &Pause{
		Reason: h.Await.Reason, Mode: h.Await.Mode, Key: h.Await.Key, Gate: h.Await.Gate,
		Schema: h.Schema, Prompt: tx.place(h.Prompt), Data: tx.place(h.Data), Since: tx.Now,
		Mail: h.Await.Mail,
	}
	if p.Gate != "" {
		p.Shown = tool.HashArguments(h.Await.Arguments)
		p.Args = tx.place(h.Args)
		p.Approvers = slices.Clone(h.Await.Approvers)
	}
	p.Deadline = tx.deadlineOf(&h.Await)
	p.OnTimeout, p.Question, p.Await = h.Await.OnTimeout, h.Await.Question, tx.awaitOf(c, h)
	if !p.beforeBody(c) {
		p.Undo = tx.place(h.Undo)
	}
	p.Sender, p.Beat = h.Await.Sender, beatOf(h.Await.Heartbeat, tx.Now)
	if len(p.Approvers) > 0 || p.Sender != "" || p.Beat != nil || p.OnTimeout != "" ||
		p.Question != "" || p.Undo != nil || p.isRetry() {
		tx.outdates()
	}
	return p
}

// consume takes an answer that was there before its pause. One that does not
// fit the pause is marked refused.
func (tx *Tx) consume(c *Call, early *Answer) error {
	p := c.Pause
	c.Early = nil
	misfits := early.Kind != KindFail && (p.Mode != tool.ModeOutput || p.Schema != c.Output)
	if misfits || p.isRetry() || p.otherSender(early.Sender) {
		if err := tx.refuseEarly(c, early); err != nil {
			return err
		}
		p.Refused = true
		tx.list(c)
		return nil
	}
	if early.Kind == KindFail {
		return tx.settle(c, failed(early))
	}
	own := *early // readers of the head see that one: it must not change
	own.Sender = ""
	return tx.answered(c, &own)
}

// accept ends the open pause of the tool's own with an answer.
func (tx *Tx) accept(c *Call, a *Answer) {
	tx.leaveChild(c, a.Actor, "the call was answered")
	a.Mode, a.Data, a.Question = c.Pause.Mode, c.Pause.Data, c.Pause.Question
	if a.Kind == KindTimeout {
		a.Mode = tool.ModeReenter // whatever an answer was for
	}
	if a.Mode == tool.ModeReenter && a.Kind != KindTimer {
		a.Prompt = c.Pause.Prompt
	}
	if a.Mode == tool.ModeReenter && a.Question != "" && a.Kind != KindTimeout {
		a.Deadline, a.OnTimeout = c.Pause.Deadline, c.Pause.OnTimeout
	}
	if w := c.Pause.Await; w != nil {
		a.Awaited = w.List
		a.Unbegun = w.Permit != nil && w.Permit.Unbegun
	}
	c.showMail(a)
	tx.giveClaimUp(c)
	if w := c.Pause.Await; w == nil || w.Permit == nil {
		c.Tried = nil // but a try that waits for its permit is the same one
	}
	c.Answer, c.Pause, c.Status = a, nil, Answered
	tx.touch()
}

// MayBeDecided reports whether the call's record has room for one more
// decision.
func (c *Call) MayBeDecided() bool {
	if len(c.Decisions) < 8 {
		return true
	}
	b, err := encode(c.Decisions)
	return err == nil && len(b) <= maxDecided
}

// maxDecided is how much may be decided about one call, in bytes: with what
// else its record holds, that has to fit one value. Eight decisions at the
// greatest length do, and a hundred at the usual one.
const maxDecided = 40 << 10

// decide ends the open pause of a layer with a decision.
func (tx *Tx) decide(c *Call, d Decision) {
	d.Gate, d.Shown, d.Pause, d.At = c.Pause.Gate, c.Pause.Shown, c.Pauses, tx.Now
	c.Decisions = append(c.Decisions, d)
	c.Pause, c.Status = nil, Answered
	tx.touch()
}
