package anthropic

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// invalid returns the error of a request that can't be put to the API.
func invalid(format string, args ...any) error { return wire.Invalid(provider, format, args...) }

// malformed returns the error of a reply that breaks the API's rules.
func malformed(format string, args ...any) error {
	return wire.Malformed(provider, format,
		args...)
}

// failure makes of what went wrong what a caller can work with. The
// generation's context is the caller's, with Options.Timeout.
func (m *Model) failure(caller, generation context.Context, err error) error {
	if err := caller.Err(); err != nil {
		return err
	}
	if generation.Err() != nil {
		return wire.Timeout(provider, m.options.Timeout)
	}
	var (
		known  *llm.Error
		api    *sdk.Error
		syntax *json.SyntaxError
		kind   *json.UnmarshalTypeError
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &api):
		return m.apiError(api)
	case errors.As(err, &syntax), errors.As(err, &kind):
		return malformed("an event of the stream is no JSON that makes sense: %w", err)
	case errors.Is(err, bufio.ErrTooLong):
		return malformed("an event of the stream is too long: %w", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		// The HTTP client gave up, and not the caller.
		return wire.ClientTimeout(provider)
	}
	return wire.TransportError(provider, err)
}

// foreign reports whether the API refuses the signature of thinking, as where a
// compatible server made it.
func foreign(err error) bool {
	var api *sdk.Error
	return errors.As(err, &api) && api.StatusCode == http.StatusBadRequest &&
		strings.Contains(api.Message, "signature") && strings.Contains(api.Message, "thinking")
}

// unthought returns a request without what the model thought before.
func unthought(req llm.Request) llm.Request {
	messages := make([]llm.Message, len(req.Messages))
	for i, m := range req.Messages {
		m.Parts = slices.DeleteFunc(slices.Clone(m.Parts),
			func(p llm.Part) bool { _, ok := p.(llm.Reasoning); return ok })
		messages[i] = m
	}
	req.Messages = messages
	return req
}

// apiError tells what the API answered, in place of a stream or within it.
func (m *Model) apiError(e *sdk.Error) error {
	a := wire.Answer{Status: e.StatusCode, Type: string(e.Type()), Message: e.Message, Cause: e}
	if a.Message == "" { // not from the API itself, but from something on the way
		a.Message = e.RawJSON()
	}
	a.Message = m.secrets.Text(a.Message) // before it is cut
	if e.Response != nil {
		a.Header = e.Response.Header
	}
	return wire.AnswerError(provider, a)
}
