package session

import core "github.com/fermata-ai/fermata/internal/session"

// The refusals that callers tell apart, with errors.Is. Each is wrapped with
// what it is about. Where one of them comes back, nothing was recorded.
var (
	// ErrUnknownSession, ErrUnknownCall and ErrUnknownPause: there is no such
	// thing, or its receipts have been swept.
	ErrUnknownSession = core.ErrUnknownSession
	ErrUnknownCall    = core.ErrUnknownCall
	ErrUnknownPause   = core.ErrUnknownPause
	// ErrNotYetKnown: the outside system may be faster than the commit of the
	// pause. Try again.
	ErrNotYetKnown = core.ErrNotYetKnown
	// ErrNotKept: no call has the outside key yet, and what is kept until one has
	// is bounded.
	ErrNotKept = core.ErrNotKept
	// ErrInvalidID: an id is empty, too long, or not UTF-8.
	ErrInvalidID = core.ErrInvalidID
	// ErrChild: the session is the child of a call, and is told what to do by
	// that call alone.
	ErrChild = core.ErrChild
	// ErrWrongUser: the session belongs to another user.
	ErrWrongUser = core.ErrWrongUser
	// ErrDeleted: the session was deleted; its id can't be used again yet.
	ErrDeleted = core.ErrDeleted
	// ErrNotPaused: the call is open, and doesn't wait for such an answer.
	ErrNotPaused = core.ErrNotPaused
	// ErrOtherGate: the answer is for one layer's pause, and the pause is
	// another's. See GateError.
	ErrOtherGate = core.ErrOtherGate
	// ErrOtherSender: the answer, or the event, is taken from one sender alone,
	// who has not signed this. See SenderError.
	ErrOtherSender = core.ErrOtherSender
	// ErrNotApprover: the pause names who decides, and that is another. See
	// ApproverError.
	ErrNotApprover = core.ErrNotApprover
	// ErrPauseRequired: the call has paused more than once, and the answer
	// names no pause. See PauseRequiredError.
	ErrPauseRequired = core.ErrPauseRequired
	// ErrAmbiguousKey: more than one open pause has the outside key.
	ErrAmbiguousKey = core.ErrAmbiguousKey
	// ErrResumeConflict: another answer to the pause was accepted before. See
	// ConflictError.
	ErrResumeConflict = core.ErrResumeConflict
	// ErrInvalidResumePayload: the answer doesn't fit what the pause asks for.
	// See PayloadError.
	ErrInvalidResumePayload = core.ErrInvalidResumePayload
	// ErrSettled: the call has its result. ErrCancelled and ErrExpired say how,
	// where it is one of those. See SettledError.
	ErrSettled   = core.ErrSettled
	ErrCancelled = core.ErrCancelled
	ErrExpired   = core.ErrExpired
	// ErrMessageConflict: a message of that id, with other content, was
	// accepted before.
	ErrMessageConflict = core.ErrMessageConflict
	// ErrInvalidMessage: the message is empty, too large, or not a user's.
	ErrInvalidMessage = core.ErrInvalidMessage
	// ErrUnknownEvent: the call's tool takes no event of that name. See
	// UnknownEventError.
	ErrUnknownEvent = core.ErrUnknownEvent
	// ErrUnknownHandle: the session has no handle of that name.
	ErrUnknownHandle = core.ErrUnknownHandle
	// ErrNameTaken: an open handle has the name.
	ErrNameTaken = core.ErrNameTaken
	// ErrMailboxFull: as many events have come for the call as it takes.
	ErrMailboxFull = core.ErrMailboxFull
	// ErrQueueFull: as many messages wait in the session as may.
	ErrQueueFull = core.ErrQueueFull
	// ErrUnknownMessage: no message was sent under that id.
	ErrUnknownMessage = core.ErrUnknownMessage
	// ErrInvalidDeadline: the deadline is past, or can't be stored.
	ErrInvalidDeadline = core.ErrInvalidDeadline
	// ErrPending: calls of the session wait for answers. See PendingError.
	ErrPending = core.ErrPending
	// ErrNoUndo: nothing is to be called off outside of that call.
	ErrNoUndo = core.ErrNoUndo
	// ErrNoDeadLetter: no notification of that number could not be sent.
	ErrNoDeadLetter = core.ErrNoDeadLetter
	// ErrBusy: another drive holds the session. See BusyError.
	ErrBusy = core.ErrBusy
	// ErrFenced: the drive has lost its lease; another may have taken the
	// session over.
	ErrFenced = core.ErrFenced
	// ErrStale: another commit came first.
	ErrStale = core.ErrStale
	// ErrCorrupt: a stored record is damaged.
	ErrCorrupt = core.ErrCorrupt
	// ErrNewerVersion: a record was written by a newer version of this library.
	ErrNewerVersion = core.ErrNewerVersion
	// ErrNoAnswer: the storage engine has not answered in time. What was to be
	// written may have been, or may yet be.
	ErrNoAnswer = core.ErrNoAnswer
	// ErrNotShared: the storage engine belongs to one process, and takes part in
	// no transaction of another one's.
	ErrNotShared = core.ErrNotShared
)

// The refusals with facts, for errors.As.
type (
	// ConflictError has the Receipt of the answer that was accepted first.
	ConflictError = core.ConflictError
	// SettledError has the Call, and how it was settled: its Status, the Actor, and
	// At what time.
	SettledError = core.SettledError
	// PauseRequiredError has the Call, and the pause of it that is Open.
	PauseRequiredError = core.PauseRequiredError
	// GateError has the Pause, the Gate that asked for it, and the one that the
	// answer is For.
	GateError = core.GateError
	// SenderError has the Pause, or the Event, and the Sender from whom alone it
	// is taken.
	SenderError = core.SenderError
	// ApproverError has the Pause, and the Actor who is none of its approvers.
	ApproverError = core.ApproverError
	// UnknownEventError has the Call and its Tool, the event's Name, and the
	// Names of those that the call takes.
	UnknownEventError = core.UnknownEventError
	// PayloadError has the Pause, or the Event, and in Err which fields don't
	// fit, and why.
	PayloadError = core.PayloadError
	// PendingError has the Session, and the calls that wait: Pending, MorePending
	// if there are more than that, and Parked; and in Blocks what could not be
	// superseded.
	PendingError = core.PendingError
	// Blocks is a call that can't be superseded: Session, Agent, Call and Tool;
	// without a Call, a session in which work goes on.
	Blocks = core.Blocks
	// BusyError has the Session, and Until when another drive holds it.
	BusyError = core.BusyError
)
