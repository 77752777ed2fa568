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

// reader makes events of one API's reply, and of nothing else: [voice.read]
// reads the reply, and takes it apart. A reader that isn't to be given more
// returns errStopped.
type reader interface {
	event(streamEvent) error  // the next event of a stream
	whole(wholeAnswer) error  // the message that comes at once, in place of a stream
	doneLine(a answer) error  // the line [DONE]
	streamEnd(a answer) error // the end of a stream that has no such line
}

// piece is JSON that a server sends.
type piece struct {
	voice
	answer answer
	data   []byte
}

// streamEvent is the JSON of one event of a stream.
type streamEvent struct {
	piece
	kind string // the event's, "" where it has none
	last bool   // nothing ends it but the end of the answer
}

// wholeAnswer is the JSON of an answer that comes at once.
type wholeAnswer struct{ piece }

// voice is the provider in whose name an API's errors are told.
type voice string

// read takes the server's answer.
func (v voice) read(res *http.Response, r reader) error {
	a, err := open(res)
	switch {
	case err == io.EOF:
		return v.truncated("the answer is empty")
	case err != nil:
		return err
	case a.isJSON():
		data, err := wire.ReadWhole(string(v), a.body)
		if err != nil {
			return err
		}
		return r.whole(wholeAnswer{piece{v, a, data}})
	case !a.isStream():
		return a.page(string(v))
	}
	events := a.events()
	for events.decoder.Next() {
		e := events.decoder.Event()
		switch data := bytes.TrimSpace(e.Data); string(data) {
		case "", "null": // keeps the connection alive
		case "[DONE]":
			return r.doneLine(a)
		default:
			if err := r.event(streamEvent{piece{v, a, data}, e.Type, events.isLast()}); err != nil {
				return err
			}
		}
	}
	if err := events.err(string(v)); err != nil {
		return err
	}
	return r.streamEnd(a)
}

// decode reads an event.
func (s streamEvent) decode(into any) error {
	switch err := json.Unmarshal(s.data, into); {
	case err != nil && s.last && isCutOff(err, s.data):
		return s.truncated("the stream ended within an event: %w", err)
	case err != nil:
		return s.malformed("%w in the event %s", err, s.excerpt())
	}
	return nil
}

// decode reads a message.
func (w wholeAnswer) decode(into any) error {
	switch err := json.Unmarshal(w.data, into); {
	case err != nil && isCutOff(err, w.data):
		return w.truncated("the answer ended in the middle: %w", err)
	case err != nil && isSyntax(err):
		return w.answer.noJSON(string(w.voice), w.data)
	case err != nil:
		return w.malformed("%w in the answer %s", err, w.excerpt())
	}
	return nil
}

// told returns the error that a piece tells of.
func (p piece) told(at endpoint) error {
	return at.trouble(p.data).error(string(p.voice), 0, p.answer.Header, nil)
}

func (p piece) excerpt() string { return wire.Excerpt(string(p.data)) }

func (v voice) truncated(format string, args ...any) error {
	return &llm.Error{Kind: llm.ErrTruncated, Provider: string(v), Err: fmt.Errorf(format, args...)}
}

func (v voice) malformed(format string, args ...any) error {
	return wire.Malformed(string(v), format, args...)
}
