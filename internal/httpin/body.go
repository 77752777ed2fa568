package httpin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"
)

// Bodies is how the bodies of requests are read. It does not change.
type Bodies struct {
	Max     int64         // bytes
	Timeout time.Duration // how long one may take to arrive
	// Instead is what a sender of more than Max bytes may do in place of it.
	Instead string
}

// Read returns a body of up to Max bytes. One that is announced as larger is
// refused unread.
func (b Bodies) Read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > b.Max {
		w.Header().Set("Connection", "close") // or the server would read on
		return nil, b.TooLarge()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, b.Max))
	return body, b.Unread(w, err)
}

// Unread returns the refusal of a body that could not be read to its end.
func (b Bodies) Unread(w http.ResponseWriter, err error) error {
	var over *http.MaxBytesError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &over):
		return b.TooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return Refuse("too_slow", "the body took too long to arrive")
	}
	return Refuse("broken", "the body could not be read to its end")
}

// TooLarge returns the refusal of a body that has more than Max bytes.
func (b Bodies) TooLarge() error {
	return Refuse("too_large", fmt.Sprintf("a body has at most %d bytes; %s", b.Max, b.Instead))
}

// LimitReading bounds how long a body may take to arrive, unless the server
// does so itself. The function that it returns lifts the limit again: a
// deadline that passes while the request is served would end the request's
// context.
func (b Bodies) LimitReading(w http.ResponseWriter, r *http.Request) (lift func()) {
	if s, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && s.ReadTimeout > 0 {
		return func() {}
	}
	c := http.NewResponseController(w)
	if err := c.SetReadDeadline(time.Now().Add(b.Timeout)); err != nil {
		return func() {} // a wrapped writer that has no deadlines; its server may
	}
	return func() { _ = c.SetReadDeadline(time.Time{}) }
}

// Plain refuses a body that is compressed, before it is read.
func Plain(w http.ResponseWriter, r *http.Request) error {
	if coding := r.Header.Get("Content-Encoding"); coding != "" &&
		!strings.EqualFold(coding, "identity") {
		w.Header().Set("Accept-Encoding", "identity") // RFC 9110, section 12.5.3
		return Unsupported("compressed bodies are not taken; send it without a Content-Encoding")
	}
	return nil
}

// IsJSON returns the refusal of a body whose type is not JSON, before it is
// read. A body without a type may be JSON.
func IsJSON(r *http.Request) error {
	text := r.Header.Get("Content-Type")
	if text == "" {
		return nil
	}
	media, params, err := mime.ParseMediaType(text)
	if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
		return Unsupported("the body must be JSON; send Content-Type: application/json")
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") &&
		!strings.EqualFold(charset, "us-ascii") {
		return Unsupported("the body must be in UTF-8")
	}
	return nil
}

// Unsupported refuses a form of a body that is not taken.
func Unsupported(detail string) error { return Refuse("unsupported", detail) }

// Unmarked takes off the byte order mark that some systems put before a text.
// RFC 8259, section 8.1, allows a reader to ignore it.
func Unmarked(body []byte) []byte { return bytes.TrimPrefix(body, []byte("\uFEFF")) }
