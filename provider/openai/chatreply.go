package openai

import (
	"encoding/json"
	"strings"

	"github.com/fermata-ai/fermata/llm"
	"github.com/openai/openai-go/v3"
)

// What a server sends, whole or in pieces. The SDK's own types aren't used to read it: they make zero values of what doesn't
// fit, can't tell a missing index from 0 where calls are merged by it, and don't know the fields of compatible servers.
type (
	chatChunk struct {
		Object  string          `json:"object"`
		Choices []chatChoice    `json:"choices"`
		Usage   json.RawMessage `json:"usage"`
		Error   json.RawMessage `json:"error"`
	}
	chatChoice struct {
		Index        int             `json:"index"`
		Delta        chatDelta       `json:"delta"`
		Message      *chatDelta      `json:"message"` // in place of Delta, when it comes whole
		FinishReason string          `json:"finish_reason"`
		Usage        json.RawMessage `json:"usage"` // where Moonshot has it
	}
	chatDelta struct {
		Content          chatContent       `json:"content"`
		Refusal          string            `json:"refusal"`
		ReasoningContent string            `json:"reasoning_content"` // DeepSeek, SGLang, llama.cpp and others
		Reasoning        string            `json:"reasoning"`         // Ollama, OpenRouter, vLLM and others
		ReasoningDetails []json.RawMessage `json:"reasoning_details"` // OpenRouter
		ToolCalls        []chatToolCall    `json:"tool_calls"`
		FunctionCall     *chatFunction     `json:"function_call"` // the form before tool_calls
		Images           []chatImage       `json:"images"`        // OpenRouter
	}
	chatToolCall struct {
		Index    *int            `json:"index"`
		ID       string          `json:"id"`
		Type     string          `json:"type"`
		Function chatFunction    `json:"function"`
		Extra    json.RawMessage `json:"extra_content"` // Google: a signature that it wants back
	}
	chatImage struct {
		ImageURL struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	chatFunction struct {
		Name      string        `json:"name"`
		Arguments chatArguments `json:"arguments"`
	}
)

// chatReply makes events of what a server sends.
type chatReply struct {
	model     *Chat
	send      func(llm.Event) error
	reasoning chatReasoning
	calls     chatCalls
	refused   bool
	finish    string
	usage     llm.Usage
}

func newChatReply(c *Chat, tools []llm.ToolDef, send func(llm.Event) error) *chatReply {
	r := &chatReply{model: c, send: send}
	if c.options.Strict {
		r.calls.strict = map[string]json.RawMessage{}
		for _, t := range tools {
			r.calls.strict[t.Name] = t.Input
		}
	}
	return r
}

func (r *chatReply) chunk(c chatChunk) error {
	r.count(c.Usage)
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			return r.malformed("a choice of index %d, where one choice was asked for", choice.Index)
		}
		r.count(choice.Usage)
		delta := choice.Delta
		if choice.Message != nil {
			delta = *choice.Message
		}
		if err := r.delta(delta); err != nil {
			return err
		}
		if choice.FinishReason != "" {
			r.finish = choice.FinishReason
		}
	}
	return nil
}

func (r *chatReply) delta(d chatDelta) error {
	if err := r.think(d); err != nil {
		return err
	}
	for _, c := range d.Content {
		if err := r.think(chatDelta{Reasoning: c.thinking}); err != nil {
			return err
		}
		if err := r.text(c.text); err != nil {
			return err
		}
	}
	if d.Refusal != "" {
		r.refused = true
		if err := r.text(d.Refusal); err != nil {
			return err
		}
	}
	for _, i := range d.Images {
		m, err := imageAt(i.ImageURL.URL)
		if err != nil {
			return r.malformed("an image: %w", err)
		}
		if err := r.thought(); err != nil {
			return err
		}
		if err := r.send(llm.PartDone{Part: m}); err != nil {
			return err
		}
	}
	if d.FunctionCall != nil {
		before := -1 // no index of tool_calls
		d.ToolCalls = append(d.ToolCalls, chatToolCall{Index: &before, Function: *d.FunctionCall})
	}
	if len(d.ToolCalls) == 0 {
		return nil
	}
	if err := r.thought(); err != nil {
		return err
	}
	for _, entry := range d.ToolCalls {
		e, err := r.calls.add(entry)
		if err != nil {
			return r.malformed("%w", err)
		}
		if err := r.send(e); err != nil {
			return err
		}
	}
	return nil
}

func (r *chatReply) text(s string) error {
	if s == "" {
		return nil
	}
	if err := r.thought(); err != nil {
		return err
	}
	return r.send(llm.TextDelta{Text: s})
}

// end is the end of the answer, as the server marked it.
func (r *chatReply) end() error {
	if r.finish == "" {
		return r.truncated("the answer ended without a finish_reason")
	}
	if err := r.thought(); err != nil {
		return err
	}
	events, err := r.calls.end(r.model.name)
	if err != nil {
		return r.malformed("%w", err)
	}
	for _, e := range events {
		if err := r.send(e); err != nil {
			return err
		}
	}
	reason, err := r.reason()
	if err != nil {
		return err
	}
	return r.send(llm.Finish{Reason: reason, Usage: r.usage})
}

func (r *chatReply) reason() (llm.StopReason, error) {
	called := len(r.calls.all) > 0
	switch r.finish {
	case "length":
		return llm.StopLength, nil
	case "content_filter":
		return llm.StopRefusal, nil
	case "stop", "tool_calls", "function_call":
		switch {
		case called: // compatible servers say "stop", too
			return llm.StopToolCalls, nil
		case r.refused:
			return llm.StopRefusal, nil
		case r.finish == "stop":
			return llm.StopEnd, nil
		}
		return "", r.malformed("finish_reason %q, and no call", r.finish)
	case "error", "insufficient_system_resource": // OpenRouter and DeepSeek: the model broke off
		return "", &llm.Error{Kind: llm.ErrOverloaded, Provider: r.model.name, Err: errFinish(r.finish)}
	}
	return llm.StopOther, nil
}

type errFinish string

func (e errFinish) Error() string { return "the server broke off with finish_reason " + string(e) }

// count takes a usage. Servers that send it more than once send sums.
func (r *chatReply) count(raw json.RawMessage) {
	var u openai.CompletionUsage // the SDK reads it loosely, as is right here
	if len(raw) == 0 || string(raw) == "null" || json.Unmarshal(raw, &u) != nil {
		return
	}
	var more struct { // DeepSeek; Moonshot
		Hit    int `json:"prompt_cache_hit_tokens"`
		Cached int `json:"cached_tokens"`
	}
	_ = json.Unmarshal(raw, &more)
	in, out, total := int(u.PromptTokens), int(u.CompletionTokens), int(u.TotalTokens)
	r.usage = llm.Usage{
		Input:     in,
		Output:    max(out, total-in), // some servers count reasoning in the total only
		Cached:    max(int(u.PromptTokensDetails.CachedTokens), more.Hit, more.Cached),
		Reasoning: max(int(u.CompletionTokensDetails.ReasoningTokens), total-in-out, 0),
	}
}

// chatContent is text, or Mistral's list of texts and thoughts.
type chatContent []struct{ text, thinking string }

func (c *chatContent) UnmarshalJSON(data []byte) error {
	var s *string
	if data[0] != '[' {
		if err := json.Unmarshal(data, &s); err != nil || s == nil {
			return err
		}
		*c = chatContent{{text: *s}}
		return nil
	}
	var items []struct {
		Type     string      `json:"type"`
		Text     string      `json:"text"`
		Thinking chatContent `json:"thinking"`
	}
	if err := json.Unmarshal(data, &items); err != nil {
		return err
	}
	for _, i := range items {
		var thinking strings.Builder
		switch i.Type {
		case "text":
		case "thinking":
			for _, t := range i.Thinking {
				thinking.WriteString(t.text)
			}
		default:
			return errContent(i.Type)
		}
		*c = append(*c, struct{ text, thinking string }{i.Text, thinking.String()})
	}
	return nil
}

type errContent string

func (e errContent) Error() string { return "content of the unknown type " + string(e) }

// chatArguments are the text of a call's arguments. Some servers send the object itself.
type chatArguments string

func (a *chatArguments) UnmarshalJSON(data []byte) error {
	if data[0] != '"' {
		if string(data) != "null" {
			*a = chatArguments(data)
		}
		return nil
	}
	return json.Unmarshal(data, (*string)(a))
}
