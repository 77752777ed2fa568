package openai

import (
	"encoding/json"
	"fmt"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// memory is how much of its own items a model is shown again.
type memory int

const (
	everything memory = iota
	// And an item that reasoning led to has no id, since the API misses it
	// otherwise.
	noReasoning
	noNames // nor any other item
)

// input makes the API's items of a conversation.
type input struct {
	ids   wire.IDs
	how   memory
	items []responses.ResponseInputItemUnionParam
	seen  map[string]bool // the ids of the items so far
	old   bool            // the user has said something since

	// held is reasoning whose item is still to come. The API refuses reasoning
	// without the item that the model went on to make, and an item that names
	// itself without the reasoning that led to it: bare reports that this one's
	// can't be sent.
	held []json.RawMessage
	bare bool

	notices []llm.Notice // stand aside until the results before them are complete
}

func newInput(messages []llm.Message, how memory) ([]responses.ResponseInputItemUnionParam, error) {
	in := input{ids: wire.NewIDs(messages, wire.Form{Max: 64, Also: "_-"}), how: how,
		seen: map[string]bool{}}
	for i, m := range messages {
		in.old = i < wire.LastWord(messages)
		if err := in.message(m); err != nil {
			return nil, wire.Invalid(responsesName, "messages[%d]: %w", i, err)
		}
	}
	in.notify()
	if len(in.items) == 0 {
		return nil, wire.Invalid(responsesName, "the request's %d messages hold nothing to send",
			len(messages))
	}
	return in.items, nil
}

func (in *input) message(m llm.Message) error {
	switch m.Role {
	case llm.RoleUser:
		in.notify()
		return in.user(m.Parts)
	case llm.RoleAssistant:
		in.notify()
		return in.assistant(m.Parts)
	case llm.RoleTool:
		in.notices = append(in.notices, m.Notices()...)
		return in.results(m.Parts)
	}
	return fmt.Errorf("%q is no role of a message", m.Role)
}

func (in *input) user(parts []llm.Part) error {
	var list responses.ResponseInputMessageContentListParam
	for _, p := range parts {
		switch p := p.(type) {
		case llm.Text:
			raw, err := own(p.Native)
			switch {
			case err != nil:
				return err
			case raw != nil:
				list = append(list, param.Override[responses.ResponseInputContentUnionParam](raw))
			case p.Text != "":
				list = append(list, responses.ResponseInputContentParamOfInputText(p.Text))
			}
		case llm.Media:
			c, err := content(p)
			switch {
			case err != nil && in.old:
				c = responses.ResponseInputContentParamOfInputText(wire.MediaNote(p, err))
			case err != nil:
				return err
			}
			list = append(list, c)
		case llm.Opaque:
			raw, err := own(&p.Native)
			if err != nil {
				return err
			}
			if raw != nil {
				list = append(list, param.Override[responses.ResponseInputContentUnionParam](raw))
			}
		default:
			if err := wire.LeftOut(llm.RoleUser, p, in.old); err != nil {
				return err
			}
		}
	}
	in.say(list)
	return nil
}

// say adds a message of the user.
func (in *input) say(list responses.ResponseInputMessageContentListParam) {
	if len(list) > 0 {
		in.items = append(in.items, message(responses.EasyInputMessageRoleUser,
			responses.EasyInputMessageContentUnionParam{OfInputItemContentList: list}))
	}
}

// notify adds the notices that stand aside. They have the user's role: a
// developer's message counts for more, and these quote what tools wrote.
func (in *input) notify() {
	if len(in.notices) > 0 {
		in.say(responses.ResponseInputMessageContentListParam{
			responses.ResponseInputContentParamOfInputText(wire.NoticeText(in.notices...)),
		})
		in.notices = nil
	}
}

func message(role responses.EasyInputMessageRole,
	content responses.EasyInputMessageContentUnionParam) responses.ResponseInputItemUnionParam {
	return responses.ResponseInputItemUnionParam{OfMessage: &responses.EasyInputMessageParam{
		Role: role, Content: content, Type: responses.EasyInputMessageTypeMessage,
	}}
}

func (in *input) assistant(parts []llm.Part) error {
	in.held, in.bare = nil, false // reasoning that nothing follows is left out
	for _, p := range parts {
		var native *llm.Native
		switch p := p.(type) {
		case llm.Text:
			native = p.Native
		case llm.ToolCall:
			native = p.Native
		case llm.Reasoning:
			native = p.Native
		case llm.Media:
			native = p.Native
		case llm.Opaque:
			native = &p.Native
		default:
			if err := wire.LeftOut(llm.RoleAssistant, p, in.old); err != nil {
				return err
			}
			continue
		}
		raw, err := own(native)
		if err != nil {
			return err
		}
		if err := in.said(p, raw); err != nil {
			return err
		}
	}
	return nil
}

// said adds a part of the model's message. raw is the API's own form of it,
// where there is one.
func (in *input) said(p llm.Part, raw json.RawMessage) error {
	switch p := p.(type) {
	case llm.Reasoning:
		if sealed(raw) && in.how == everything {
			in.held = append(in.held, raw)
		} else if raw != nil {
			in.bare = true
		}
		return nil
	case llm.ToolCall:
		return in.call(p, raw)
	case llm.Text:
		if raw != nil && textOf(raw) != p.Text { // a layer edited it
			raw = nil
		}
		if raw == nil && p.Text != "" {
			in.add(message(responses.EasyInputMessageRoleAssistant,
				responses.EasyInputMessageContentUnionParam{OfString: openai.String(p.Text)}))
		}
	case llm.Media:
		if raw == nil {
			// The API knows no media by the assistant: the user shows it.
			c, err := content(p)
			if err != nil {
				c = responses.ResponseInputContentParamOfInputText(wire.MediaNote(p, err))
			}
			in.say(responses.ResponseInputMessageContentListParam{c})
		}
	}
	if raw != nil {
		return in.replay(raw)
	}
	return nil
}

func (in *input) call(c llm.ToolCall, raw json.RawMessage) error {
	id := in.ids.Of(c.ID)
	if raw == nil {
		in.add(responses.ResponseInputItemParamOfFunctionCall(string(wire.Arguments(c)), id,
			names.Name(c.Name)))
		return nil
	}
	quoted, err := json.Marshal(id)
	if err != nil {
		return err
	}
	if raw, err = with(raw, "call_id", quoted); err != nil {
		return err
	}
	return in.replay(raw)
}

// add adds an item of the model's, and before it the reasoning that led to it.
func (in *input) add(item responses.ResponseInputItemUnionParam) {
	for _, raw := range in.held {
		in.items = append(in.items, param.Override[responses.ResponseInputItemUnionParam](raw))
	}
	in.items = append(in.items, item)
	in.held, in.bare = nil, false
}

// replay adds an item in the API's own form: byte for byte, but for an id that
// the API would refuse. That is one that stands in the request already, and one
// that belongs to reasoning which isn't there.
func (in *input) replay(raw json.RawMessage) error {
	for i, r := range in.held {
		named, err := in.named(r, false)
		if err != nil {
			return err
		}
		in.held[i] = named
	}
	raw, err := in.named(raw, in.bare || in.how == noNames)
	if err != nil {
		return err
	}
	in.add(param.Override[responses.ResponseInputItemUnionParam](raw))
	return nil
}

// named takes the id off an item that mustn't have it.
func (in *input) named(raw json.RawMessage, bare bool) (json.RawMessage, error) {
	var item struct{ ID string }
	if err := json.Unmarshal(raw, &item); err != nil {
		return nil, fmt.Errorf("its native form: %w", err)
	}
	if item.ID == "" {
		return raw, nil
	}
	if bare || in.seen[item.ID] {
		return with(raw, "id", nil)
	}
	in.seen[item.ID] = true
	return raw, nil
}

func (in *input) results(parts []llm.Part) error {
	for _, p := range parts {
		r, ok := p.(llm.ToolResult)
		if !ok {
			if err := wire.LeftOut(llm.RoleTool, p, in.old); err != nil {
				return err
			}
			continue
		}
		item, err := in.result(r)
		if err != nil {
			return fmt.Errorf("the result of call %q: %w", r.Call, err)
		}
		in.items = append(in.items, item)
	}
	return nil
}

func (in *input) result(r llm.ToolResult) (responses.ResponseInputItemUnionParam, error) {
	const failed = true // is told in the text: the API has no other place for it
	text := wire.ResultText(r, failed)
	item := &responses.ResponseInputItemFunctionCallOutputParam{CallID: openai.String(in.ids.Of(r.Call))}
	if len(r.Media) == 0 {
		item.Output.OfString = openai.String(text)
		return responses.ResponseInputItemUnionParam{OfFunctionCallOutput: item}, nil
	}
	list := responses.ResponseFunctionCallOutputItemListParam{
		{OfInputText: &responses.ResponseInputTextContentParam{Text: text}},
	}
	for _, m := range r.Media {
		c, err := output(m)
		if err != nil { // it is for ever in the history
			c = responses.ResponseFunctionCallOutputItemUnionParam{OfInputText: &responses.ResponseInputTextContentParam{Text: wire.MediaNote(m, err)}}
		}
		list = append(list, c)
	}
	item.Output.OfResponseFunctionCallOutputItemArray = list
	return responses.ResponseInputItemUnionParam{OfFunctionCallOutput: item}, nil
}
