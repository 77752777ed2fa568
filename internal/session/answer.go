package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fermata-ai/fermata/internal/toolbox"
	"github.com/fermata-ai/fermata/tool"
)

// Incoming is an answer as it is delivered for a pause, before it is judged: an
// output, a failure, a decision, or that the call did not happen.
type Incoming struct {
	Pause     string // a pause's id, or a call's
	Gate      string // the layer whose pause it is for; empty: any layer's
	Sender    string // who signed it
	Kind      Kind
	Value     json.RawMessage // the payload as it came; of a decision, the edited arguments
	Payload   *Blob           // the payload to keep; of a failure, the text for the model
	Words     *Blob           // of a failure: its own words, a JSON string
	Hash      string          // of the content
	Decision  tool.Decision   // of KindDecision: Approved
	Why       *Blob           // of KindDecision, KindRunAgain: the reason, a JSON string
	Retryable bool
	Actor     string
	Delivery  string
}

// Asked is what a value is for: the answer to which pause, and what becomes of
// it there.
type Asked struct {
	toolbox.Target
	Call   string
	Pause  int    // zero for an event
	Schema string // see SchemaHash
	// Action and Handle are those of the call, see Call.Action.
	Action, Handle string
}

// Fits judges a value that is otherwise good. Misfit is what is wrong with the
// value. Err is what kept Fits from finding out.
type Fits func(Asked, json.RawMessage) (misfit, err error)

// Answer judges an answer and, if it is good, applies it. It returns the
// answer's receipt: for a duplicate the original one, for a refused answer one
// with Err. The error is what kept it from judging.
func (tx *Tx) Answer(in *Incoming, fits Fits) (Receipt, error) {
	call, number := splitPause(in.Pause)
	rc := Receipt{Call: call, Pause: number, Kind: in.Kind, Hash: in.Hash, Actor: in.Actor,
		Delivery: in.Delivery, At: tx.Now}
	if in.Kind == KindDecision {
		rc.Decided = decided(in.Decision)
	}
	judge := judgement{tx: tx, in: in, fits: fits, c: tx.Call(call), rc: rc}
	err := judge.pass()
	var refusal *refusal
	if errors.As(err, &refusal) {
		judge.rc.Err, err = refusal.error, nil
	}
	return judge.rc, err
}

func decided(d tool.Decision) string {
	if d.Approved {
		return "approved"
	}
	return "denied"
}

// splitPause takes a pause's id apart. A call's id has number zero.
func splitPause(id string) (call string, number int) {
	if i := strings.LastIndexByte(id, '.'); i > 0 {
		if n, err := strconv.Atoi(id[i+1:]); err == nil && n > 0 && strconv.Itoa(n) == id[i+1:] {
			return id[:i], n
		}
	}
	return id, 0
}

// CallID is the call that a pause's or a call's id names.
func CallID(id string) string {
	call, _ := splitPause(id)
	return call
}

// judgement is one answer before the head. It looks in the order of the
// contract: the head, the call's record, the receipts.
type judgement struct {
	tx   *Tx
	in   *Incoming
	fits Fits
	c    *Call // nil: not of the open turn
	rc   Receipt
}

// refusal marks an error that is the answer's own: it goes into the receipt.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

func refuse(err error) error { return &refusal{err} }

func (j *judgement) pass() error {
	if err := j.tx.notDeleted(j.rc.Call); err != nil {
		return refuse(err)
	}
	pauses, err := j.pauses()
	if err != nil {
		return err
	}
	if j.rc.Pause == 0 {
		if pauses > 1 {
			return j.bare(pauses)
		}
		j.rc.Pause = 1
	}
	if err := j.otherGate(); err != nil {
		return err
	}
	switch n := j.rc.Pause; {
	case j.c != nil && j.c.Status == Pending && n == pauses:
		return j.answer()
	case n <= pauses:
		return j.repeated(n)
	case j.c == nil || j.c.Status == Settled:
		if known, err := j.known(n); known || err != nil {
			return err
		}
		return j.settled()
	case n == pauses+1:
		return j.early()
	}
	return refuse(fmt.Errorf("%w: %s has paused %d times", ErrUnknownPause, j.rc.Call, pauses))
}

// otherGate refuses an answer that is for one layer where another one has
// asked. It comes before the receipts: what another layer was told is no
// duplicate.
func (j *judgement) otherGate() error {
	if j.in.Gate == "" {
		return nil
	}
	gate, err := j.gate()
	if err == nil && gate != "" && gate != j.in.Gate {
		err = refuse(&GateError{Pause: PauseID(j.rc.Call, j.rc.Pause), Gate: gate, For: j.in.Gate})
	}
	return err
}

// gate is the layer that asked for the pause; empty where none did, or where
// that isn't known.
func (j *judgement) gate() (string, error) {
	var decisions []Decision
	switch c := j.c; {
	case c == nil || c.Status == Settled:
		var r Record
		if _, err := j.tx.read(recordKey(j.tx.ID, j.rc.Call), &r); err != nil {
			return "", err
		}
		decisions = r.Decisions
	case c.Status == Pending && c.Pauses == j.rc.Pause:
		return c.Pause.Gate, nil
	default:
		decisions = c.Decisions
	}
	for _, d := range decisions {
		if d.Pause == j.rc.Pause {
			return d.Gate, nil
		}
	}
	return "", nil
}

// pauses is how many times the call has paused, by the head or else by its
// record.
func (j *judgement) pauses() (int, error) {
	if j.c != nil {
		return j.c.Pauses, nil
	}
	var r Record
	found, err := j.tx.read(recordKey(j.tx.ID, j.rc.Call), &r)
	if err == nil && !found {
		err = refuse(j.tx.unknownCall(j.rc.Call))
	}
	return r.Pauses, err
}

// known looks for the receipts of pause n: an equal one makes the answer a
// duplicate, another one a conflict. The receipt of an answer that was refused
// after it had been accepted is no conflict.
func (j *judgement) known(n int) (bool, error) {
	duplicate, other, err := j.repeats(strconv.Itoa(n))
	// What a user says is no redelivery of what was refused.
	if !duplicate && err == nil && j.in.Kind != KindMessage {
		duplicate, err = j.repeatsRefused(n)
	}
	if !duplicate && err == nil && other != nil {
		err = refuse(&ConflictError{Receipt: *other})
	}
	return duplicate || err != nil, err
}

// repeats makes the answer a duplicate of the receipt in that slot, if they are
// equal; another one is returned.
func (j *judgement) repeats(slot string) (duplicate bool, other *Receipt, err error) {
	r, found, err := j.tx.receipt(j.rc.Call, slot)
	switch {
	case err != nil || !found:
		return false, nil, err
	case r.Sender != "" && j.in.Sender != r.Sender:
		return false, nil, refuse(&SenderError{Pause: PauseID(r.Call, r.Pause), Sender: r.Sender})
	case !j.equal(r):
		return false, &r, nil
	}
	j.rc = r
	j.rc.Duplicate = true
	return true, nil, nil
}

// repeatsRefused makes the answer a duplicate of the early one that pause n has
// refused, if they are equal, and of one sender. What one has sent is no
// redelivery of another's.
func (j *judgement) repeatsRefused(n int) (bool, error) {
	r, found, err := j.tx.receipt(j.rc.Call, refusedSlot(n))
	if err != nil || !found || r.Sender != j.in.Sender || !j.equal(r) {
		return false, err
	}
	j.rc = r
	j.rc.Duplicate = true
	return true, nil
}

// equal reports whether a receipt is that of the same operation with the same
// content. A user's message that answers is the completion with that text.
func (j *judgement) equal(r Receipt) bool {
	same := r.Kind == j.in.Kind || completes(r.Kind) && completes(j.in.Kind)
	return same && r.Hash == j.in.Hash
}

func completes(k Kind) bool { return k == KindComplete || k == KindMessage }

// bare judges an answer that names only a call which has paused several times.
func (j *judgement) bare(pauses int) error {
	for n := 1; n <= pauses+1; n++ { // the last may have come early
		duplicate, _, err := j.repeats(strconv.Itoa(n))
		if !duplicate && err == nil {
			duplicate, err = j.repeatsRefused(n)
		}
		if duplicate || err != nil {
			return err
		}
	}
	if j.c == nil || j.c.Status == Settled {
		return j.settled()
	}
	e := &PauseRequiredError{Call: j.rc.Call}
	if j.c.Status == Pending {
		e.Open = PauseID(j.c.ID, j.c.Pauses)
	}
	return refuse(e)
}

// repeated judges an answer to a pause that is over.
func (j *judgement) repeated(n int) error {
	if known, err := j.known(n); known || err != nil {
		return err
	}
	if j.c == nil || j.c.Status == Settled {
		return j.settled()
	}
	// A timer leaves no receipt.
	if a := j.c.Answer; a != nil && a.Pause == n {
		return refuse(&ConflictError{Receipt: a.receipt(j.c.ID)})
	}
	for _, d := range j.c.Decisions {
		if d.Pause == n {
			first := Receipt{Call: j.c.ID, Pause: n, Kind: KindTimer, Actor: d.Actor, At: d.At}
			return refuse(&ConflictError{Receipt: first})
		}
	}
	return refuse(fmt.Errorf("%w: pause %s is over", ErrNotPaused, PauseID(j.rc.Call, n)))
}

func (j *judgement) settled() error {
	err := j.tx.settledError(j.rc.Call)
	var settled *SettledError
	if errors.As(err, &settled) || errors.Is(err, ErrUnknownCall) || errors.Is(err, ErrDeleted) {
		return refuse(err)
	}
	return err
}

// answer judges an answer to the open pause.
func (j *judgement) answer() error {
	c, p := j.c, j.c.Pause
	if c.overdue(j.tx.Now) {
		// More were due than Expire ends at once; this one is over all the
		// same.
		if err := j.tx.expire(c); err != nil {
			return err
		}
		return j.repeated(j.rc.Pause)
	}
	if p.otherSender(j.in.Sender) {
		return refuse(&SenderError{Pause: PauseID(c.ID, c.Pauses), Sender: p.Sender})
	}
	j.rc.Sender = p.Sender
	if j.in.Kind == KindDecision && len(p.Approvers) > 0 &&
		!slices.Contains(p.Approvers, j.in.Actor) {
		return refuse(&ApproverError{Pause: PauseID(c.ID, c.Pauses), Actor: j.in.Actor})
	}
	if p.Refused && j.in.Kind != KindMessage {
		// It may be the redelivery of that one. What a user says is not.
		if duplicate, err := j.repeatsRefused(j.rc.Pause); duplicate || err != nil {
			return err
		}
	}
	switch decision := j.in.Kind == KindDecision; {
	case p.isRetry():
		return j.unanswerable()
	case p.Gate != "" && !decision:
		return j.misfit(fmt.Errorf("it is a %s answer, and the call waits for a decision "+
			"before it may run: approve or deny it", j.in.Kind))
	case p.Gate == "" && decision:
		return j.misfit(errors.New("it is a decision, and the call waits for an output: " +
			"complete it, or fail it"))
	case p.Mail != nil && j.in.Kind != KindFail:
		return j.misfit(fmt.Errorf("it is a %s answer, and the call waits for events (%s): "+
			"send one, or fail the call", j.in.Kind, strings.Join(p.Mail.Names, ", ")))
	case p.Await != nil && j.in.Kind != KindFail:
		return j.misfit(fmt.Errorf("it is a %s answer, and the call waits until handles have "+
			"stopped: end these, or fail the call", j.in.Kind))
	case j.in.Kind != KindFail && len(j.in.Value) > 0:
		if err := j.check(p.Schema, p.use(), p.Question); err != nil {
			return err
		}
	case j.in.Kind == KindRunAgain:
		if err := j.mayRunAgain(); err != nil {
			return err
		}
	}
	j.record()
	j.tx.unlist(c)
	switch j.in.Kind {
	case KindDecision:
		d := Decision{Decision: j.in.Decision, Edited: j.tx.place(j.in.Payload),
			Why: j.tx.place(j.in.Why)}
		d.Actor, d.Reason, d.Arguments = j.in.Actor, "", nil
		j.tx.decide(c, d)
		return nil
	case KindRunAgain:
		j.tx.runAgain(c, j.in)
		return nil
	case KindFail:
		return j.tx.settle(c, failed(j.kept()))
	}
	return j.tx.answered(c, j.kept())
}

// early judges an answer to the pause that the running body will ask for.
func (j *judgement) early() error {
	c := j.c
	if c.Early != nil {
		j.rc.Pause = c.Early.Pause
		if c.Early.Sender != j.in.Sender {
			// Which of the two the pause takes is known once it is there.
			return refuse(fmt.Errorf("%w: an answer that another sender gave, or without a "+
				"signature, is kept for pause %s", ErrNotYetKnown, PauseID(c.ID, j.rc.Pause)))
		}
		if r := c.Early.receipt(c.ID); !j.equal(r) {
			return refuse(&ConflictError{Receipt: r})
		}
		j.rc = c.Early.receipt(c.ID)
		j.rc.Duplicate = true
		return nil
	}
	if c.Parked != nil && j.in.Kind == KindFail {
		j.record()
		return j.tx.settle(c, failed(j.kept()))
	}
	if j.isAheadOfItsLayer() {
		return refuse(fmt.Errorf("%w: layer %q has not paused call %s yet", ErrNotYetKnown, j.in.Gate,
			c.ID))
	}
	if !c.mayPauseNext() {
		return refuse(fmt.Errorf("%w: call %s is %s", ErrNotPaused, c.ID, c.Status))
	}
	switch {
	case j.in.Kind == KindDecision:
		return j.misfit(errors.New("it is a decision, and no layer has asked for one"))
	case j.in.Kind == KindRunAgain:
		return j.misfit(errors.New("it states that the call did not happen, and runs it again, " +
			"and no operator was asked"))
	case completes(j.in.Kind):
		if err := j.check(c.Output, toolbox.AsOutput, ""); err != nil {
			return err
		}
	}
	j.record()
	c.Early = j.kept()
	return nil
}

// isAheadOfItsLayer reports whether it is a decision that a layer's token has
// brought before the layer's pause is stored. It isn't kept, since the layer may
// yet let the call through, or deny it.
func (j *judgement) isAheadOfItsLayer() bool {
	return j.in.Kind == KindDecision && j.in.Gate != "" &&
		(j.c.Status == Requested || j.c.Status == Answered)
}

// record writes the receipt of what is accepted: from then on, a caller wants
// the session to go on.
func (j *judgement) record() {
	j.tx.putReceipt(j.rc)
	j.tx.goOn()
	j.tx.gotOn()
}

// mayPauseNext reports whether the call's body may be running, and may ask for
// a pause.
func (c *Call) mayPauseNext() bool {
	return c.MayPause && c.mayRun()
}

// kept is the answer as the head keeps it.
func (j *judgement) kept() *Answer {
	return &Answer{
		Sender: j.in.Sender, Pause: j.rc.Pause, Kind: j.in.Kind, Payload: j.tx.place(j.payload()), Hash: j.in.Hash,
		Actor: j.in.Actor, Delivery: j.in.Delivery, Retryable: j.in.Retryable, At: j.tx.Now,
	}
}

// payload returns what is kept of an answer. The failure of a wait handle is an
// error in its own words: tools put it into their replies as it is.
func (j *judgement) payload() *Blob {
	if j.in.Kind == KindFail && j.c.Action == ActionWait && j.in.Words != nil {
		return j.in.Words
	}
	return j.in.Payload
}

// otherSender reports whether the pause takes one sender's answers alone, and
// this is another.
func (p *Pause) otherSender(sender string) bool {
	return p.Sender != "" && p.Sender != sender
}

// use is what an answer to the pause is for.
func (p *Pause) use() toolbox.Use {
	switch {
	case p.Gate != "":
		return toolbox.AsArguments
	case p.Mode == tool.ModeReenter:
		return toolbox.AsAnswer
	}
	return toolbox.AsOutput
}

func (j *judgement) check(schema string, use toolbox.Use, question string) error {
	asked := Asked{
		Target: toolbox.Target{Tool: j.c.Tool, Use: use, Question: question},
		Call:   j.rc.Call, Pause: j.rc.Pause, Schema: schema,
		Action: j.c.Action, Handle: j.c.Handle,
	}
	misfit, err := j.fits(asked, j.in.Value)
	if misfit != nil {
		return j.misfit(misfit)
	}
	return err
}

func (j *judgement) misfit(err error) error {
	return refuse(&PayloadError{Pause: PauseID(j.rc.Call, j.rc.Pause), Err: err})
}
