package agui

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/llm"
)

// Input is what a client sends to begin a run: the protocol's RunAgentInput.
type Input struct {
	Thread   string    `json:"threadId"` // the session
	Run      string    `json:"runId"`
	Messages []Message `json:"messages"` // what the client has on its screen
	Resume   []Resume  `json:"resume"`
	Tools    []Tool    `json:"tools"`

	Context        []raw `json:"context"`
	State          raw   `json:"state"`
	ForwardedProps raw   `json:"forwardedProps"`
}

// Tool is one that the client would run itself.
type Tool struct {
	Name string `json:"name"`
}

// Message is one of the conversation.
type Message struct {
	ID    string     `json:"id"`
	Role  string     `json:"role"`
	Body  *Body      `json:"content,omitempty"`
	Calls []ToolCall `json:"toolCalls,omitempty"`
	Call  string     `json:"toolCallId,omitempty"` // which one a tool's message answers
	Error string     `json:"error,omitempty"`
	// Subagent is whose message it is; empty: the agent's that the user talks
	// to.
	Subagent string `json:"subagentRunId,omitempty"`
}

// ToolCall is a call in an assistant's message.
type ToolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// Function is what is called, and with which arguments.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Resume is an answer to one interrupt.
type Resume struct {
	Interrupt string `json:"interruptId"`
	Status    string `json:"status"` // resolved or cancelled
	Payload   raw    `json:"payload"`
}

// The statuses of a Resume.
const (
	Resolved  = "resolved"
	Abandoned = "cancelled"
)

// What an input may have: each of it costs a look into the store. The
// conversation before the last answer is bounded by the body alone.
const (
	maxSaid    = 256 // messages of the user's after the last answer
	maxAnswers = 256
	maxParts   = 64  // of a new message
	maxName    = 512 // bytes of an id: they are told again
	// Values of JSON, of which each takes the memory of many bytes.
	maxValues = 250_000
)

// The roles of messages.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
	roleTool      = "tool"
	roleReasoning = "reasoning"
)

// ReadInput reads the body of a request. JSON that two readers might understand
// differently, with a member twice, say, is an error. Members that the protocol
// doesn't have are passed over.
func ReadInput(body []byte) (*Input, error) {
	if values(body) > maxValues {
		return nil, fmt.Errorf("the body has more than %d values; send the last messages alone: the "+
			"store has the others", maxValues)
	}
	if _, err := strictjson.Parse(body, strictjson.Strict(true)); err != nil {
		return nil, fmt.Errorf("the body is no JSON that can be read in one way only: %w", err)
	}
	var in Input
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, fmt.Errorf("the body is no RunAgentInput: %w", err)
	}
	switch {
	case in.Thread == "":
		return nil, errors.New("it has no threadId")
	case in.Run == "":
		return nil, errors.New("it has no runId")
	case len(in.Thread) > maxName || len(in.Run) > maxName:
		return nil, fmt.Errorf("a threadId and a runId have at most %d bytes each", maxName)
	case in.Messages == nil:
		return nil, errors.New("it has no messages; a run without any has an empty list")
	}
	for _, m := range in.Messages {
		if m.ID == "" {
			return nil, errors.New("one of its messages has no id")
		}
	}
	if n := len(in.Said()); n > maxSaid {
		return nil, fmt.Errorf("it has %d messages of the user's after the last answer, and may have "+
			"%d; send the last ones alone", n, maxSaid)
	}
	if err := in.checkResume(); err != nil {
		return nil, err
	}
	return &in, nil
}

// values returns how many values a text of JSON has at most. Of a text that is
// none it is any number.
func values(text []byte) int {
	n, inString := 1, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			i++
		case !inString && (c == ',' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}

// checkResume returns what is wrong with the answers, or nil.
func (in *Input) checkResume() error {
	if n := len(in.Resume); n > maxAnswers {
		return fmt.Errorf("resume has %d entries, and may have %d; answer the others in the next run",
			n, maxAnswers)
	}
	answered := map[string]bool{}
	for _, r := range in.Resume {
		switch {
		case r.Interrupt == "":
			return errors.New("an entry of resume has no interruptId")
		case len(r.Interrupt) > maxName:
			return fmt.Errorf("an interruptId has at most %d bytes", maxName)
		case answered[r.Interrupt]:
			return fmt.Errorf("resume answers the interrupt %.60q twice", r.Interrupt)
		case r.Status != Resolved && r.Status != Abandoned:
			return fmt.Errorf("the status %.60q of an entry of resume is not %s or %s",
				r.Status, Resolved, Abandoned)
		}
		answered[r.Interrupt] = true
	}
	return nil
}

// Unused lists what the client sends that an agent here can't use. Nothing
// fails for it.
func (in *Input) Unused() []string {
	var names []string
	if len(in.Context) > 0 {
		names = append(names, "context")
	}
	if filled(in.State) {
		names = append(names, "state")
	}
	if filled(in.ForwardedProps) {
		names = append(names, "forwardedProps")
	}
	return names
}

// filled reports whether a value says anything.
func filled(value raw) bool {
	switch strings.TrimSpace(string(value)) {
	case "", "null", "{}", "[]":
		return false
	}
	return true
}

// Said lists the messages at the end of the input that the user may just have
// said: those that no answer follows, in order. A message that came from here
// is none of them.
func (in *Input) Said() []Message {
	var said []Message
	for _, m := range slices.Backward(in.Messages) {
		if m.Role == roleAssistant || m.Role == roleTool {
			break
		}
		if m.Role == roleUser && !strings.HasPrefix(m.ID, ours) {
			said = append(said, m)
		}
	}
	slices.Reverse(said)
	return said
}

// UserMessage returns what a user's message says, for the session. Parts that
// are not taken are left out, and counted: those of media types for which takes
// is false, and those whose bytes are elsewhere. Nothing here, and no provider,
// shall fetch what a client names.
func (m Message) UserMessage(takes func(mediaType string) bool) (
	out llm.Message, left int, err error,
) {
	out.Role = llm.RoleUser
	if m.Body == nil {
		return out, 0, fmt.Errorf("the message %.60q has no content", m.ID)
	}
	if m.Body.Parts == nil {
		out.Parts = []llm.Part{llm.Text{Text: m.Body.Text}}
		return out, 0, nil
	}
	for _, p := range m.Body.Parts {
		part, err := p.part(takes)
		switch {
		case err != nil:
			return out, 0, fmt.Errorf("the message %.60q: %w", m.ID, err)
		case part == nil:
			left++
		default:
			out.Parts = append(out.Parts, part)
		}
	}
	return out, left, nil
}

// News is UserMessage for a message that is to be stored. It may have so many
// parts only.
func (m Message) News(takes func(mediaType string) bool) (out llm.Message, left int, err error) {
	if m.Body != nil && len(m.Body.Parts) > maxParts {
		return out, 0, fmt.Errorf("the message %.60q has %d parts, and may have %d", m.ID,
			len(m.Body.Parts), maxParts)
	}
	return m.UserMessage(takes)
}

// part returns the part for a model, or nil if it isn't taken.
func (p Part) part(takes func(string) bool) (llm.Part, error) {
	switch p.Type {
	case "text":
		if p.Text == nil {
			return nil, errors.New("a part of type text has no text")
		}
		return llm.Text{Text: *p.Text}, nil
	case "image", "audio", "video", "document":
	default:
		return nil, nil // the protocol's next version may have it
	}
	if p.Source == nil {
		return nil, fmt.Errorf("a part of type %s has no source", p.Type)
	}
	if p.Source.Type != "data" {
		return nil, nil
	}
	data, err := base64.StdEncoding.DecodeString(p.Source.Value)
	if err != nil || len(data) == 0 || p.Source.MediaType == "" {
		return nil, fmt.Errorf("the data of a part of type %s is empty, no base64, or has no mimeType",
			p.Type)
	}
	if !takes(p.Source.MediaType) {
		return nil, nil
	}
	return llm.Media{MediaType: p.Source.MediaType, Data: data}, nil
}

func base64Of(data []byte) string { return base64.StdEncoding.EncodeToString(data) }
