package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
	"github.com/openai/openai-go/v3/option"
)

// request makes a request with the SDK, by do, and returns the server's answer with its body unread. outer is the context that
// Generate was given: its error is returned as it is.
func (e endpoint) request(outer context.Context, provider string, do func(option.RequestOption) error) (*http.Response, error) {
	var res *http.Response
	if err := do(option.WithResponseBodyInto(&res)); err != nil {
		return nil, e.failure(outer, provider, res, err)
	}
	if res == nil || res.Body == nil {
		return nil, e.failure(outer, provider, nil, errors.New("the server's answer is missing"))
	}
	return res, nil
}

// failure makes an *llm.Error of what went wrong in a request, or while its answer was read. res is the answer, if one came.
func (e endpoint) failure(outer context.Context, provider string, res *http.Response, err error) error {
	var known *llm.Error
	switch {
	case outer.Err() != nil:
		return outer.Err()
	case errors.As(err, &known):
		return err
	case res != nil && res.StatusCode >= 400:
		body, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20)) // the SDK has read it already
		code, message := e.problem(body)
		return wire.HTTPError(provider, res.StatusCode, res.Header, code, message, err)
	case errors.Is(err, context.DeadlineExceeded):
		// The context that Generate was given goes on, so its user must not be told that it is over.
		if e.timeout > 0 {
			err = fmt.Errorf("the whole answer didn't come within %v, the options' Timeout", e.timeout)
		} else {
			err = errors.New("the answer didn't come within the HTTP client's timeout")
		}
		return &llm.Error{Kind: llm.ErrNetwork, Provider: provider, Err: err}
	}
	return wire.TransportError(provider, err)
}

// problem reads the body of an error: a code, if it has one, and a message. OpenAI sends {"error": {"message", "type", "code"}};
// compatible servers send an "error" that is a string, or these members without "error", or "detail", or a list of one; and what
// stands between sends HTML.
func (e endpoint) problem(body []byte) (code, message string) {
	if len(e.key) >= 16 { // some servers quote the key that they don't know
		body = bytes.ReplaceAll(body, []byte(e.key), []byte("(the key)"))
	}
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var outer, inner map[string]json.RawMessage
	if json.Unmarshal(body, &outer) != nil {
		return "", excerpt(body)
	}
	if raw := outer["error"]; json.Unmarshal(raw, &inner) != nil || len(inner) == 0 {
		inner = outer
		message = word(raw)
	}
	code = word(inner["code"])
	if code == "" || strings.Trim(code, "0123456789") == "" { // a number repeats the status
		code = cmp.Or(word(inner["type"]), word(inner["status"]), code)
	}
	message = cmp.Or(word(inner["message"]), word(inner["msg"]), word(inner["detail"]), message, excerpt(body))
	var more struct{ Raw json.RawMessage }
	if json.Unmarshal(inner["metadata"], &more) == nil && word(more.Raw) != "" { // a router's: what the server behind it said
		message += ": " + excerpt([]byte(word(more.Raw)))
	}
	return code, message
}

// word is a JSON string's text; numbers and other values are their JSON, null is nothing.
func word(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || json.Unmarshal(raw, &s) == nil {
		return s
	}
	return excerpt(raw)
}

// excerpt is the beginning of a text, on one line.
func excerpt(text []byte) string {
	const most = 300 // bytes
	s := strings.Join(strings.Fields(strings.ToValidUTF8(string(text[:min(len(text), 4*most)]), "\uFFFD")), " ")
	if len(s) <= most {
		return s
	}
	cut := most
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}
