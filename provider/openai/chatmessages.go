package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
)

// chatMessages writes a conversation as the API wants it.
type chatMessages struct {
	model *Chat
	ids   wire.IDs
	all   []openai.ChatCompletionMessageParamUnion
	// later is media of results and of the model's own. The API takes it from a
	// user only, and nothing may stand between calls and their results: it goes
	// into a user's message after them.
	later []openai.ChatCompletionContentPartUnionParam
	// notices go there, too. A system's message is refused by many servers
	// but at the beginning, and counts for more than what tools wrote should.
	notices []llm.Notice
}

func (c *Chat) messages(r llm.Request) ([]openai.ChatCompletionMessageParamUnion, error) {
	w := &chatMessages{model: c, ids: wire.NewIDs(r.Messages, c.callIDs())}
	switch {
	case r.System == "":
	case c.options.Chat.SystemRole == "developer":
		w.all = append(w.all, openai.DeveloperMessage(r.System))
	default:
		w.all = append(w.all, openai.SystemMessage(r.System))
	}
	for i, m := range r.Messages {
		var err error
		switch m.Role {
		case llm.RoleUser:
			err = w.user(m, i < wire.LastWord(r.Messages))
		case llm.RoleAssistant:
			err = w.assistant(m)
		case llm.RoleTool:
			err = w.tool(m)
		default:
			err = fmt.Errorf("the role %q is unknown", m.Role)
		}
		if err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
	}
	w.flush()
	return w.all, nil
}

// callIDs returns the ids that the server takes.
func (c *Chat) callIDs() wire.Form {
	switch {
	case c.options.Chat.CallIDs != wire.Form{}:
		return c.options.Chat.CallIDs
	case c.at.openai:
		return wire.Form{Max: 40, Also: "_-"}
	case c.isMistral():
		return wire.Form{Min: 9, Max: 9}
	}
	return wire.Form{Max: 64, Also: "_-.:"} // vLLM's are longer, Kimi's are like functions.name:0
}

func (c *Chat) isMistral() bool { return wire.InDomain(c.at.base, "mistral.ai") }

// user writes a message of the user's. old reports that there is a later one.
func (w *chatMessages) user(m llm.Message, old bool) error {
	w.flush()
	var texts []string
	var parts []openai.ChatCompletionContentPartUnionParam
	for _, p := range m.Parts {
		switch p := p.(type) {
		case llm.Text:
			switch own := w.own(p.Native); {
			case own != nil:
				parts = append(parts, raw[openai.ChatCompletionContentPartUnionParam](own))
			case p.Text != "":
				texts, parts = append(texts, p.Text), append(parts, openai.TextContentPart(p.Text))
			}
		case llm.Media:
			part, err := w.media(p)
			switch {
			case err != nil && old:
				part = openai.TextContentPart(wire.MediaNote(p, err))
			case err != nil:
				return err
			}
			parts = append(parts, part)
		case llm.Opaque:
			if own := w.own(&p.Native); own != nil {
				parts = append(parts, raw[openai.ChatCompletionContentPartUnionParam](own))
			}
		default:
			if err := wire.LeftOut(m.Role, p, old); err != nil {
				return err
			}
		}
	}
	switch {
	case len(parts) == 0:
	case len(texts) == len(parts) && (len(texts) == 1 || !w.model.at.openai):
		w.say(openai.UserMessage(w.join(texts)))
	default:
		w.say(openai.UserMessage(parts))
	}
	return nil
}

func (w *chatMessages) assistant(m llm.Message) error {
	w.flush()
	var out openai.ChatCompletionAssistantMessageParam
	var said chatSaid
	fields := map[string]json.RawMessage{}
	for _, p := range m.Parts {
		var err error
		switch p := p.(type) {
		case llm.Text:
			err = said.text(p.Text)
		case llm.Reasoning:
			err = said.thought(fields, w.own(p.Native), w.model.isMistral())
		case llm.Opaque:
			err = said.native(fields, w.own(&p.Native))
		case llm.ToolCall:
			var call openai.ChatCompletionMessageToolCallUnionParam
			call, err = w.call(p)
			out.ToolCalls = append(out.ToolCalls, call)
		case llm.Media:
			w.show("Media of the assistant's message above:", []llm.Media{p})
		default:
			err = wire.LeftOut(m.Role, p, true)
		}
		if err != nil {
			return err
		}
	}
	texts := said.texts
	switch {
	case said.needsList(len(out.ToolCalls) > 0):
		list, err := wire.Encode(said.list)
		if err != nil {
			return err
		}
		fields["content"] = list
	case len(texts) == 1 || len(texts) > 1 && !w.model.at.openai:
		out.Content.OfString = openai.String(w.join(texts))
	case len(texts) > 1:
		for _, t := range texts {
			out.Content.OfArrayOfContentParts = append(out.Content.OfArrayOfContentParts,
				openai.ChatCompletionAssistantMessageParamContentArrayOfContentPartUnion{OfText: &openai.ChatCompletionContentPartTextParam{Text: t}})
		}
	case len(out.ToolCalls) > 0: // as the API itself writes it; some servers want the member
		out.Content = param.NullStruct[openai.ChatCompletionAssistantMessageParamContentUnion]()
	default:
		// It said nothing, or the limit cut it off while it thought: many
		// servers refuse an empty message.
		return nil
	}
	if len(fields) > 0 {
		out.SetExtraFields(extraFields(fields))
	}
	w.all = append(w.all, openai.ChatCompletionMessageParamUnion{OfAssistant: &out})
	return nil
}

func (w *chatMessages) call(c llm.ToolCall) (openai.ChatCompletionMessageToolCallUnionParam,
	error) {
	out := openai.ChatCompletionMessageFunctionToolCallParam{ID: w.ids.Of(c.ID)}
	out.Function.Name, out.Function.Arguments = cmp.Or(c.Name, "unnamed"), string(wire.Arguments(c))
	if w.model.at.openai {
		out.Function.Name = names.Name(c.Name)
	}
	var fields map[string]json.RawMessage
	if native := w.own(c.Native); native != nil {
		if err := json.Unmarshal(native, &fields); err != nil {
			return openai.ChatCompletionMessageToolCallUnionParam{},
				fmt.Errorf("the native form of a call is no JSON object: %w", err)
		}
	}
	if len(fields) > 0 {
		out.SetExtraFields(extraFields(fields))
	}
	return openai.ChatCompletionMessageToolCallUnionParam{OfFunction: &out}, nil
}

func (w *chatMessages) tool(m llm.Message) error {
	w.notices = append(w.notices, m.Notices()...)
	for _, p := range m.Parts {
		switch p := p.(type) {
		case llm.ToolResult:
			id := w.ids.Of(p.Call)
			w.all = append(w.all, openai.ToolMessage(wire.ResultText(p, true), id))
			w.show(fmt.Sprintf("Media of the result of call %s (%s):", id, p.Name), p.Media)
		default:
			if err := wire.LeftOut(m.Role, p, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// show puts media aside, to be sent when the results of all calls are.
func (w *chatMessages) show(title string, media []llm.Media) {
	if len(media) == 0 {
		return
	}
	w.later = append(w.later, openai.TextContentPart(title))
	for _, m := range media {
		part, err := w.media(m)
		if err != nil { // it is for ever in the history
			part = openai.TextContentPart(wire.MediaNote(m, err))
		}
		w.later = append(w.later, part)
	}
}

// flush sends what stands aside.
func (w *chatMessages) flush() {
	text := wire.NoticeText(w.notices...)
	switch {
	case len(w.later) > 0 && text != "":
		w.say(openai.UserMessage(append(w.later, openai.TextContentPart(text))))
	case len(w.later) > 0:
		w.say(openai.UserMessage(w.later))
	case text != "":
		w.say(openai.UserMessage(text))
	}
	w.later, w.notices = nil, nil
}

// bridge stands between results and a message with the user's role, for servers
// that let only the assistant speak after results.
const bridge = "(The results are there. What follows is not the assistant's.)"

// say adds a message with the user's role.
func (w *chatMessages) say(m openai.ChatCompletionMessageParamUnion) {
	bridged := w.model.options.Chat.Bridge || w.model.isMistral()
	if n := len(w.all); bridged && n > 0 && w.all[n-1].OfTool != nil {
		w.all = append(w.all, openai.AssistantMessage(bridge))
	}
	w.all = append(w.all, m)
}

// own returns the data of a native form, if it is this server's.
func (w *chatMessages) own(n *llm.Native) json.RawMessage {
	if n == nil || n.Provider != w.model.name {
		return nil
	}
	return n.Data
}

// join makes one string of several texts, for compatible servers, many of which
// take no list of them.
func (w *chatMessages) join(texts []string) string { return strings.Join(texts, "\n\n") }

// merge adds members to a message's. A message may have reasoning in several
// places, but has one place for it: texts and lists are joined.
func merge(fields, more map[string]json.RawMessage) error {
	for name, value := range more {
		before, ok := fields[name]
		if !ok {
			fields[name] = value
			continue
		}
		var err error
		if value[0] == '"' && before[0] == '"' {
			var a, b string
			_, _ = json.Unmarshal(before, &a), json.Unmarshal(value, &b)
			fields[name], err = wire.Encode(a + b)
		} else if value[0] == '[' && before[0] == '[' {
			var a, b []json.RawMessage
			_, _ = json.Unmarshal(before, &a), json.Unmarshal(value, &b)
			fields[name], err = wire.Encode(append(a, b...))
		} else if !bytes.Equal(before, value) {
			err = fmt.Errorf("two native forms have different %s", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
