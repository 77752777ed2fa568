package gemini

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
	"google.golang.org/genai"
)

// add translates a message. The error says what in it is wrong.
func (c *conversation) add(m llm.Message) error {
	switch m.Role {
	case llm.RoleTool:
		c.notices = append(c.notices, m.Notices()...)
		return c.results(m)
	case llm.RoleUser, llm.RoleAssistant:
	default:
		return fmt.Errorf("the role is %q", m.Role)
	}
	if err := c.notify(); err != nil {
		return err
	}
	var parts []json.RawMessage
	place := 0
	for i, p := range m.Parts {
		var raw json.RawMessage
		var err error
		switch p := p.(type) {
		case llm.Text:
			raw, err = text(p)
		case llm.Media:
			if raw, err = media(p); err != nil && (c.old || m.Role == llm.RoleAssistant) {
				raw, err = noted(p, err)
			}
		case llm.Reasoning:
			raw, err = own(p.Native)
		case llm.Opaque:
			raw, err = own(&p.Native)
		case llm.ToolCall:
			if m.Role != llm.RoleAssistant {
				err = errors.New("a tool call stands in an assistant's message alone")
				break
			}
			raw, err = c.call(p, place)
			place++
		default:
			err = wire.LeftOut(m.Role, p, c.old)
		}
		if err != nil {
			return fmt.Errorf("parts[%d]: %w", i, err)
		}
		if raw != nil {
			parts = append(parts, raw)
		}
	}
	if m.Role == llm.RoleAssistant {
		c.push(genai.RoleModel, parts)
		return nil
	}
	if len(parts) > 0 {
		c.turn = len(c.all)
	}
	c.push(genai.RoleUser, parts)
	return nil
}

// own returns a part in the form that Gemini gave it, nil where there is none.
func own(n *llm.Native) (json.RawMessage, error) {
	if n == nil || n.Provider != provider {
		return nil, nil
	}
	if membersOf(n.Data) == nil {
		return nil, fmt.Errorf("its native form is no JSON object: %.80q", n.Data)
	}
	return n.Data, nil
}

func text(t llm.Text) (json.RawMessage, error) {
	raw, err := own(t.Native)
	var p part
	// Or else a layer edited it.
	if raw != nil && json.Unmarshal(raw, &p) == nil && (p.Text == nil || *p.Text == t.Text) {
		return raw, nil
	}
	if err != nil || t.Text == "" { // the API takes no empty text
		return nil, err
	}
	return json.Marshal(part{Text: &t.Text})
}

// media is inline, or where a URL leads: to Gemini's Files API, YouTube, or a
// public address. Names aren't sent: the API has no place for them outside of
// its own tools.
func media(p llm.Media) (json.RawMessage, error) {
	if raw, err := own(p.Native); raw != nil || err != nil {
		return raw, err
	}
	p, err := wire.Media(p)
	if err != nil {
		return nil, err
	}
	if len(p.Data) > 0 {
		return inline(p.MediaType, p.Data)
	}
	return json.Marshal(part{FileData: &genai.FileData{MIMEType: p.MediaType, FileURI: p.URL}})
}

// inline is media by its bytes, of a type that the API takes: it refuses a
// request with another kind of image, or of text.
func inline(kind string, data []byte) (json.RawMessage, error) {
	main, sub, _ := strings.Cut(kind, "/")
	switch {
	case main == "image" && !slices.Contains([]string{"png", "jpeg", "webp", "heic", "heif"}, sub):
		return nil, fmt.Errorf("media of type %s: the API takes PNG, JPEG, WebP, HEIC and HEIF",
			kind)
	case slices.Contains([]string{"json", "xml", "yaml"}, sub) && main == "application",
		strings.HasSuffix(sub, "+json"), strings.HasSuffix(sub, "+xml"):
		kind = "text/plain"
	}
	return json.Marshal(part{InlineData: &genai.Blob{MIMEType: kind, Data: data}})
}

// noted returns a text in place of media.
func noted(p llm.Media, why error) (json.RawMessage, error) {
	note := wire.MediaNote(p, why)
	return json.Marshal(part{Text: &note})
}

// call translates a call. An id that the model didn't give isn't made up: the
// API goes by order and name then.
func (c *conversation) call(t llm.ToolCall, place int) (json.RawMessage, error) {
	raw, err := own(t.Native)
	if err != nil {
		return nil, err
	}
	var p part
	if raw != nil && json.Unmarshal(raw, &p) == nil && p.FunctionCall != nil &&
		membersOf(membersOf(raw)["functionCall"]) != nil {
		name := cmp.Or(p.FunctionCall.Name, names.Name(t.Name))
		c.calls[t.ID] = call{p.FunctionCall.ID, name, place}
		return edited(raw, p.FunctionCall, name, t)
	}
	id := ""
	if t.ProviderID != "" {
		id = c.ids.Of(t.ID)
	}
	name := names.Name(t.Name)
	c.calls[t.ID] = call{id, name, place}
	return json.Marshal(part{FunctionCall: &functionCall{ID: id, Name: name,
		Args: wire.Arguments(t)}})
}

// edited returns a call as Gemini made it, other than a name that it left out,
// and arguments that a layer changed since.
func edited(raw json.RawMessage, f *functionCall, name string, t llm.ToolCall) (json.RawMessage,
	error) {
	args, _ := llm.Arguments(f.Args) // as the collector has them
	same := len(t.Arguments) == 0 || bytes.Equal(args, t.Arguments)
	if f.Name == name && same {
		return raw, nil
	}
	whole, err := wire.ParseObject(raw)
	if err != nil {
		return nil, err
	}
	inner, err := wire.ParseObject(whole.Get("functionCall"))
	if err != nil {
		return nil, err
	}
	inner.SetText("name", name)
	if !same {
		inner.Set("args", wire.Arguments(t))
	}
	whole.Set("functionCall", inner.JSON())
	return whole.JSON(), nil
}

// results translates a message of results: all those of one message of calls
// stand in one content, in the order of the calls.
func (c *conversation) results(m llm.Message) error {
	results := make([]llm.ToolResult, 0, len(m.Parts))
	for i, p := range m.Parts {
		if r, ok := p.(llm.ToolResult); ok {
			results = append(results, r)
		} else if err := wire.LeftOut(m.Role, p, c.old); err != nil {
			return fmt.Errorf("parts[%d]: %w", i, err)
		}
	}
	slices.SortStableFunc(results, func(a, b llm.ToolResult) int { return c.calls[a.Call].place - c.calls[b.Call].place })
	var parts []json.RawMessage
	for _, r := range results {
		raw, err := c.resultParts(r)
		if err != nil {
			return fmt.Errorf("result of call %q: %w", r.Call, err)
		}
		parts = append(parts, raw...)
	}
	// The message before was of results, too.
	if last := len(c.all) - 1; c.result && len(parts) > 0 {
		c.all[last].Parts = append(c.all[last].Parts, parts...)
		return nil
	}
	c.push(genai.RoleUser, parts)
	c.result = len(parts) > 0
	return nil
}

// notify adds the notices that stand aside, in a content of their own: some
// models refuse text beside results.
func (c *conversation) notify() error {
	if len(c.notices) == 0 {
		return nil
	}
	text := wire.NoticeText(c.notices...)
	raw, err := json.Marshal(part{Text: &text})
	c.notices = nil
	c.push(genai.RoleUser, []json.RawMessage{raw})
	return err
}

// resultParts returns a result, and after it the media that it can't hold
// itself.
func (c *conversation) resultParts(r llm.ToolResult) ([]json.RawMessage, error) {
	known, ok := c.calls[r.Call]
	if !ok {
		known = call{name: names.Name(r.Name)}
	}
	response, err := response(r)
	if err != nil {
		return nil, err
	}
	result := &functionResult{ID: known.id, Name: known.name, Response: response}
	var after []json.RawMessage
	for _, p := range r.Media {
		if b := c.model.inResult(p); b != nil {
			result.Parts = append(result.Parts, part{InlineData: b})
			continue
		}
		raw, err := media(p)
		if err != nil { // it is for ever in the history
			if raw, err = noted(p, err); err != nil {
				return nil, err
			}
		}
		after = append(after, raw)
	}
	raw, err := json.Marshal(part{FunctionResponse: result})
	if err != nil {
		return nil, err
	}
	return append([]json.RawMessage{raw}, after...), nil
}

// response returns a result's object: "output" and "error" are the names that
// the API documents.
func response(r llm.ToolResult) (json.RawMessage, error) {
	output := r.Output
	switch {
	case len(output) == 0:
		output = json.RawMessage("null")
	case !json.Valid(output):
		return nil, fmt.Errorf("its output is no JSON: %.80q", output)
	case hasRef(output):
		// The API takes a member "$ref" for a reference to one of the result's
		// media, and refuses what leads nowhere. The model reads the same from
		// a text.
		output, _ = json.Marshal(wire.ResultText(r, false))
	}
	if r.Error {
		return json.Marshal(map[string]json.RawMessage{"error": output})
	}
	return json.Marshal(map[string]json.RawMessage{"output": output})
}

// hasRef finds a member "$ref", at any depth.
func hasRef(value json.RawMessage) bool {
	if !strings.Contains(string(value), "ref") { // most have none, escaped or not
		return false
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber() // no float64 is as large as 1e400
	if d.Decode(&v) != nil {
		return false
	}
	var find func(v any) bool
	find = func(v any) bool {
		switch v := v.(type) {
		case map[string]any:
			for key, inner := range v {
				if key == "$ref" || find(inner) {
					return true
				}
			}
		case []any:
			return slices.ContainsFunc(v, find)
		}
		return false
	}
	return find(v)
}
