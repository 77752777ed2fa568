package openai

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
	"github.com/openai/openai-go/v3"
)

// chatReply makes events of what a server sends.
type chatReply struct {
	voice
	model     *Chat
	send      func(llm.Event) error
	half      wire.Halves // of the text
	reasoning chatReasoning
	calls     chatCalls
	begun     bool // the model has said something
	refused   bool
	finish    string // the finish_reason, "" where none has come
	usage     llm.Usage
}

func newChatReply(c *Chat, tools []llm.ToolDef, send func(llm.Event) error) *chatReply {
	r := &chatReply{voice: voice(c.name), model: c}
	r.send = func(e llm.Event) error {
		r.begun = true
		return send(e)
	}
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
		if delta := cmp.Or(choice.Delta, choice.Message); delta != nil {
			if err := r.delta(*delta); err != nil {
				return err
			}
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
		if c.kind == "" {
			if err := r.text(r.half.Join(c.text)); err != nil {
				return err
			}
			continue
		}
		if err := r.text(r.half.Rest()); err != nil {
			return err
		}
		if err := r.part(c); err != nil {
			return err
		}
	}
	if d.Refusal != "" {
		r.refused = true
		if err := r.text(r.half.Join(d.Refusal)); err != nil {
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
	return r.called(d)
}

// called takes the calls of a piece. Some servers send an empty one of the
// older form in each.
func (r *chatReply) called(d chatDelta) error {
	if f := d.FunctionCall; f != nil {
		before := -1 // no index of tool_calls
		if e := (chatToolCall{Function: *f}); !e.isEmpty() {
			e.Index = &before
			d.ToolCalls = append(d.ToolCalls, e)
		}
	}
	if len(d.ToolCalls) == 0 {
		return nil
	}
	if err := r.text(r.half.Rest()); err != nil {
		return err
	}
	if err := r.thought(); err != nil {
		return err
	}
	deltas, err := r.calls.add(d.ToolCalls)
	if err != nil {
		return r.malformed("%w", err)
	}
	for _, e := range deltas {
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

// end takes the end of the answer, as the server marked it. An answer that says
// neither why it ends nor anything else is none.
func (r *chatReply) end(a answer) error {
	if r.finish == "" && !(r.begun && a.isFramed()) {
		return r.truncated("the answer ended without a finish_reason")
	}
	if err := r.text(r.half.Rest()); err != nil {
		return err
	}
	if err := r.thought(); err != nil {
		return err
	}
	reason, err := r.reason()
	if err != nil {
		return err
	}
	events, err := r.calls.end(r.model.name, r.finish != "", reason)
	if err != nil {
		return r.malformed("%w", err)
	}
	for _, e := range events {
		if err := r.send(e); err != nil {
			return err
		}
	}
	return r.send(llm.Finish{Reason: reason, Word: r.finish, Usage: r.usage})
}

// reason returns why the model stopped. Services differ in the case of the
// words, and some pass on those of the one behind them.
func (r *chatReply) reason() (llm.StopReason, error) {
	word := strings.ToLower(r.finish)
	switch {
	// OpenRouter and DeepSeek: the model broke off.
	case word == "error", word == "insufficient_system_resource":
		return "", &llm.Error{Kind: llm.ErrOverloaded, Provider: r.model.name,
			Err: errFinish(r.finish)}
	case r.refused: // whatever ended it; what it calls beside that, it doesn't mean
		return llm.StopRefusal, nil
	}
	called := len(r.calls.all) > 0
	switch word {
	case "length", "max_tokens", "model_length": // Anthropic's and Google's, Mistral's
		return llm.StopLength, nil
	case "content_filter", "safety", "refusal": // Google's, Anthropic's
		return llm.StopRefusal, nil
	case "stop", "tool_calls", "function_call", "":
		switch {
		case called: // compatible servers say "stop", too
			return llm.StopToolCalls, nil
		case word == "stop", word == "":
			return llm.StopEnd, nil
		}
		return "", r.truncated("finish_reason %q, and no call: it was lost on its way", r.finish)
	}
	return llm.StopOther, nil
}

type errFinish string

func (e errFinish) Error() string { return "the server broke off with finish_reason " + string(e) }

// count takes a usage. Servers that send it more than once send sums, some of
// them with zeros for what they told before.
func (r *chatReply) count(raw json.RawMessage) {
	var u openai.CompletionUsage // the SDK reads it loosely, as is right here
	if isNull(raw) || json.Unmarshal(raw, &u) != nil {
		return
	}
	var more struct { // DeepSeek; Moonshot; LiteLLM
		Hit     int `json:"prompt_cache_hit_tokens"`
		Cached  int `json:"cached_tokens"`
		Written int `json:"cache_creation_input_tokens"`
	}
	_ = json.Unmarshal(raw, &more)
	in, out, total := int(u.PromptTokens), int(u.CompletionTokens), int(u.TotalTokens)
	read, made := u.PromptTokensDetails, u.CompletionTokensDetails
	r.usage = llm.Usage{
		Input: max(r.usage.Input, in),
		// Some servers count reasoning in the total only.
		Output:    max(r.usage.Output, out, total-in),
		Cached:    max(r.usage.Cached, int(read.CachedTokens), more.Hit, more.Cached),
		Written:   max(r.usage.Written, int(read.CacheWriteTokens), more.Written),
		Reasoning: max(r.usage.Reasoning, int(made.ReasoningTokens), total-in-out),
		Predicted: max(r.usage.Predicted, int(made.AcceptedPredictionTokens+made.RejectedPredictionTokens)),
	}
}
