package gemini

import (
	"encoding/json"
	"math"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
	"google.golang.org/genai"
)

// config returns a request in the SDK's form. What the SDK would decode and
// encode anew, and so change, is put in at its end, as JSON.
func (m *Model) config(req llm.Request) (*genai.GenerateContentConfig, error) {
	if err := wire.CheckRequest(req); err != nil {
		return nil, wire.Invalid(provider, "%w", err)
	}
	contents, err := m.contents(req.Messages)
	if err != nil {
		return nil, err
	}
	tools, err := declarations(req.Tools)
	if err != nil {
		return nil, err
	}
	schema, err := responseSchema(req.ResponseFormat)
	if err != nil {
		return nil, err
	}
	if n := req.Limits.OutputTokens; n > math.MaxInt32 {
		return nil, wire.Invalid(provider, "Request.Limits.OutputTokens is %d: the API takes %d at most", n, math.MaxInt32)
	}
	c := &genai.GenerateContentConfig{
		MaxOutputTokens: int32(req.Limits.OutputTokens),
		ThinkingConfig:  m.options.Thinking.config(),
		ToolConfig:      toolConfig(req),
		// The API continues no reply for us: what the limit cuts off is told.
		AutomaticContinuation: genai.Ptr(false),
	}
	if req.System != "" {
		c.SystemInstruction = genai.NewContentFromText(req.System, "")
	}
	if schema != nil {
		c.ResponseMIMEType = "application/json"
	}
	c.HTTPOptions = &genai.HTTPOptions{ExtrasRequestProvider: func(body map[string]any) map[string]any {
		body["contents"] = contents
		if tools != nil {
			body["tools"] = tools
		}
		generation, _ := body["generationConfig"].(map[string]any)
		switch {
		case schema != nil:
			generation["responseJsonSchema"] = schema
		case len(generation) == 0:
			delete(body, "generationConfig")
		}
		return body
	}}
	return c, nil
}

// content is one turn of the conversation. Roles are "user", for people and
// tools, and "model".
type content struct {
	Role  string            `json:"role"`
	Parts []json.RawMessage `json:"parts"`
}

// conversation puts contents together, message by message.
type conversation struct {
	model  *Model
	ids    wire.IDs
	calls  map[string]call // by fermata's id
	turn   int             // where the user's last word stands, in contents
	result bool            // the last content holds results
	old    bool            // the user has said something since
	// notices stand aside until the results before them are complete.
	notices []llm.Notice
	all     []content
}

// call is what a result has to know of its call.
type call struct {
	id, name string // on the wire; the id may be empty
	place    int    // among the calls of its message
}

func (m *Model) contents(messages []llm.Message) (json.RawMessage, error) {
	// Ids are Gemini's own to choose; nothing is documented of their form.
	// Those of other providers have this one.
	c := &conversation{model: m, ids: wire.NewIDs(messages, wire.Form{Max: 64, Also: "_-"}),
		calls: map[string]call{}}
	for i, msg := range messages {
		c.old = i < wire.LastWord(messages)
		if err := c.add(msg); err != nil {
			return nil, wire.Invalid(provider, "messages[%d]: %w", i, err)
		}
	}
	if err := c.notify(); err != nil {
		return nil, err
	}
	if len(c.all) == 0 {
		return nil, wire.Invalid(provider, "the request has no message with anything in it: the API wants one")
	}
	if m.wantsSignatures() {
		for i := c.turn; i < len(c.all); i++ {
			if c.all[i].Role == genai.RoleModel {
				sign(c.all[i].Parts)
			}
		}
	}
	return json.Marshal(c.all)
}

// push adds parts to the conversation. The API takes no content of nothing; and
// a call must follow the user's word or a result, so that what the model said
// in two messages, one after the other, is one content.
func (c *conversation) push(role string, parts []json.RawMessage) {
	if len(parts) == 0 {
		return
	}
	if last := len(c.all) - 1; role == genai.RoleModel && last >= 0 && c.all[last].Role == role {
		c.all[last].Parts = append(c.all[last].Parts, parts...)
		return
	}
	c.all = append(c.all, content{role, parts})
	c.result = false
}
