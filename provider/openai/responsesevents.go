package openai

import (
	"encoding/json"

	"github.com/openai/openai-go/v3/responses"

	"github.com/fermata-ai/fermata/llm/wire"
)

// responsesEvent is an event of a stream. The SDK's own would replace the half
// of a rune that a piece of text may end with.
type responsesEvent struct {
	Type         string `json:"type"`
	OutputIndex  *int64 `json:"output_index"`
	ItemID       string `json:"item_id"`
	ContentIndex int64  `json:"content_index"`
	SummaryIndex int64  `json:"summary_index"`
	// Text, in the events that are looked at.
	Delta    json.RawMessage                   `json:"delta"`
	Refusal  json.RawMessage                   `json:"refusal"`
	Item     responses.ResponseOutputItemUnion `json:"item"`
	Response responses.Response                `json:"response"`
	Error    json.RawMessage                   `json:"error"`
	Code     json.RawMessage                   `json:"code"`    // of an event "error"
	Message  json.RawMessage                   `json:"message"` // likewise
}

// event takes the next event of a stream. Those that only say again what others
// say, or how far along something is, are left aside, and so are kinds to come:
// whatever an item holds comes with its end.
func (r *reply) event(s streamEvent) error {
	var e responsesEvent
	err := s.decode(&e)
	switch {
	case s.kind == "error" && e.Type != "error", !isNull(e.Error):
		return s.told(r.model.at)
	case err != nil:
		return err
	case e.Type == "error":
		return trouble{code: word(e.Code), message: word(e.Message)}.error(responsesName, 0,
			s.answer.Header, nil)
	}
	if err := r.take(s.answer, e); err != nil {
		return err
	}
	if r.over {
		return errStopped
	}
	return nil
}

// doneLine takes a line that this API doesn't send.
func (r *reply) doneLine(answer) error { return wire.Truncated(responsesName) }

// streamEnd takes the end of a stream that ended before its response did.
func (r *reply) streamEnd(answer) error { return wire.Truncated(responsesName) }

// whole takes a response that comes at once.
func (r *reply) whole(w wholeAnswer) error {
	var said struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(w.data, &said) == nil && !isNull(said.Error) {
		return w.told(r.model.at)
	}
	var response responses.Response
	if err := w.decode(&response); err != nil {
		return err
	}
	return r.end(w.answer, response.Status, response)
}
