package webhook

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"
)

// door is what a request passes before it is known what it asks for: how its
// body is read, and who signed it. It does not change.
type door struct {
	verifier    Verifier // nil: no signature is wanted
	maxBody     int64
	readTimeout time.Duration
	now         func() time.Time
	logger      *slog.Logger
	limits      *limits
}

// newDoor puts the defaults in, and returns what is wrong with the rest.
func newDoor(d door, l Limits) (_ door, err error) {
	if d.maxBody < 0 || d.readTimeout < 0 {
		return d, errors.New("webhook: MaxBody or ReadTimeout is negative; zero is the default")
	}
	if d.maxBody == 0 {
		d.maxBody = DefaultMaxBody
	}
	if d.readTimeout == 0 {
		d.readTimeout = 30 * time.Second
	}
	if d.now == nil {
		d.now = time.Now
	}
	if d.logger == nil {
		d.logger = slog.Default()
	}
	d.limits, err = newLimits(l)
	return d, err
}

// onlyPost refuses all other methods.
func onlyPost(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return &requestError{"method", "only POST is taken"}
	}
	return nil
}

// plain refuses a body that is compressed, before it is read.
func plain(w http.ResponseWriter, r *http.Request) error {
	if coding := r.Header.Get("Content-Encoding"); coding != "" &&
		!strings.EqualFold(coding, "identity") {
		w.Header().Set("Accept-Encoding", "identity") // RFC 9110, section 12.5.3
		return unsupported("compressed bodies are not taken; send it without a Content-Encoding")
	}
	return nil
}

// read returns a body of up to maxBody bytes. One that is announced as larger
// is refused unread.
func (d *door) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > d.maxBody {
		w.Header().Set("Connection", "close") // or the server would read on
		return nil, d.tooLarge()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, d.maxBody))
	return body, d.unread(w, err)
}

// unread returns the refusal of a body that could not be read to its end.
func (d *door) unread(w http.ResponseWriter, err error) error {
	var over *http.MaxBytesError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &over):
		return d.tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return &requestError{"too_slow", "the body took too long to arrive"}
	}
	return &requestError{"broken", "the body could not be read to its end"}
}

func (d *door) tooLarge() error {
	return &requestError{"too_large", fmt.Sprintf("a body has at most %d bytes; store a larger "+
		"output elsewhere and send a reference, or send a failure", d.maxBody)}
}

// knock counts a request for the address that it comes from.
func (d *door) knock(r *http.Request) error {
	if d.limits.address == nil {
		return nil
	}
	return d.limits.address.take(d.limits.client(r), d.now())
}

// verify returns who has signed a request, and counts it for that one. If no
// signature is wanted, it returns the zero Signed.
func (d *door) verify(r *http.Request, body []byte) (Signed, error) {
	if d.verifier == nil {
		return Signed{}, nil
	}
	by, err := verify(d.verifier, r.Header, body, d.now())
	if err != nil {
		return Signed{}, err
	}
	return by, d.limits.sender.take(by.Sender, d.now())
}

// limitReading bounds how long a body may take to arrive, unless the server
// does so itself. The function that it returns lifts the limit again: a
// deadline that passes while the request is served would end the request's
// context.
func (d *door) limitReading(w http.ResponseWriter, r *http.Request) (lift func()) {
	if s, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && s.ReadTimeout > 0 {
		return func() {}
	}
	c := http.NewResponseController(w)
	if err := c.SetReadDeadline(time.Now().Add(d.readTimeout)); err != nil {
		return func() {} // a wrapped writer that has no deadlines; its server may
	}
	return func() { _ = c.SetReadDeadline(time.Time{}) }
}

// requestError is the refusal of a request that does not get to the runner.
type requestError struct {
	code   string // of one of the kinds
	detail string
}

func (e *requestError) Error() string { return "webhook: " + e.detail }

// asRequestError returns the requestError in err, nil if there is none.
func asRequestError(err error) *requestError {
	var e *requestError
	errors.As(err, &e)
	return e
}
