package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// turn is a message of the API's: one or more of ours, since the roles
// alternate there, and results and notices are the user's.
type turn struct {
	role    llm.Role
	old     bool    // the user has said something since
	results []block // the API wants them first
	blocks  []block
}

func (t *turn) assistant() bool { return t.role == llm.RoleAssistant }

// block is a piece of a message of the API's.
type block struct {
	sdk.ContentBlockParamUnion
	thinking bool
}

// opening stands before a history that begins with the assistant, which the API
// doesn't take.
const opening = "(The conversation begins with the assistant.)"

// callIDs is the form that the API takes as the id of a tool's use.
var callIDs = wire.Form{Max: 64, Also: "_-"}

// conversation puts messages in the API's form.
func conversation(messages []llm.Message) ([]*turn, error) {
	var turns []*turn
	ids := wire.NewIDs(messages, callIDs)
	answered := serverResults(messages)
	for i, m := range messages {
		t := &turn{role: m.Role, old: i < wire.LastWord(messages)}
		switch m.Role {
		case llm.RoleUser, llm.RoleAssistant, llm.RoleTool:
		default:
			return nil, invalid("messages[%d]: %q is no role of a message", i, m.Role)
		}
		for j, p := range m.Parts {
			if len(m.ToolCalls()) == 0 && isPending(p, answered) {
				continue
			}
			if err := t.add(p, ids); err != nil {
				return nil, invalid("messages[%d] parts[%d]: %w", i, j, err)
			}
		}
		if notices := m.Notices(); len(notices) > 0 {
			t.blocks = append(t.blocks, text(wire.NoticeText(notices...)))
		}
		turns = join(turns, t)
	}
	if len(turns) == 0 {
		return nil, invalid("there are no messages with anything in them: the API needs one of the user's")
	}
	if turns[0].assistant() {
		turns = append([]*turn{{blocks: []block{text(opening)}}}, turns...)
	}
	last := turns[len(turns)-1]
	// A beginning for the model to go on from: the API takes no white space at
	// its end.
	if last.assistant() {
		if t := last.blocks[len(last.blocks)-1].OfText; t != nil {
			t.Text = strings.TrimRightFunc(t.Text, unicode.IsSpace)
		}
	}
	return turns, nil
}

// serverBlock is what ties the use of a tool of the API's own to its result.
type serverBlock struct {
	Type string
	ID   string
	Use  string `json:"tool_use_id"`
}

func serverBlockOf(p llm.Part) (b serverBlock) {
	if o, ok := p.(llm.Opaque); ok && own(&o.Native) {
		_ = json.Unmarshal(o.Native.Data, &b) // replay says what is wrong with it
	}
	return b
}

// serverResults names the uses of the API's own tools that have a result.
func serverResults(messages []llm.Message) map[string]bool {
	answered := map[string]bool{}
	for _, m := range messages {
		for _, p := range m.Parts {
			if b := serverBlockOf(p); b.Use != "" {
				answered[b.Use] = true
			}
		}
	}
	return answered
}

// isPending reports whether the API's own tool was used and has come to
// nothing, since the message was cut off before, or paused too often. The API
// refuses a history with such, unless the model's code waits for calls beside
// it.
func isPending(p llm.Part, answered map[string]bool) bool {
	b := serverBlockOf(p)
	return (b.Type == "server_tool_use" || b.Type == "mcp_tool_use") && !answered[b.ID]
}

// join adds a turn. One that is empty is none, and one of the same role as the
// one before is a part of that.
func join(turns []*turn, t *turn) []*turn {
	if t.assistant() {
		// Thinking that nothing followed, since the limit of tokens cut it off,
		// can't stand at the end of a message.
		for n := len(t.blocks); n > 0 && t.blocks[n-1].thinking; n-- {
			t.blocks = t.blocks[:n-1]
		}
	}
	if len(t.results)+len(t.blocks) == 0 {
		return turns
	}
	if n := len(turns); n > 0 && turns[n-1].assistant() == t.assistant() {
		turns[n-1].results = append(turns[n-1].results, t.results...)
		turns[n-1].blocks = append(turns[n-1].blocks, t.blocks...)
		return turns
	}
	return append(turns, t)
}

func (t *turn) param() sdk.MessageParam {
	blocks := make([]sdk.ContentBlockParamUnion, 0, len(t.results)+len(t.blocks))
	for _, b := range append(t.results[:len(t.results):len(t.results)], t.blocks...) {
		blocks = append(blocks, b.ContentBlockParamUnion)
	}
	if t.assistant() {
		return sdk.NewAssistantMessage(blocks...)
	}
	return sdk.NewUserMessage(blocks...)
}

// add puts a part into the turn. Parts of other providers that say nothing in
// neutral form are left out.
func (t *turn) add(p llm.Part, ids wire.IDs) error {
	switch p := p.(type) {
	case llm.Text:
		switch {
		case isBlank(p.Text): // the API takes none
		case own(p.Native) && !edited(p):
			return t.replay(*p.Native)
		default:
			t.blocks = append(t.blocks, text(p.Text))
		}
	case llm.Reasoning:
		if own(p.Native) { // without its signature the API takes none
			return t.replay(*p.Native)
		}
	case llm.ToolCall:
		if !t.assistant() {
			return fmt.Errorf("a tool call, in a message that isn't the assistant's")
		}
		b, err := toolUse(p, ids.Of(p.ID))
		if err != nil {
			return err
		}
		t.blocks = append(t.blocks, b)
	case llm.ToolResult:
		if t.assistant() {
			return fmt.Errorf("a tool result, in a message of the assistant's")
		}
		b, err := toolResult(p, ids.Of(p.Call))
		if err != nil {
			return err
		}
		t.results = append(t.results, b)
	case llm.Media:
		if own(p.Native) {
			return t.replay(*p.Native)
		}
		b, err := t.media(p)
		if err != nil {
			return err
		}
		t.blocks = append(t.blocks, b)
	case llm.Opaque:
		if own(&p.Native) {
			return t.replay(p.Native)
		}
	default:
		return wire.LeftOut(t.role, p, t.old)
	}
	return nil
}

// edited reports whether a layer or the user changed a text since the API sent
// it.
func edited(p llm.Text) bool {
	var was struct{ Text *string }
	return json.Unmarshal(p.Native.Data, &was) == nil && was.Text != nil && *was.Text != p.Text
}

func own(n *llm.Native) bool { return n != nil && n.Provider == provider }

// replay adds a block as the API once sent it.
func (t *turn) replay(n llm.Native) error {
	var head struct{ Type string }
	if err := json.Unmarshal(n.Data, &head); err != nil || head.Type == "" {
		return fmt.Errorf(`the native form is no block of the API's, which would be an object with a "type": %.80q`, n.Data)
	}
	t.blocks = append(t.blocks, block{
		param.Override[sdk.ContentBlockParamUnion](n.Data),
		head.Type == "thinking" || head.Type == "redacted_thinking",
	})
	return nil
}

func text(s string) block { return block{ContentBlockParamUnion: sdk.NewTextBlock(s)} }

func isBlank(s string) bool { return strings.TrimSpace(s) == "" }
