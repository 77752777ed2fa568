package agui

import (
	"encoding/json"
	"time"

	"github.com/fermata-ai/fermata/tool"
)

// Interrupt is what a run waits for.
type Interrupt struct {
	ID       string `json:"id"` // the pause's
	Reason   string `json:"reason"`
	Subagent string `json:"subagentRunId,omitempty"`
	Message  string `json:"message,omitempty"`
	Call     string `json:"toolCallId,omitempty"`
	// Schema is what the answer has to fit.
	Schema   raw               `json:"responseSchema,omitempty"`
	Expires  string            `json:"expiresAt,omitempty"`
	Metadata InterruptMetadata `json:"metadata"`

	session string
}

// InterruptMetadata is what is told of an interrupt beside it.
type InterruptMetadata struct {
	Fermata Shown `json:"fermata"`
}

// Shown is what a person has to see who answers.
type Shown struct {
	Tool      string `json:"tool"`
	Arguments raw    `json:"arguments,omitempty"`
	// Session is the one below the thread's whose call waits.
	Session string `json:"session,omitempty"`
}

// The reasons that a client knows.
const (
	reasonApproval = "tool_call"
	reasonInput    = "input_required"
)

// Answers reports whether a pause is one that a user may answer as a person: a
// decision that isn't left to others, or a question. What is to come from an
// outside system, a timer or an operator is none.
func Answers(p tool.Pause, user string) bool {
	return p.Await.Reason.Person() && p.Await.Sender == "" && p.Await.Approves(user)
}

// Interrupts returns those of the pauses that the user may answer.
func Interrupts(pending []tool.Pause, user string) []Interrupt {
	var all []Interrupt
	for _, p := range pending {
		if Answers(p, user) {
			all = append(all, interruptOf(p))
		}
	}
	return all
}

func interruptOf(p tool.Pause) Interrupt {
	in := Interrupt{
		ID: p.ID, Reason: reasonInput, Message: p.Await.Prompt, Call: p.Call,
		Schema: answerSchema(p), session: p.Session,
		Metadata: InterruptMetadata{Shown{Tool: p.Tool, Arguments: p.Arguments}},
	}
	if p.Await.Gate != "" {
		in.Reason = reasonApproval
	}
	if len(p.Path) > 0 {
		in.Metadata.Fermata.Session = p.Session
	}
	if !p.Deadline.IsZero() {
		in.Expires = p.Deadline.UTC().Format(time.RFC3339Nano)
	}
	return in
}

// answerSchema is the JSON Schema of an answer, or nil where any value is one.
func answerSchema(p tool.Pause) raw {
	schema := p.Await.Schema
	switch {
	case p.Await.Gate != "":
		if !isObject(schema) {
			schema = raw(`{"type":"object"}`)
		}
		b, err := json.Marshal(decisionSchema(schema))
		if err != nil {
			return nil
		}
		return b
	case len(schema) == 0 && p.Await.Mode == tool.ModeMessage:
		return raw(`{"type":"string"}`)
	case !isObject(schema):
		return nil // the protocol has no room for a schema that is true
	}
	return schema
}

// decisionSchema is that of a Decision.
func decisionSchema(arguments raw) map[string]any {
	return map[string]any{
		"type": "object",
		"properties": map[string]any{
			"approved":   map[string]any{"type": "boolean"},
			"reason":     map[string]any{"type": "string"},
			"editedArgs": arguments,
		},
		"required":             []string{"approved"},
		"additionalProperties": false,
	}
}

func isObject(schema raw) bool {
	var o map[string]raw
	return json.Unmarshal(schema, &o) == nil && o != nil
}
