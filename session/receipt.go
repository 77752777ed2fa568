package session

import core "github.com/fermata-ai/fermata/internal/session"

// Receipt is the durable trace of an accepted operation. In what Resume returns
// it may also stand for a refused one: then Err says why, and nothing is
// stored.
type Receipt = core.Receipt

// Kind is what an operation on a call was.
type Kind = core.Kind

// The kinds. Those of one pause exclude each other.
const (
	KindComplete = core.KindComplete // an output was given
	KindFail     = core.KindFail     // a failure was given
	KindDecision = core.KindDecision // a person or a policy approved or denied
	KindMessage  = core.KindMessage  // the user's next message was the answer
	KindTimer    = core.KindTimer    // the deadline was the answer
	KindCancel   = core.KindCancel   // of a call, whatever its pause
)

// Fate is what became of an operation after it was accepted, where that isn't
// what it asked for.
type Fate = core.Fate

// The fates.
const (
	Superseded = core.Superseded // the call settled otherwise
	Refused    = core.Refused    // the pause that was written wants another kind of answer
)

// CallStatus is where a call stands in its life.
type CallStatus = core.CallStatus

// The statuses, in the order of a call's life.
const (
	// Requested: nothing has run. Of a tool that needs no claim: nothing whose
	// outcome is known.
	Requested = core.Requested
	Running   = core.Running  // durably claimed; the body may have been entered
	Pending   = core.Pending  // paused
	Answered  = core.Answered // the pause is over, the call goes on
	Settled   = core.Settled  // it has its result
)
