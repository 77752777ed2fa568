package openai

import (
	"encoding/json"
	"strings"

	"github.com/openai/openai-go/v3/responses"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// reply makes events of what the API sends of one response.
//
// A response is a list of items: messages, reasoning, calls, and what tools of
// OpenAI's own did. An item begins, comes in deltas, and then comes again
// whole. See responsesfind.go for how items are told apart.
type reply struct {
	voice
	model *Responses
	yield func(llm.Event, error) bool
	over  bool    // the end has come, or the caller listens no more
	items []*item // in the order in which they began
	// Those not passed on to their end, the first of which is being passed on.
	waiting []*item
	// Of the tools whose arguments may hold nulls that they don't take.
	schemas map[string]json.RawMessage
	calls   bool
	refusal bool // the model has refused, in a piece or in the end of an item
}

func newReply(m *Responses, yield func(llm.Event, error) bool) *reply {
	return &reply{voice: responsesName, model: m, yield: yield}
}

// take takes an event.
func (r *reply) take(a answer, e responsesEvent) error {
	switch e.Type {
	case "response.output_item.added":
		return r.begin(e)
	case "response.output_item.done":
		it, err := r.find(e, e.Item.Type, e.Item.ID, e.Item.CallID)
		if err != nil {
			return err
		}
		return r.done(it, e.Item)
	case "response.output_text.delta":
		return r.delta(e, "message", e.ContentIndex, "")
	case "response.refusal.delta":
		r.refusal = r.refusal || word(e.Delta) != ""
		return r.delta(e, "message", e.ContentIndex, "")
	case "response.refusal.done":
		r.refusal = r.refusal || word(e.Refusal) != ""
	case "response.reasoning_summary_text.delta":
		return r.delta(e, "reasoning", e.SummaryIndex, paragraph)
	case "response.reasoning_text.delta":
		return r.delta(e, "reasoning", e.ContentIndex, paragraph)
	case "response.function_call_arguments.delta":
		return r.delta(e, "function_call", 0, "")
	case "response.completed", "response.incomplete", "response.failed":
		return r.end(a, responses.ResponseStatus(e.Type[len("response."):]), e.Response)
	}
	return nil
}

// add begins an item.
func (r *reply) add(place int64, raw responses.ResponseOutputItemUnion) (*item, error) {
	if raw.Type == "" {
		return nil, r.malformed("output[%d] is of no type: %.80s", place, raw.RawJSON())
	}
	it := &item{place: place, order: len(r.items), kind: raw.Type, own: raw.ID}
	r.items = append(r.items, it)
	r.waiting = append(r.waiting, it)
	if it.kind == "function_call" {
		r.calls = true
		it.name, it.id = raw.Name, raw.CallID
		r.send(it, llm.ToolCallDelta{Index: it.order, ProviderID: raw.CallID, Name: raw.Name})
		r.more(it, arguments(raw))
	}
	return it, nil
}

// delta takes more of an item's text or arguments. between stands between two
// parts of the item.
func (r *reply) delta(e responsesEvent, kind string, part int64, between string) error {
	it, err := r.find(e, kind, e.ItemID, "")
	if err != nil {
		return err
	}
	var p wire.Piece
	if err := json.Unmarshal(e.Delta, &p); len(e.Delta) > 0 && err != nil {
		return r.malformed("%s: %w", e.Type, err)
	}
	if part != it.part {
		r.more(it, it.half.Rest())
		if it.text.Len() > 0 {
			r.more(it, between)
		}
	}
	it.part = part
	r.more(it, it.half.Join(p))
	return nil
}

// more takes more of an item's text, and passes it on, or of its arguments.
// Those are held back: they may come otherwise with the end of the item, which
// counts.
func (r *reply) more(it *item, s string) {
	if s == "" {
		return
	}
	it.text.WriteString(s)
	switch it.kind {
	case "message":
		r.send(it, llm.TextDelta{Text: s})
	case "reasoning":
		r.send(it, llm.ReasoningDelta{Text: s})
	}
}

// send passes on an event of an item, when those before it are done: a part
// that comes whole takes the place of the one that is being written.
func (r *reply) send(it *item, e llm.Event) {
	if r.waiting[0] == it {
		r.emit(e)
	} else {
		it.held = append(it.held, e)
	}
}

// next passes on what was held back by an item that is done.
func (r *reply) next() {
	for len(r.waiting) > 0 && r.waiting[0].done {
		if r.waiting = r.waiting[1:]; len(r.waiting) == 0 {
			return
		}
		it := r.waiting[0]
		for _, e := range it.held {
			r.emit(e)
		}
		it.held = nil
	}
}

func (r *reply) emit(e llm.Event) {
	if !r.over && !r.yield(e, nil) {
		r.over = true
	}
}

// end takes the response as it is at its end. status is what the event says, or
// the response itself.
func (r *reply) end(a answer, status responses.ResponseStatus, response responses.Response) error {
	switch status {
	case "completed", "incomplete":
	case "failed":
		return gaveUp(a, response)
	case "queued", "in_progress":
		return r.truncated("the response is %s, which is no end", status)
	default:
		if response.Error.Message != "" {
			return gaveUp(a, response)
		}
		return r.malformed("the response ends with the status %q", status)
	}
	// Items that have not come, or not whole, are taken from the response. Some
	// servers leave them out of it, others of the stream.
	for i, it := range r.match(response.Output) {
		raw := response.Output[i]
		if it == nil {
			var err error
			if it, err = r.add(int64(i), raw); err != nil {
				return err
			}
		}
		if it.done {
			r.refusal = r.refusal || refuses(raw)
		} else if err := r.done(it, raw); err != nil {
			return err
		}
	}
	for _, it := range r.waiting {
		if it.done {
			continue
		}
		if status == "completed" {
			return r.malformed("the response is completed, and its output[%d], a %s, isn't",
				it.place, it.kind)
		}
		r.cut(it)
		it.done = true
	}
	r.next()
	if !r.over {
		why := response.IncompleteDetails.Reason
		f := llm.Finish{Reason: r.reason(status, why), Word: string(status),
			Usage: usage(response.Usage)}
		if status == "incomplete" && why != "" {
			f.Word = why
		}
		r.emit(f)
	}
	r.over = true
	return nil
}

func (r *reply) reason(status responses.ResponseStatus, why string) llm.StopReason {
	switch {
	case r.refusal: // whatever ended it; what it calls beside that, it doesn't mean
		return llm.StopRefusal
	case status == "incomplete":
		switch strings.ToLower(why) {
		// OpenAI's, and those of the services that others translate.
		case "max_output_tokens", "max_tokens", "length":
			return llm.StopLength
		case "content_filter":
			return llm.StopRefusal
		}
		return llm.StopOther
	case r.calls:
		return llm.StopToolCalls
	}
	return llm.StopEnd
}

func usage(u responses.ResponseUsage) llm.Usage {
	return llm.Usage{
		Input:     int(u.InputTokens),
		Cached:    int(u.InputTokensDetails.CachedTokens),
		Written:   int(u.InputTokensDetails.CacheWriteTokens),
		Output:    int(u.OutputTokens),
		Reasoning: int(u.OutputTokensDetails.ReasoningTokens),
	}
}
