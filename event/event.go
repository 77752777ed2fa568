// Package event is what a caller sees of a run: what the model says as it is
// said, and what became of each tool call. The last event of a run is an [End].
//
// Events are for showing, and belong to the caller who ranges over them:
// writing into one, to mask it, say, changes nothing else. What must not be
// missed is in the session: an event that tells of a pause or a final result
// comes after the commit that made it so. But for one: the result of a call
// whose answer is its output is shown as soon as the layers have let it
// through, and is stored with the session's next commit. If the call is
// cancelled before that, the cancellation counts, and the result is shown
// again, as it is.
//
// Events have a JSON form, see [Marshal].
package event

import (
	"encoding/json"
	"time"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// Event is one of the types below. Their tags are of the form that [Marshal]
// writes, which adds the type.
type Event interface{ isEvent() }

// TextDelta is more of the model's answer, as it streams.
//
// Start: the message begins here. What was said before it, as text or reasoning,
// and was not followed by a Message, is void: the model is called anew, or a
// follower gets all that was said so far at once. A Delta with Start may be
// empty: then nothing has come in place of what is void.
type TextDelta struct {
	Delta string `json:"delta"`
	Start bool   `json:"start,omitempty"`
}

// ReasoningDelta is more of the model's reasoning, as it streams. Start is that
// of TextDelta.
type ReasoningDelta struct {
	Delta string `json:"delta"`
	Start bool   `json:"start,omitempty"`
}

// Message is a message of the session: the user's, which only followers are
// shown, the model's, committed, or the results of a turn, which follow from
// what is committed and are stored with the model's next message at the latest.
// So every listener sees a turn in one order: what was asked, what waited, what
// came of it, and then what the model says of it.
type Message struct {
	Number  int         `json:"number"` // its place in the session, from 0
	Message llm.Message `json:"message"`
	Cursor  string      `json:"cursor,omitempty"` // of a Follow, see Cursor
}

// Call is a tool call that the model asked for. It is committed; nothing has
// run.
type Call struct {
	Call llm.ToolCall `json:"call"`
}

// Started tells that the body of a call begins: its first entry, or one more. A
// call that is refused, or whose answer is its output, has none. Only the caller
// of the drive, and followers in its process, are shown it.
type Started struct {
	Index   int    `json:"index"` // the call's place in its turn, from 0
	Call    string `json:"call"`
	Tool    string `json:"tool"`
	Attempt int    `json:"attempt"` // as in tool.Call
}

// Progress is what a running or paused call reported.
type Progress struct {
	Call     string        `json:"call"`
	Tool     string        `json:"tool"`
	Progress tool.Progress `json:"progress"`
}

// Result is a call's one final result. That of a call which settled while
// no drive held its session is shown by the next drive.
type Result struct {
	Index  int            `json:"index"` // the call's place in its turn, from 0
	Status Status         `json:"status"`
	Result llm.ToolResult `json:"result"`
	Actor  string         `json:"actor,omitempty"` // who settled it, where an actor did
	// Duration is how long the body ran, in its last entry; zero where none was
	// entered, or it still ran when the call settled. In JSON it is in
	// milliseconds.
	Duration time.Duration `json:"duration_ms,omitempty"`
	Cursor   string        `json:"cursor,omitempty"` // of a Follow, see Cursor
}

// Status is how a call ended.
type Status string

// The statuses of a settled call.
const (
	Done   Status = "done"   // with an output
	Failed Status = "failed" // with an error
	// TimedOut: its body did not end within its tool's Timeout.
	TimedOut Status = "timed_out"
	// Denied: a policy, a person or a superseding message refused the call. The
	// result's text tells whether its work had begun.
	Denied    Status = "denied"
	Cancelled Status = "cancelled" // by Cancel, or with its run
	Expired   Status = "expired"   // its pause outlasted its deadline
	Unknown   Status = "unknown"   // a crash, or a body that would not stop, left the outcome open
)

// Artifact is what a call made beside its result.
type Artifact struct {
	Call     string        `json:"call"`
	Tool     string        `json:"tool"`
	Artifact tool.Artifact `json:"artifact"`
	Cursor   string        `json:"cursor,omitempty"` // of a Follow, see Cursor
}

// Pause is a call that waits. It is committed.
type Pause struct {
	Pause  tool.Pause `json:"pause"`
	Cursor string     `json:"cursor,omitempty"` // of a Follow, see Cursor
}

// Parked is a call whose tool was there when it was asked for, and is gone from
// the agent since. It is committed. The call goes on when a drive has the tool;
// until then it can be cancelled, failed, or superseded by a message.
//
// With an Agent it is, in an End or a Show, a call that a nested agent works
// for, itself or by agents below it. Work is due in Session, and the runner
// doesn't have that session's agent. It goes on with a runner that has it; until
// then it can be cancelled.
type Parked struct {
	Call    string    `json:"call"`
	Tool    string    `json:"tool"` // what is missing, or has the agent work
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until,omitzero"`  // when it fails; zero: never
	Agent   string    `json:"agent,omitempty"` // what is missing in place of the tool
	Session string    `json:"session,omitempty"`
	Cursor  string    `json:"cursor,omitempty"` // of a Follow, see Cursor
}

// Nested is an event of a session below the one that the caller ranges over: of
// a nested agent, say. The End of such a session is one, too, and no end of the
// range.
type Nested struct {
	// Path leads from the root down to the session of the event: its steps are
	// the sessions above, each with the call that made the next one.
	Path    []tool.PathStep `json:"path"`
	Session string          `json:"session"`
	Agent   string          `json:"agent"`
	Event   Event           `json:"event"` // and no Nested
}

// Handoff tells that an agent has handed the session over to another one.
type Handoff struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Undriven tells who follows a session that work is due in it, and that no
// drive has taken it up: Continue or Run does, or a worker that has its agent.
// In a Nested the session is that of the Nested. Run and Continue show it there
// too, where they end since the runner doesn't have that session's agent.
type Undriven struct {
	Agent string    `json:"agent"`
	Since time.Time `json:"since"` // as far as the follower has seen
}

// Retry tells that the model failed in a way that may pass, and will be called
// again. What it said so far is void.
type Retry struct {
	Failures int       `json:"failures"` // in a row
	At       time.Time `json:"at"`
	// Err in JSON is its text, and what an [llm.Error] in it has. So much comes
	// back.
	Err error `json:"error"`
}

// End is the last event: why this drive of the session stopped.
type End struct {
	Session string `json:"session"`
	Finish  Finish `json:"finish"`
	// Why is, of FinishFailed and FinishDelayed, what happened; of FinishOther,
	// the provider's word for it; of FinishCancelled, the reason given.
	Why string `json:"why,omitempty"`
	// Pending is what is waited for, with FinishPaused: the session's own
	// pauses, and then, the oldest first, what people are to answer in the
	// sessions below it, each with the path to it. There are 100 at most.
	// MorePending: there may be more, and Runner.Pending lists them.
	Pending     []tool.Pause `json:"pending,omitempty"`
	MorePending bool         `json:"more_pending,omitempty"`
	// Parked is, with FinishPaused, the calls whose tools, or agents, are gone.
	Parked []Parked `json:"parked,omitempty"`
	// Until is, with FinishElsewhere, when the other drive's lease ends, if
	// that is known; with FinishDelayed, when the model is called again.
	Until  time.Time `json:"until,omitzero"`
	Usage  llm.Usage `json:"usage,omitzero"`   // of the run so far
	Cursor string    `json:"cursor,omitempty"` // of a Follow, see Cursor
}

// Other is an event of a type that this version of the library doesn't know, as
// it was read. No runner makes one.
type Other struct {
	Type string          `json:"type"`
	Raw  json.RawMessage `json:"-"` // the whole
}

// Finish is why a drive stopped.
type Finish string

// The finishes.
const (
	FinishStop   Finish = "stop"   // the model is done
	FinishPaused Finish = "paused" // calls wait
	// FinishLength: the model's output was cut off by a limit of tokens.
	FinishLength  Finish = "length"
	FinishRefusal Finish = "refusal" // the model declined
	// FinishOther: the model stopped for a reason that has no finish of its
	// own, or said nothing at all.
	FinishOther     Finish = "other"
	FinishMaxTurns  Finish = "max_turns"      // Limits.Turns is used up
	FinishMaxCalls  Finish = "max_tool_calls" // Limits.ToolCalls is used up
	FinishMaxTokens Finish = "max_tokens"     // Limits.Tokens is used up
	// FinishMaxMessage: a message of the model went over Limits.Message, and
	// was not stored.
	FinishMaxMessage Finish = "max_message"
	FinishFailed     Finish = "failed"    // an error ended the run; it was yielded before
	FinishCancelled  Finish = "cancelled" // an actor cancelled the session
	// FinishInterrupted: the caller left, or the runner was closed. Continue or
	// Run carries on or, if the run was detached or the runner closed, a
	// worker.
	FinishInterrupted Finish = "interrupted"
	// FinishDelayed: the model is called again at End.Until, by a worker or by
	// Continue. That may be the model of a session below, for which all waits;
	// the runner calls it then as well, as long as it is open.
	FinishDelayed Finish = "delayed"
	// FinishHandedOver: another agent has taken the session over, and its drive
	// goes on with it.
	FinishHandedOver Finish = "handed_over"
	FinishElsewhere  Finish = "driven_elsewhere" // another drive holds the session
)

func (TextDelta) isEvent()      {}
func (ReasoningDelta) isEvent() {}
func (Message) isEvent()        {}
func (Call) isEvent()           {}
func (Started) isEvent()        {}
func (Progress) isEvent()       {}
func (Result) isEvent()         {}
func (Artifact) isEvent()       {}
func (Pause) isEvent()          {}
func (Parked) isEvent()         {}
func (Undriven) isEvent()       {}
func (Nested) isEvent()         {}
func (Handoff) isEvent()        {}
func (Retry) isEvent()          {}
func (End) isEvent()            {}
func (Other) isEvent()          {}
