package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// read takes the server's answer.
func (r *chatReply) read(res *http.Response) error {
	a, err := open(res)
	switch {
	case err == io.EOF:
		return r.truncated("the answer is empty")
	case err != nil:
		return err
	case a.isJSON():
		return r.whole(a)
	case !a.isStream():
		return a.page(r.model.name)
	}
	return r.stream(a)
}

// stream reads server-sent events up to the line [DONE]. There are services
// that leave it out, and others that leave out the finish_reason: where HTTP
// tells that the stream has ended, one of the two is enough. Where it doesn't,
// a stream that lacks either may have broken off.
func (r *chatReply) stream(a answer) error {
	events := a.events()
	for events.decoder.Next() {
		event := events.decoder.Event()
		data := bytes.TrimSpace(event.Data)
		switch string(data) {
		case "", "null": // keeps the connection alive
			continue
		case "[DONE]":
			return r.end(a)
		}
		var c chatChunk
		err := json.Unmarshal(data, &c)
		if problem := r.told(a, event.Type, data, c); problem != nil {
			return problem
		}
		switch {
		case err != nil && events.isLast() && isCutOff(err, data):
			return r.truncated("the stream ended within an event: %w", err)
		case err != nil:
			return r.malformed("%w in the event %s", err, wire.Excerpt(string(data)))
		case c.Choices == nil && c.Usage == nil && c.Object != "chat.completion.chunk" && event.Type == "":
			return r.malformed("an event that is no chat completion chunk: %s", wire.Excerpt(string(data)))
		}
		if err := r.chunk(c); err != nil {
			return err
		}
	}
	switch err := events.err(r.model.name); {
	case err != nil:
		return err
	case r.finish != "" && a.isFramed():
		return r.end(a)
	}
	return r.truncated("the stream ended without its line [DONE]")
}

// whole reads a message that comes at once. It is like a stream of one chunk,
// but each call is an entry of its own.
func (r *chatReply) whole(a answer) error {
	data, err := wire.ReadWhole(r.model.name, a.body)
	if err != nil {
		return err
	}
	var c chatChunk
	err = json.Unmarshal(data, &c)
	if problem := r.told(a, "", data, c); problem != nil {
		return problem
	}
	switch {
	case err != nil && isCutOff(err, data):
		return r.truncated("the answer ended in the middle: %w", err)
	case err != nil && isSyntax(err):
		return a.noJSON(r.model.name, data)
	case err != nil:
		return r.malformed("%w in the answer %s", err, wire.Excerpt(string(data)))
	case len(c.Choices) == 0:
		return r.malformed("the answer has no choices: %s", wire.Excerpt(string(data)))
	}
	for i := range c.Choices {
		choice := &c.Choices[i]
		if choice.Message == nil {
			return r.malformed("the answer's choice has no message: %s", wire.Excerpt(string(data)))
		}
		choice.Delta = nil
		for place := range choice.Message.ToolCalls {
			choice.Message.ToolCalls[place].Index = &place
		}
	}
	if err := r.chunk(c); err != nil {
		return err
	}
	return r.end(a)
}

// told is the error that an event tells of, nil if it tells of none.
func (r *chatReply) told(a answer, event string, data []byte, c chatChunk) error {
	if isNull(c.Error) && c.Object != "error" && event != "error" {
		return nil
	}
	return r.model.at.trouble(data).error(r.model.name, 0, a.Header, nil)
}

func (r *chatReply) truncated(format string, args ...any) error {
	return &llm.Error{Kind: llm.ErrTruncated, Provider: r.model.name, Err: fmt.Errorf(format, args...)}
}

func (r *chatReply) malformed(format string, args ...any) error {
	return wire.Malformed(r.model.name, format, args...)
}
