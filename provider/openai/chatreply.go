package openai

import (
	"encoding/json"

	"github.com/fermata-ai/fermata/llm"
	"github.com/openai/openai-go/v3"
)

// chatReply makes events of what a server sends.
type chatReply struct {
	model     *Chat
	send      func(llm.Event) error
	half      chatHalf // of the text
	reasoning chatReasoning
	calls     chatCalls
	refused   bool
	finish    string
	usage     llm.Usage
}

func newChatReply(c *Chat, tools []llm.ToolDef, send func(llm.Event) error) *chatReply {
	r := &chatReply{model: c, send: send}
	if c.options.Strict {
		r.calls.strict = schemas(tools)
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
		if err := r.text(r.half.join(c.text)); err != nil {
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
	if err := r.text(r.half.rest()); err != nil {
		return err
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
	if err := r.text(r.half.rest()); err != nil {
		return err
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
		case r.refused: // what it calls beside that, it doesn't mean
			return llm.StopRefusal, nil
		case called: // compatible servers say "stop", too
			return llm.StopToolCalls, nil
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
