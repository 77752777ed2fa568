package gemini

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
	"google.golang.org/genai"
)

// failure makes of what went wrong the error that Generate yields.
func (m *Model) failure(ctx context.Context, x *exchange, cause error) error {
	var known *llm.Error
	var api genai.APIError
	var page *notEvents
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(cause, &known):
		return known
	case errors.As(cause, &api):
		return m.apiError(x, api)
	case errors.As(cause, &page):
		// A stream may end with a bare error, and a reply in place of a stream
		// be one.
		if err := bareError(page.text); err != nil {
			return m.apiError(x, *err)
		}
		return wire.Page(provider, x.header.Get("Content-Type"), page.text)
	case x.status >= 400: // the error's body broke off
		return wire.AnswerError(provider, wire.Answer{Status: x.status, Header: x.header,
			Message: cause.Error(), Cause: cause})
	}
	return wire.TransportError(provider, cause)
}

// bareError reads an error object, or the first one of a list. It is nil where
// text is none.
func bareError(text []byte) *genai.APIError {
	type object struct {
		Error *genai.APIError `json:"error"`
	}
	var one object
	if json.Unmarshal(text, &one) == nil {
		return one.Error
	}
	var list []object
	if json.Unmarshal(text, &list) == nil && len(list) > 0 {
		return list[0].Error
	}
	return nil
}

func (m *Model) apiError(x *exchange, e genai.APIError) error {
	if list := bareError([]byte(e.Message)); list != nil { // the SDK doesn't read lists
		e = *list
	} else if e.Details == nil && x.status != 0 &&
		// It found no error in the body, but a page.
		strings.HasPrefix(e.Status, strconv.Itoa(x.status)) {
		e.Message = wire.Excerpt(e.Message)
	}
	e = m.withoutKey(e)
	status := x.status
	// The error came in a stream, and names its status.
	if status < http.StatusBadRequest && e.Code != 0 {
		status = e.Code
	}
	err := wire.AnswerError(provider, wire.Answer{Status: status, Header: x.header, Code: e.Status,
		Message: e.Message, Cause: e})
	for _, d := range e.Details {
		s, _ := d["retryDelay"].(string) // of google.rpc.RetryInfo, such as "7s" or "0.5s"
		if wait, parsed := time.ParseDuration(s); parsed == nil && wait > 0 {
			err.RetryAfter = min(wait, 24*time.Hour)
		}
	}
	return err
}

// withoutKey takes our key out of an error: the service names it where a
// project is suspended.
func (m *Model) withoutKey(e genai.APIError) genai.APIError {
	text, err := json.Marshal(e)
	hidden := m.secrets.Text(string(text))
	if err != nil || hidden == string(text) {
		return e
	}
	var clean genai.APIError
	if json.Unmarshal([]byte(hidden), &clean) != nil {
		return genai.APIError{Code: e.Code, Status: e.Status,
			Message: "(left out: it holds the API key)"}
	}
	return clean
}

// cutOff reports whether a whole reply's JSON ends too early.
func cutOff(err error) bool {
	var syntax *json.SyntaxError
	return errors.As(err, &syntax) && syntax.Error() == "unexpected end of JSON input"
}
