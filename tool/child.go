package tool

import (
	"bytes"
	"encoding/json"

	"github.com/fermata-ai/fermata/llm"
)

// Child is a session that a pause begins, and waits for. A tool that returns it
// in an Await has wished for it; the runner makes it, in the commit that stores
// the pause. Its end is the answer.
type Child struct {
	Agent string `json:"agent"` // the name of the agent that works in it
	// Session is its id. The runner sets it.
	Session string `json:"session,omitempty"`
	// Message is what the agent is told: a user's message. It is not shown
	// again with the pause, and stands in the child's history.
	Message llm.Message `json:"-"`
	// Schema is the JSON Schema of an object: the agent is asked for a last
	// message of that form, and that object is the call's output. Empty, the
	// output is the last message's text, as a string.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Planned: the agent follows a list, as those of package workflow do. So its
	// model calls and tool calls have no limit, and don't count as the caller's.
	// Tokens do.
	Planned bool `json:"planned,omitempty"`
}

// Clone returns a wish that shares nothing with c which can be changed.
func (c *Child) Clone() *Child {
	if c == nil {
		return nil
	}
	own := *c
	own.Message, own.Schema = c.Message.Clone(), bytes.Clone(c.Schema)
	return &own
}

// PathStep is one step from a root session down to a session below it: a
// session, and its call that made the next one.
type PathStep struct {
	Session string `json:"session"`
	Agent   string `json:"agent,omitempty"`
	Call    string `json:"call"`
	Tool    string `json:"tool,omitempty"`
}
