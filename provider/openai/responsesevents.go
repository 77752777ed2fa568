package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/openai/openai-go/v3/responses"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// responsesEvent is an event of a stream. The SDK's own would replace the half
// of a rune that a piece of text may end with.
type responsesEvent struct {
	Type         string                            `json:"type"`
	OutputIndex  *int64                            `json:"output_index"`
	ItemID       string                            `json:"item_id"`
	ContentIndex int64                             `json:"content_index"`
	SummaryIndex int64                             `json:"summary_index"`
	Delta        json.RawMessage                   `json:"delta"` // text, in the events that are looked at
	Refusal      json.RawMessage                   `json:"refusal"`
	Item         responses.ResponseOutputItemUnion `json:"item"`
	Response     responses.Response                `json:"response"`
	Error        json.RawMessage                   `json:"error"`
	Code         json.RawMessage                   `json:"code"`    // of an event "error"
	Message      json.RawMessage                   `json:"message"` // likewise
}

// read takes the server's answer: a stream, or the whole response in place of
// one.
func (r *reply) read(res *http.Response) error {
	a, err := open(res)
	switch {
	case err == io.EOF:
		return truncated("the answer is empty")
	case err != nil:
		return err
	case a.isJSON():
		return r.whole(a)
	case !a.isStream():
		return a.page(responsesName)
	}
	return r.stream(a)
}

func (r *reply) stream(a answer) error {
	events := a.events()
	for events.decoder.Next() {
		event := events.decoder.Event()
		data := bytes.TrimSpace(event.Data)
		switch string(data) {
		case "", "null": // keeps the connection alive
			continue
		case "[DONE]":
			return wire.Truncated(responsesName)
		}
		var e responsesEvent
		err := json.Unmarshal(data, &e)
		switch {
		case event.Type == "error" && e.Type != "error", !isNull(e.Error):
			return r.told(a, data)
		case err != nil && events.isLast() && isCutOff(err, data):
			return truncated("the stream ended within an event: %w", err)
		case err != nil:
			return malformed("%w in the event %s", err, wire.Excerpt(string(data)))
		case e.Type == "error":
			return trouble{code: word(e.Code), message: word(e.Message)}.error(responsesName, 0, a.Header, nil)
		}
		if err := r.event(a, e); err != nil || r.over {
			return err
		}
	}
	if err := events.err(responsesName); err != nil {
		return err
	}
	return wire.Truncated(responsesName)
}

// whole reads a response that comes at once.
func (r *reply) whole(a answer) error {
	data, err := wire.ReadWhole(responsesName, a.body)
	if err != nil {
		return err
	}
	var said struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(data, &said) == nil && !isNull(said.Error) {
		return r.told(a, data)
	}
	var response responses.Response
	switch err := json.Unmarshal(data, &response); {
	case err != nil && isCutOff(err, data):
		return truncated("the answer ended in the middle: %w", err)
	case err != nil && isSyntax(err):
		return a.noJSON(responsesName, data)
	case err != nil:
		return malformed("%w in the answer %s", err, wire.Excerpt(string(data)))
	}
	return r.end(a, response.Status, response)
}

// told is the error that an event tells of, or an answer of status 200.
func (r *reply) told(a answer, data []byte) error {
	return r.model.endpoint.trouble(data).error(responsesName, 0, a.Header, nil)
}

func truncated(format string, args ...any) error {
	return &llm.Error{Kind: llm.ErrTruncated, Provider: responsesName, Err: fmt.Errorf(format, args...)}
}

func malformed(format string, args ...any) error {
	return wire.Malformed(responsesName, format, args...)
}
