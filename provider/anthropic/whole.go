package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/fermata-ai/fermata/llm/wire"
)

// message makes events of a message that came at once.
func (r *reply) message(body []byte, res *http.Response) error {
	var m struct {
		Type       string            `json:"type"`
		Content    []json.RawMessage `json:"content"`
		StopReason sdk.StopReason    `json:"stop_reason"`
		Usage      json.RawMessage   `json:"usage"`
	}
	err := json.NewDecoder(bytes.NewReader(body)).Decode(&m)
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return wire.TransportError(provider, err)
	case errors.As(err, &syntax):
		return wire.Page(provider, mediaType(res), body)
	case err != nil:
		return malformed("the answer, of type %q, is no message: %w: %s", mediaType(res), err,
			wire.Excerpt(string(body)))
	case m.Type == "error": // from a gateway that sends errors with the status 200
		e := &sdk.Error{StatusCode: http.StatusOK, Response: res}
		if err := e.UnmarshalJSON(body); err != nil {
			return malformed("the answer is an error that can't be read: %w", err)
		}
		return e
	case m.Type != "message":
		return malformed("the answer, of type %q, is no message: %s", mediaType(res),
			wire.Excerpt(string(body)))
	}
	r.stop = m.StopReason
	r.usage.add(string(m.Usage))
	for i, raw := range m.Content {
		if err := r.start(raw); err != nil {
			return err
		}
		if r.end(r.blocks[r.from+i]); r.enough {
			return nil
		}
	}
	r.finish()
	return nil
}

// instead reads the message at once: as it was asked for, or in place of a
// stream, from a server that knows none. It may be something else.
func (r *reply) instead(res *http.Response) error {
	body, err := wire.ReadWhole(provider, res.Body)
	if err != nil {
		return err
	}
	return r.message(body, res)
}

// heard keeps the header of the answer, whose request id broken streams are
// told with.
func (r *reply) heard(res *http.Response) {
	if res != nil {
		r.header = res.Header
	}
}

func isStream(res *http.Response) bool {
	kind := mediaType(res)
	return kind == "" || kind == "text/event-stream"
}

func mediaType(res *http.Response) string {
	if res == nil {
		return ""
	}
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}
