// Package agui translates between fermata and AG-UI 1.0, the protocol by which
// a user interface follows and answers an agent. It has no connection, no store
// and no clock: package httpapi brings the events of a session and the body of
// a request, and writes what comes back.
//
// One way, a [Translator] makes AG-UI's events of a session's. Whatever it is
// fed, in whatever order, its events keep the protocol's rules: what is opened
// is closed, under the same owner, before the run's one end. The other way,
// [ReadInput] reads what a client sends. Of that, only the user's new messages
// and the answers to interrupts count. The history that a client sends is never
// believed: it tells what the client has on its screen, and no more.
//
// The source of the forms and rules is the protocol's specification 1.0, its
// chapters on events, patterns, the run's input and the transports.
package agui

// Version is the version of the protocol that is spoken here.
const Version = "1.0"

// ours is what the ids begin with that are made here, so that a message which
// comes back from a client is known as one of the session's.
const ours = "fermata:"

// Type is which event it is, as the protocol names it.
type Type string

// The events that a Translator makes.
const (
	TypeRunStarted       Type = "RUN_STARTED"
	TypeRunFinished      Type = "RUN_FINISHED"
	TypeRunError         Type = "RUN_ERROR"
	TypeTextStart        Type = "TEXT_MESSAGE_START"
	TypeTextContent      Type = "TEXT_MESSAGE_CONTENT"
	TypeTextEnd          Type = "TEXT_MESSAGE_END"
	TypeReasoningStart   Type = "REASONING_START"
	TypeThoughtStart     Type = "REASONING_MESSAGE_START"
	TypeThoughtContent   Type = "REASONING_MESSAGE_CONTENT"
	TypeThoughtEnd       Type = "REASONING_MESSAGE_END"
	TypeReasoningEnd     Type = "REASONING_END"
	TypeToolStart        Type = "TOOL_CALL_START"
	TypeToolArgs         Type = "TOOL_CALL_ARGS"
	TypeToolEnd          Type = "TOOL_CALL_END"
	TypeToolResult       Type = "TOOL_CALL_RESULT"
	TypeMessagesSnapshot Type = "MESSAGES_SNAPSHOT"
	TypeSubagentStarted  Type = "SUBAGENT_STARTED"
	TypeSubagentFinished Type = "SUBAGENT_FINISHED"
	TypeSubagentError    Type = "SUBAGENT_ERROR"
	TypeCustom           Type = "CUSTOM"
)

// Event is one of the protocol's events. Its JSON is what goes over the wire.
type Event interface{ Kind() Type }

// Head is what every event has.
type Head struct {
	Type Type `json:"type"`
	// Subagent is whose event it is; empty: the agent's that the user talks to.
	Subagent string   `json:"subagentRunId,omitempty"`
	Metadata Metadata `json:"metadata,omitzero"`
}

// Kind returns which event it is.
func (h Head) Kind() Type { return h.Type }

// Metadata is what is told of an event beside it. A client merges it into the
// message that the event makes.
type Metadata struct {
	Fermata Note `json:"fermata,omitzero"`
}

// Note is what the protocol has no member for.
type Note struct {
	Status string `json:"status,omitempty"` // of a result: event.Status
	Finish string `json:"finish,omitempty"` // of a run: event.Finish
	// Void: the model failed, and what it has said in this message doesn't
	// count.
	Void bool `json:"void,omitempty"`
	// More: more waits than the interrupts tell.
	More bool `json:"more,omitempty"`
}

// RunStarted opens the run.
type RunStarted struct {
	Head
	Thread  string `json:"threadId"`
	Run     string `json:"runId"`
	Version string `json:"protocolVersion"`
}

// RunFinished closes a run that did not fail.
type RunFinished struct {
	Head
	Thread  string  `json:"threadId"`
	Run     string  `json:"runId"`
	Outcome Outcome `json:"outcome"`
}

// Outcome is why a run, or the part of a subagent in it, has ended.
type Outcome struct {
	Type       string      `json:"type"`
	Interrupts []Interrupt `json:"interrupts,omitempty"`
	// InterruptIDs are those of the subagent's own.
	InterruptIDs []string `json:"interruptIds,omitempty"`
}

// The outcomes.
const (
	Success   = "success"
	Paused    = "interrupt"
	Cancelled = "cancelled"
	Suspended = "suspended" // a subagent's
)

// RunError ends a run that failed.
type RunError struct {
	Head
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
}

// Start opens a streamed message: text or reasoning.
type Start struct {
	Head
	ID   string `json:"messageId"`
	Role string `json:"role,omitempty"`
}

// Content goes on with one.
type Content struct {
	Head
	ID    string `json:"messageId"`
	Delta string `json:"delta"`
}

// End closes one. It also opens and closes a span of reasoning.
type End struct {
	Head
	ID string `json:"messageId"`
}

// ToolStart opens a call.
type ToolStart struct {
	Head
	Call   string `json:"toolCallId"`
	Tool   string `json:"toolCallName"`
	Parent string `json:"parentMessageId,omitempty"`
}

// ToolArgs has a call's arguments.
type ToolArgs struct {
	Head
	Call  string `json:"toolCallId"`
	Delta string `json:"delta"`
}

// ToolEnd closes a call.
type ToolEnd struct {
	Head
	Call string `json:"toolCallId"`
}

// ToolResult is what came of a call. It is a message of its own.
type ToolResult struct {
	Head
	ID      string `json:"messageId"`
	Call    string `json:"toolCallId"`
	Content Body   `json:"content"`
	Role    string `json:"role"`
}

// MessagesSnapshot is all that was said, as it stands in the store.
type MessagesSnapshot struct {
	Head
	Messages []Message `json:"messages"`
}

// SubagentStarted announces that a nested agent works.
type SubagentStarted struct {
	Head
	Name   string `json:"name"`
	Parent string `json:"parentSubagentRunId,omitempty"`
	Call   string `json:"parentToolCallId,omitempty"`
}

// SubagentFinished closes its part of the run.
type SubagentFinished struct {
	Head
	Outcome Outcome `json:"outcome"`
}

// SubagentError closes it where it failed. The run may go on.
type SubagentError struct {
	Head
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
}

// Custom is what the protocol has no event for: an event of the session, in its
// own JSON form, under the name fermata.TYPE.
type Custom struct {
	Head
	Name  string `json:"name"`
	Value raw    `json:"value"`
}
