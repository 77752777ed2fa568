package session

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool"
)

// The transitions of one call that its driver makes. Each is refused with an
// error, and leaves the call as it was, where the table in transitions.go
// doesn't have it.

// Claim stores that the call's body is about to be entered, by this drive.
func (tx *Tx) Claim(call string) error {
	c, err := tx.live(call)
	if err != nil {
		return err
	}
	if c.Cancel != nil || tx.Ending != nil {
		return fmt.Errorf("%w: call %s", ErrCancelled, call)
	}
	if err := c.move(Running); err != nil {
		return err
	}
	c.Attempt++
	c.Epoch = tx.Epoch
	c.Effect = tool.Once // when the call was asked for, its tool may have declared another
	tx.touch()
	return nil
}

// Unclaim takes back this drive's claim of a call whose body was not entered.
// The call is what it was before. If it was cancelled meanwhile, or its run
// ended, it settles as one that was not run. Without such a claim the error is
// ErrStale.
func (tx *Tx) Unclaim(was *Call) error {
	c := tx.Call(was.ID)
	if c == nil || c.Status != Running || c.Epoch != tx.Epoch || c.Attempt != was.Attempt+1 {
		return fmt.Errorf("%w: call %s is not claimed by drive %d", ErrStale, was.ID, tx.Epoch)
	}
	c.Attempt, c.Epoch, c.Effect = was.Attempt, was.Epoch, was.Effect
	if c.Cancel != nil || tx.Ending != nil {
		by, why := tx.EndedBy()
		if c.Cancel != nil {
			by, why = c.Cancel.Actor, c.Cancel.Why
		}
		if err := c.move(was.Status); err != nil { // no body was shown what came for it
			return err
		}
		return tx.settle(c, CancelledOutcome(was, by, why, true))
	}
	if c.Early != nil { // no body is left that could write the pause it is for
		return tx.TakeEarly(c.ID)
	}
	tx.touch()
	return c.move(was.Status)
}

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
	// Awaited are the handles that it waits for, and AwaitedList the same for
	// the store.
	Awaited     []Awaited
	AwaitedList *Blob
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
		if err := tx.setFate(c.ID, c.Early.Pause, Refused); err != nil {
			return err
		}
		c.Early = nil
		c.Pauses++
	}
	c.Pauses++
	p := tx.pauseOf(h)
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
	tx.oweAsks(c)
	return nil
}

// pauseOf returns the pause that a Hold becomes.
func (tx *Tx) pauseOf(h *Hold) *Pause {
	p := &Pause{
		Reason: h.Await.Reason, Mode: h.Await.Mode, Key: h.Await.Key, Gate: h.Await.Gate,
		Schema: h.Schema, Prompt: tx.place(h.Prompt), Data: tx.place(h.Data), Since: tx.Now,
		Mail: h.Await.Mail, Undo: tx.place(h.Undo),
	}
	if p.Gate != "" {
		p.Shown = tool.HashArguments(h.Await.Arguments)
		p.Args = tx.place(h.Args)
	}
	p.Deadline = tx.deadlineOf(&h.Await)
	p.OnTimeout, p.Question, p.Await = h.Await.OnTimeout, h.Await.Question, tx.awaitOf(h)
	if p.OnTimeout != "" || p.Question != "" || p.Undo != nil {
		tx.outdates()
	}
	return p
}

// consume takes an answer that was there before its pause. One that does not
// fit the pause is marked refused.
func (tx *Tx) consume(c *Call, early *Answer) error {
	p := c.Pause
	c.Early = nil
	if early.Kind != KindFail && (p.Mode != tool.ModeOutput || p.Schema != c.Output) {
		if err := tx.setFate(c.ID, early.Pause, Refused); err != nil {
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
	tx.accept(c, &own)
	return nil
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
	c.showMail(a)
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

// setFate writes into a receipt what became of its operation.
func (tx *Tx) setFate(call string, pause int, fate Fate) error {
	r := Receipt{Call: call, Pause: pause}
	if pause == 0 {
		r.Kind = KindCancel
	}
	r, found, err := tx.receipt(call, r.slot())
	if err != nil || !found {
		return err
	}
	before := r.slot()
	if r.Fate = fate; r.slot() != before {
		tx.delete(receiptKey(tx.ID, call, before))
	}
	tx.putReceipt(r)
	return nil
}

// Outcome is how a call ends.
type Outcome struct {
	Status  event.Status
	Output  *Blob
	Actions *Blob
	Media   bool   // among the actions is media for the model
	HandTo  string // with Done: the agent that is to take the session over
	// Begins is a handle that begins with the call's end. It has no other end
	// then.
	Begins *NewHandle
	// Shown is what the output has told of a handle.
	Shown []HandleShown
	Actor string
	// Of a call that ended while it waited, or would have: why.
	Cause tool.Cause
	Why   string
	// Body: the body returned it. A layer, a deadline or a caller made any
	// other.
	Body bool
}

// Settle gives a call its one result. A cancellation that was asked for is
// superseded by any other end.
func (tx *Tx) Settle(call string, o *Outcome) error {
	c, err := tx.live(call)
	if err != nil {
		return err
	}
	return tx.settle(c, o)
}

func (tx *Tx) settle(c *Call, o *Outcome) error {
	if !transitions[c.Status][Settled] {
		return c.move(Settled) // whose error names the two statuses
	}
	if err := tx.handleActs(c, o.Begins, o.Shown); err != nil {
		return err
	}
	if err := tx.settleFates(c, o); err != nil {
		return err
	}
	if c.Pause != nil {
		tx.oweUndo(c, c.Pauses, c.Pause, o.Cause, o.Actor, o.Why)
		tx.unlist(c)
		_, why := tx.causeOf(c, o.Cause, o.Why)
		tx.leaveChild(c, o.Actor,
			cmp.Or(why, "the call that waits for it is over: "+string(o.Status)))
	}
	actions := c.Actions
	if o.Actions != nil {
		actions = append(actions[:len(actions):len(actions)], tx.place(o.Actions))
	}
	tx.record = Record{
		Version: Version, Call: c.ID, Tool: c.Tool, Turn: tx.Turn, Status: o.Status,
		Output: tx.placeBeside(o.Output), Actor: o.Actor, At: tx.Now,
		Attempt: c.Attempt, Pauses: c.Pauses, Decisions: c.Decisions, Again: c.Again,
		Actions: actions,
	}
	tx.record.Mail, tx.record.MailShown = c.mailAtEnd(o)
	begins := len(tx.records)
	tx.records = appendRecordKey(tx.records, tx.ID, c.ID)
	key := tx.since(begins)
	begins = len(tx.records)
	var err error
	tx.records, err = strictjson.Append(tx.records, &tx.record)
	tx.putEncoded(key, tx.since(begins), err)
	tx.payloads += len(tx.records) - begins
	media := (c.Media || o.Media) && o.Status == event.Done
	*c = Call{
		ID: c.ID, Tool: c.Tool, Status: Settled, Settled: o.Status, Pauses: c.Pauses,
		MayPause: c.MayPause, Media: media, Unshown: tx.beside, Rest: c.Rest,
		Action: c.Action, Handle: c.Handle, Clash: c.Clash,
	}
	if o.HandTo != "" && o.Status == event.Done {
		c.HandTo = o.HandTo
		tx.outdates()
	}
	tx.gotOn()
	return nil
}

// SeenBefore notes that a drive has shown what an earlier one had closed
// unseen.
func (tx *Tx) SeenBefore() error {
	if tx.Unseen != nil {
		tx.Unseen = nil
		tx.touch()
	}
	return nil
}

// Seen notes which results a drive has shown, and which it has not. The next
// drive shows the latter.
func (tx *Tx) Seen(shown, unseen []string) error {
	for i, id := range slices.Concat(shown, unseen) {
		unshown := i >= len(shown)
		if c := tx.Call(id); c != nil && c.Status == Settled && c.Unshown != unshown {
			c.Unshown = unshown
			tx.touch()
		}
	}
	return nil
}

// settleFates marks the receipts of what was accepted for a call and did not
// become its result.
func (tx *Tx) settleFates(c *Call, o *Outcome) error {
	if c.Early != nil {
		if err := tx.setFate(c.ID, c.Early.Pause, Superseded); err != nil {
			return err
		}
	}
	if c.Cancel != nil && o.Status != event.Cancelled && o.Status != event.Unknown {
		if err := tx.setFate(c.ID, 0, Superseded); err != nil {
			return err
		}
	}
	if a := c.Answer; a != nil && a.Mode != tool.ModeReenter && o.Status != event.Done {
		// It was to be the output, and a layer, a deadline or a caller came in
		// between.
		if err := tx.setFate(c.ID, a.Pause, Superseded); err != nil {
			return err
		}
	}
	if c.Status == Answered && !o.Body && o.Status == event.Cancelled {
		return tx.setFate(c.ID, c.Pauses, Superseded)
	}
	return nil
}

// TakeEarly makes a kept answer the call's answer, where no body is left that
// could write the pause it is for: a crash came between.
func (tx *Tx) TakeEarly(call string) error {
	c, err := tx.live(call)
	if err != nil {
		return err
	}
	if c.Early == nil {
		return fmt.Errorf("%w: call %s has no early answer", ErrStale, call)
	}
	a := *c.Early // readers of the head see that one: it must not change
	c.Early = nil
	c.Pauses = a.Pause // the pause counts, although it was never written
	if a.Kind == KindFail {
		return tx.settle(c, failed(&a))
	}
	a.Mode = tool.ModeOutput
	c.Answer, c.Status = &a, Answered
	tx.touch()
	return nil
}

// Lose settles a call whose body a crash has cut off: with the answer that was
// kept for it, also if that came while the driver thought about it, and
// otherwise with o.
func (tx *Tx) Lose(call string, o *Outcome) error {
	c, err := tx.live(call)
	switch {
	case err != nil:
		return err
	case c.Early != nil:
		return tx.TakeEarly(call)
	}
	return tx.settle(c, o)
}

// Expire ends pauses whose deadline has passed. A timer's deadline is its
// answer; at a layer it lets the call through. Where the pause has it so, the
// deadline has the tool entered again. Any other call settles as expired.
// Expire ends at most expireAtOnce, so that a commit stays within its
// bounds; Next asks for the rest.
func (tx *Tx) Expire() error {
	tx.lingeredEnough()
	for i, n := 0, 0; i < len(tx.Calls) && n < expireAtOnce; i++ {
		if c := &tx.Calls[i]; c.overdue(tx.Now) {
			n++
			if err := tx.expire(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// With as many answers as one Resume takes, and all that each of both may
// write, a commit stays below kvstore.MaxOperations.
const expireAtOnce = 8

func (c *Call) overdue(now time.Time) bool {
	d := c.deadline()
	return !d.IsZero() && !d.After(now)
}

// deadline is until when a call waits; zero: it doesn't, or for ever.
func (c *Call) deadline() time.Time {
	switch {
	case c.Status == Pending && c.Pause != nil:
		return c.Pause.Deadline
	case c.Parked != nil:
		return c.Parked.Until
	}
	return time.Time{}
}

func (tx *Tx) expire(c *Call) error {
	if c.Parked != nil {
		return tx.settle(c, goneOutcome(c))
	}
	if !c.Pause.goesOnByTimer() {
		return tx.settle(c, expiredOutcome(c))
	}
	tx.unlist(c)
	tx.goOnByTimer(c)
	return nil
}

// live returns the call if it may still change. A pause that is overdue ends
// first: Expire ends only some at once.
func (tx *Tx) live(call string) (*Call, error) {
	c := tx.Call(call)
	if c != nil && c.overdue(tx.Now) {
		if err := tx.expire(c); err != nil {
			return nil, err
		}
	}
	if c == nil || c.Status == Settled {
		return nil, tx.settledError(call)
	}
	return c, nil
}

// settledError refuses an operation on a settled call, and tells how it ended.
func (tx *Tx) settledError(call string) error {
	if err := tx.notDeleted(call); err != nil {
		return err
	}
	var r Record
	found, err := tx.read(recordKey(tx.ID, call), &r)
	switch {
	case err != nil:
		return err
	case !found:
		return tx.unknownCall(call)
	}
	return &SettledError{Call: call, Status: r.Status, Actor: r.Actor, At: r.At}
}

// unknownCall refuses an operation on a call that nothing is known of.
func (tx *Tx) unknownCall(call string) error {
	if err := tx.notDeleted(call); err != nil {
		return err
	}
	if tx.Children > 0 {
		return fmt.Errorf("%w: %s in session %q; if it is of a session below that one, "+
			"name that one: tool.Pause has it", ErrUnknownCall, call, tx.ID)
	}
	return fmt.Errorf("%w: %s in session %q", ErrUnknownCall, call, tx.ID)
}

// notDeleted refuses what comes for a call of a deleted session. Records and
// receipts may still be there, and tell nothing any more: a caller that was told
// of the deletion is told of nothing else after that.
func (tx *Tx) notDeleted(call string) error {
	if tx.Deleted.IsZero() {
		return nil
	}
	return fmt.Errorf("%w: %q, with call %s", ErrDeleted, tx.ID, call)
}

var errMove = errors.New("session: no such transition")

// move takes the call to another status, if the table has that step.
func (c *Call) move(to CallStatus) error {
	if !transitions[c.Status][to] {
		return fmt.Errorf("%w: call %s from %s to %s", errMove, c.ID, c.Status, to)
	}
	c.Status = to
	return nil
}

// PauseID names the number-th pause of a call.
func PauseID(call string, number int) string { return call + "." + strconv.Itoa(number) }
