package openai

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"

	"github.com/fermata-ai/fermata/llm/wire"
)

// reported is what the API says is wrong, in a reply that had begun well.
type reported trouble

func reportedBy(response responses.Response) reported {
	return reported{code: string(response.Error.Code), message: response.Error.Message}
}

func (e reported) Error() string { return e.code + ": " + e.message }

// failure makes an error of the right kind of what went wrong in a request, or while its answer was read. answer may be nil, and so
// may err.
func (m *Responses) failure(outer context.Context, answer *http.Response, err error) error {
	if err == nil {
		return nil
	}
	var event *ssestream.StreamError
	if errors.As(err, &event) { // what the SDK makes of an event with an error in it
		err = reported(m.endpoint.trouble(event.Event.Data))
	}
	var inside reported
	if errors.As(err, &inside) {
		err = trouble(inside).error(responsesName, 0, answer.Header, nil)
	} else if answer != nil && answer.StatusCode < 300 && unreadable(err) {
		err = malformed("%w", err)
	}
	return m.endpoint.failure(outer, responsesName, answer, err)
}

// estranged says that the API refuses what it made itself, by its code or by its words: encrypted reasoning that it can't read, or
// an item without one that it was made with.
func estranged(err error) bool {
	var api *openai.Error
	if !errors.As(err, &api) || api.StatusCode != http.StatusBadRequest && api.StatusCode != http.StatusNotFound {
		return false
	}
	if api.Code == "invalid_encrypted_content" {
		return true
	}
	for _, words := range []string{
		"could not be verified", "without its required 'reasoning' item", "without its required following item", "Items are not persisted",
	} {
		if strings.Contains(api.Message, words) {
			return true
		}
	}
	return false
}

// unreadable says that an answer makes no sense.
func unreadable(err error) bool {
	var (
		syntax *json.SyntaxError
		typ    *json.UnmarshalTypeError
	)
	return errors.As(err, &syntax) || errors.As(err, &typ) || errors.Is(err, bufio.ErrTooLong)
}

// checkType refuses an answer that is something else than was asked for, such as a page of a proxy's: read as a stream, it would
// seem to be cut off. nil, and answers with the status of an error, pass.
func (m *Responses) checkType(answer *http.Response, fits func(contentType string) bool) error {
	if answer == nil || answer.StatusCode >= 300 {
		return nil
	}
	t := answer.Header.Get("Content-Type")
	if t == "" || fits(strings.ToLower(t)) {
		return nil
	}
	const excerpt = 4096
	body, _ := io.ReadAll(io.LimitReader(answer.Body, excerpt)) // nothing, where the SDK has read it
	return malformed("the answer is of the type %q: %s", t, wire.Excerpt(m.endpoint.trouble(body).message))
}

func isJSON(contentType string) bool { return strings.Contains(contentType, "json") }

// isStream is lenient, since some servers call a stream plain text.
func isStream(contentType string) bool {
	return !isJSON(contentType) && !strings.Contains(contentType, "html") && !strings.Contains(contentType, "xml")
}
