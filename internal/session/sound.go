package session

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// Each record is checked when it is read. A damaged one is never taken for
// another, nor for none. Each check returns what is wrong, in words that follow
// the name of the record.

// check returns what is wrong with a head.
func (s *State) check() error {
	switch {
	case s.Version > newestVersion, s.Version == signpostVersion:
		return ErrNewerVersion
	case s.Version < 1:
		return fmt.Errorf("it has no version")
	case s.ID == "":
		return fmt.Errorf("it has no id")
	case s.Messages < 0 || s.Turn < 0 || s.Epoch < 0 || s.Generation < 0 || s.Takeovers < 0 ||
		s.Deadly < 0 || s.Lease < 0 || s.Beat < 0 || s.Handles < 0 || s.NoticesTold < 0 ||
		s.Kept < 0 || s.Aborts < 0 || s.Lingered < 0 || s.Wakes < 0 || s.Wakes > s.Notices ||
		s.Run.Inquiries < 0 || s.Notified < 0 || s.Telling < 0 ||
		s.Notices < s.NoticesTold || s.NoticesGone < 0 || s.NoticesTold < s.NoticesGone:
		return fmt.Errorf("it has a negative count")
	case s.Rung && s.Bell == "":
		return fmt.Errorf("a bell was rung, and it has none")
	case s.Retry != nil && s.Retry.Wait < 0:
		return fmt.Errorf("its model is asked again after a negative wait")
	case len(s.Calls) > 0 && s.Due:
		return fmt.Errorf("a turn is open, and yet the model's answer is due")
	case len(s.Calls) > 0 && s.Messages == 0:
		return fmt.Errorf("a turn is open, and no message asked for it")
	}
	if err := s.Parent.check(); err != nil {
		return err
	}
	if err := s.checkLinger(); err != nil {
		return err
	}
	for i := range s.EndEvents {
		if err := s.EndEvents[i].Check(); err != nil {
			return err
		}
	}
	if err := s.Queue.check(); err != nil {
		return err
	}
	if err := s.checkWaits(); err != nil {
		return err
	}
	for i := range s.Outbox {
		if err := s.Outbox[i].check(); err != nil {
			return err
		}
	}
	for i := range s.Calls {
		c := &s.Calls[i]
		if c.ID == "" || s.Call(c.ID) != c {
			return fmt.Errorf("call %d has no id of its own", i)
		}
		if err := c.check(); err != nil {
			return fmt.Errorf("call %s: %w", c.ID, err)
		}
		if err := s.checkBinds(c); err != nil {
			return fmt.Errorf("call %s: %w", c.ID, err)
		}
	}
	var err error
	s.blobs(func(b *Blob) {
		if e := b.check(); e != nil {
			err = e
		}
	})
	return err
}

// check returns what is wrong with a call of a head.
func (c *Call) check() error {
	if _, known := transitions[c.Status]; !known && c.Status != Settled {
		return fmt.Errorf("unknown status %q", c.Status)
	}
	switch c.Effect {
	case tool.Once, tool.Idempotent, tool.ReadOnly:
	default:
		return fmt.Errorf("unknown effect %q", c.Effect)
	}
	switch {
	case (c.Status == Pending) != (c.Pause != nil):
		return fmt.Errorf("it is %s, and its pause doesn't go with that", c.Status)
	case c.Status == Pending && c.Pauses < 1:
		return fmt.Errorf("it is pending, and never paused")
	case (c.Status == Settled) != (c.Settled != ""):
		return fmt.Errorf("it is %s, and its end doesn't go with that", c.Status)
	case c.Status == Answered && c.Answer == nil && len(c.Decisions) == 0 && len(c.Again) == 0 &&
		c.Tried == nil:
		return fmt.Errorf("it is answered, and has no answer")
	case c.Parked != nil && (c.Status == Pending || c.Status == Settled):
		return fmt.Errorf("it is %s, and parked", c.Status)
	case c.Child != "" && c.Status != Pending:
		return fmt.Errorf("it is %s, and waits for a child", c.Status)
	case c.Bound != "" && c.Handle == "":
		return fmt.Errorf("it is bound to a handle that it doesn't name")
	case c.Status == Running && c.Attempt < 1:
		return fmt.Errorf("it is running, and was never claimed")
	}
	if c.Pause != nil {
		if err := c.Pause.check(); err != nil {
			return err
		}
	}
	for _, a := range []*Answer{c.Answer, c.Early} {
		if a != nil && (a.Pause < 1 || a.Payload == nil || !answers[a.Kind] ||
			(a == c.Answer && a.Mode == "")) {
			return fmt.Errorf("an answer is incomplete")
		}
	}
	held := c.Permits
	if c.Answer != nil {
		held = slices.Concat(held, c.Answer.GivenBack)
	}
	for i := range held {
		if err := held[i].check(); err != nil {
			return err
		}
	}
	if err := checkMade(c.Decisions, c.Again, c.Actions); err != nil {
		return err
	}
	if err := c.Tried.check(); err != nil {
		return err
	}
	if err := c.checkMail(); err != nil {
		return err
	}
	return checkSettled(c.Settled)
}

// checkMade returns what is wrong with the decisions about a call, with what
// operators have stated of it, or with what its body made.
func checkMade(decisions []Decision, again []Again, actions []*Blob) error {
	for _, d := range decisions {
		if d.Gate == "" || d.Shown == "" || d.Pause < 1 {
			return fmt.Errorf("a decision is incomplete")
		}
	}
	for _, b := range actions {
		if b == nil {
			return fmt.Errorf("an action is missing")
		}
	}
	return checkAgain(again)
}

// answers are the kinds that an answer to a tool's own pause may have.
var answers = map[Kind]bool{
	KindComplete: true, KindFail: true, KindMessage: true, KindTimer: true, KindTimeout: true,
	KindEvent: true,
}

func checkSettled(s event.Status) error {
	switch s {
	case "", event.Done, event.Failed, event.Denied, event.Cancelled, event.Expired, event.Unknown:
		return nil
	}
	return fmt.Errorf("unknown end %q", s)
}

// check returns what is wrong with a call's record.
func (r *Record) check() error {
	switch {
	case r.Version > Version:
		return ErrNewerVersion
	case r.Version < 1 || r.Call == "" || r.Status == "" || r.Pauses < 0 ||
		r.MailShown < 0 || r.Mail < r.MailShown:
		return errIncomplete
	}
	if err := checkMade(r.Decisions, r.Again, r.Actions); err != nil {
		return err
	}
	var err error
	r.blobs(func(b *Blob) {
		if e := b.check(); e != nil {
			err = e
		}
	})
	if err != nil {
		return err
	}
	return checkSettled(r.Status)
}

// check returns what is wrong with a receipt.
func (r *Receipt) check() error {
	if r.Duplicate || r.Err != nil {
		return fmt.Errorf("it is of one delivery")
	}
	switch r.Kind {
	case KindCancel:
	case KindEvent:
		if e := r.Event; e.Name == "" || e.ID == "" || e.Number < 1 {
			return fmt.Errorf("it is of no event")
		}
	case KindComplete, KindFail, KindDecision, KindMessage, KindTimer, KindRunAgain:
		if r.Pause < 1 {
			return fmt.Errorf("it is of no pause")
		}
	default:
		return fmt.Errorf("unknown kind %q", r.Kind)
	}
	switch r.Fate {
	case "", Superseded, Refused:
	default:
		return fmt.Errorf("unknown fate %q", r.Fate)
	}
	if r.Call == "" || r.At.IsZero() {
		return errIncomplete
	}
	return nil
}

func (e *pauseEntry) check() error {
	if e.Session == "" || e.Tool == "" || e.Reason == "" {
		return errIncomplete
	}
	return nil
}

// pauseNumber is what lies under an outside key.
type pauseNumber int

func (n *pauseNumber) check() error {
	if *n < 1 {
		return fmt.Errorf("it is %d, which is no pause's number", *n)
	}
	return nil
}

// A record that names its session or call lies under the key of that one, and
// nowhere else.
func (s *State) liesAt(key []byte) bool  { return endsWith(key, s.ID) }
func (r *Record) liesAt(key []byte) bool { return endsWith(key, r.Call) }
func (r *Receipt) liesAt(key []byte) bool {
	if r.Event != (EventID{}) {
		return endsWith(key, r.Call, r.Event.Name, r.Event.ID)
	}
	return endsWith(key, r.Call, r.slot())
}

var (
	errIncomplete = errors.New("it is incomplete")
	errElsewhere  = errors.New("it is of something else")
)

// endsWith reports whether a key's last parts are these.
func endsWith(key []byte, parts ...string) bool {
	var buf [128]byte
	end := kvstore.AppendKey(buf[:0], parts...)
	before := len(key) - len(end)
	return before > 0 && key[before-1] == 0 && bytes.Equal(key[before:], end)
}

func (p *Pause) check() error {
	if p.Gate != "" && (p.Mode != tool.ModeReenter || p.Shown == "") {
		return fmt.Errorf("a layer's pause is incomplete")
	}
	if err := p.Await.check(); err != nil {
		return err
	}
	a := tool.Await{Reason: p.Reason, Mode: p.Mode, Gate: p.Gate, Sender: p.Sender, Approvers: p.Approvers,
		OnTimeout: p.OnTimeout}
	if p.Beat != nil {
		a.Heartbeat = p.Beat.every()
	}
	if p.Await != nil {
		a.Handles = &tool.HandleWait{Any: []string{"one"}} // which they are, the store has
	}
	if p.isRetry() && p.Deadline.IsZero() {
		return fmt.Errorf("its pause waits for the next try, and has no time")
	}
	if a.OnTimeout != "" || p.isRetry() {
		a.Timeout = 1 // which Extend may have taken away
	}
	if p.Beat != nil && (p.Beat.Due.IsZero() || p.Beat.EveryMS <= 0) {
		return fmt.Errorf("its pause has a heartbeat every %d ms, due %v", p.Beat.EveryMS, p.Beat.Due)
	}
	if _, err := a.Normalize(); err != nil || p.Mode == "" || p.Reason == "" {
		return fmt.Errorf("its pause has reason %q, mode %q and %q at its deadline",
			p.Reason, p.Mode, p.OnTimeout)
	}
	return nil
}
