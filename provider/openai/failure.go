package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// request makes a request with the SDK, by do, and returns the server's answer
// with its body unread. outer is the context that Generate was given: its error
// is returned as it is.
func (e endpoint) request(outer context.Context, provider string,
	do func(option.RequestOption) error) (*http.Response, error) {
	var res *http.Response
	if err := do(option.WithResponseBodyInto(&res)); err != nil {
		return nil, e.failure(outer, provider, res, err)
	}
	if res == nil || res.Body == nil {
		return nil, e.failure(outer, provider, nil, errors.New("the server's answer is missing"))
	}
	return res, nil
}

// failure makes an *llm.Error of what went wrong in a request, or while its
// answer was read. res is the answer, if one came.
func (e endpoint) failure(outer context.Context, provider string, res *http.Response,
	err error) error {
	err = e.classified(outer, provider, res, err)
	if res == nil {
		return err
	}
	return wire.Traced(err, res.Header)
}

func (e endpoint) classified(outer context.Context, provider string, res *http.Response,
	err error) error {
	var known *llm.Error
	switch {
	case outer.Err() != nil:
		return outer.Err()
	case errors.As(err, &known):
		return known
	case res != nil && res.StatusCode >= 400:
		body, _ := io.ReadAll(res.Body) // the SDK has read it already
		t := e.trouble(body)
		return t.error(provider, res.StatusCode, res.Header, err)
	case errors.Is(err, context.DeadlineExceeded):
		// The context that Generate was given goes on, so its user must not be
		// told that it is over.
		if e.timeout > 0 {
			return wire.Timeout(provider, e.timeout)
		}
		return wire.ClientTimeout(provider)
	}
	return wire.TransportError(provider, err)
}

// trouble is what a server says is wrong.
type trouble struct {
	status             int // the HTTP status that it names, if it does
	code, typ, message string
	mistake            bool // the model's: what it wrote is in the message
}

// trouble reads the body of an error, or an event that tells of one. OpenAI
// sends {"error": {"message", "type", "code"}}; compatible servers send an
// "error" that is a string, or these members without "error", or "detail", or a
// list of one; and what stands between sends HTML.
func (e endpoint) trouble(body []byte) trouble {
	body = []byte(e.secrets.Text(string(body))) // before it is cut
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var outer, inner map[string]json.RawMessage
	if json.Unmarshal(body, &outer) != nil {
		return trouble{message: wire.Excerpt(string(body))}
	}
	t := trouble{}
	if raw := outer["error"]; json.Unmarshal(raw, &inner) != nil || len(inner) == 0 {
		inner = outer
		t.message = word(raw)
	}
	t.code, t.typ = word(inner["code"]), cmp.Or(word(inner["type"]), word(inner["status"]))
	if n, err := strconv.Atoi(t.code); err == nil {
		t.status, t.code = n, ""
	}
	t.message = cmp.Or(word(inner["message"]), word(inner["msg"]), word(inner["detail"]), t.message,
		wire.Excerpt(string(body)))
	if made := word(inner["failed_generation"]); made != "" {
		t.message, t.mistake = t.message+": "+made, true
	}
	var more struct{ Raw json.RawMessage }
	// A router's: what the server behind it said.
	if json.Unmarshal(inner["metadata"], &more) == nil && word(more.Raw) != "" {
		t.message += ": " + wire.Excerpt(word(more.Raw))
	}
	return t
}

// error is for an answer of the given status; 0: it came in the middle of a
// stream. sdk may be nil.
func (t trouble) error(provider string, status int, h http.Header, sdk error) error {
	a := wire.Answer{Status: cmp.Or(status, t.status), Header: h, Code: t.code, Type: t.typ,
		Message: t.message}
	if api := (*openai.Error)(nil); errors.As(sdk, &api) {
		a.Cause = api
	}
	err := wire.AnswerError(provider, a)
	if t.mistake || t.code == "tool_use_failed" {
		// Groq can't read what the model wrote: it may write better the next
		// time.
		err.Kind = llm.ErrTruncated
	}
	return err
}

// word returns a JSON string's text; numbers and other values are their JSON,
// null is nothing.
func word(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || json.Unmarshal(raw, &s) == nil {
		return s
	}
	return wire.Excerpt(string(raw))
}
