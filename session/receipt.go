package session

import core "github.com/fermata-ai/fermata/internal/session"

// Receipt is the durable trace of an accepted operation: the Call; the Pause,
// by number; the Kind of answer, and of a decision what was Decided ("approved"
// or "denied"); the Hash of its content; its Actor; the Delivery's id; the
// Sender who signed it, where it is taken from that one alone; At what time; of
// an event, which Event; and its Fate. In what Resume and Deliver return,
// Duplicate marks one that was accepted before, and Err says why one was
// refused, of which nothing is stored.
type Receipt = core.Receipt

// EventID names an event among those of its call: its Name, its ID, and its
// Number among those that were accepted for the call, from 1.
type EventID = core.EventID

// Kind is what an operation on a call was.
type Kind = core.Kind

// The kinds. Those of one pause exclude each other.
const (
	KindComplete = core.KindComplete // an output was given
	KindFail     = core.KindFail     // a failure was given
	KindDecision = core.KindDecision // a person or a policy approved or denied
	KindRunAgain = core.KindRunAgain // an operator stated that it did not happen
	KindMessage  = core.KindMessage  // the user's next message was the answer
	KindTimer    = core.KindTimer    // the deadline was the answer
	KindTimeout  = core.KindTimeout  // the deadline has the tool entered again: it was not answered
	KindCancel   = core.KindCancel   // of a call, whatever its pause
	KindEvent    = core.KindEvent    // for a call, whatever its pause; also what met a pause
)

// Fate is what became of an operation after it was accepted, where that isn't
// what it asked for.
type Fate = core.Fate

// The fates.
const (
	FateSuperseded = core.Superseded // the call settled otherwise
	FateRefused    = core.Refused    // the pause that was written wants another kind of answer
	FateKept       = core.Kept       // no call had its outside key yet: it is judged when one does
)

// CallStatus is where a call stands in its life.
type CallStatus = core.CallStatus

// The statuses, in the order of a call's life.
const (
	// Requested: nothing has run. Of a tool that needs no claim: nothing whose
	// outcome is known.
	CallRequested = core.Requested
	CallRunning   = core.Running  // durably claimed; the body may have been entered
	CallPending   = core.Pending  // paused
	CallAnswered  = core.Answered // the pause is over, the call goes on
	CallSettled   = core.Settled  // it has its result
)
