package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// ErrUnverified refuses a request that is not signed by a sender that is known
// here, for whatever reason: the answer is a 401 that doesn't tell which.
var ErrUnverified = errors.New("webhook: the request is not signed by a known sender")

// Verifier checks who sent a request. [StandardWebhooks], [GitHub] and [Stripe]
// make those that ship, and [Senders] makes one of several.
//
// Verify gets the headers and the body's raw bytes, and the time by the
// handler's clock. It must not change them, and may be called by several
// goroutines at once. An error that is [ErrUnverified] refuses the request; any
// other means that the check could not be made, so that the sender is asked to
// try again.
type Verifier interface {
	Verify(h http.Header, body []byte, now time.Time) (Signed, error)
}

// Signed is what a signature vouches for.
type Signed struct {
	Sender string // who signed
	// Delivery is the sender's own id of what it delivers, the same each time
	// that it tries. It is empty where the signature doesn't cover one.
	Delivery string
}

// unverified is an ErrUnverified that says why, to who debugs a verifier. A
// sender isn't told.
func unverified(why string) error { return fmt.Errorf("%w: %s", ErrUnverified, why) }

// only returns the value of a header that stands once. Where there are two, a
// proxy and this program may each read another one.
func only(h http.Header, name string) (string, error) {
	switch values := h.Values(name); {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return "", unverified("it has no " + name)
	case len(values) > 1:
		return "", unverified("it has " + name + " twice")
	default:
		return values[0], nil
	}
}

// Senders returns a verifier of several senders. A request is the first one's
// that verifies it. Where each sender has a handler of its own, none can answer
// for another.
func Senders(verifiers ...Verifier) (Verifier, error) {
	if len(verifiers) == 0 {
		return nil, errors.New("webhook: Senders is given no verifier")
	}
	for _, v := range verifiers {
		if v == nil {
			return nil, errors.New("webhook: Senders is given a verifier that is nil")
		}
	}
	return senders(verifiers), nil
}

type senders []Verifier

func (all senders) Verify(h http.Header, body []byte, now time.Time) (Signed, error) {
	var failed error
	for _, v := range all {
		by, err := verify(v, h, body, now)
		switch {
		case err == nil:
			return by, nil
		case !errors.Is(err, ErrUnverified):
			failed = err // another one may know the sender
		}
	}
	if failed != nil {
		return Signed{}, failed
	}
	return Signed{}, unverified("no sender's signature is on it")
}

// verify asks a verifier.
func verify(v Verifier, h http.Header, body []byte, now time.Time) (Signed, error) {
	return believed(v.Verify(h, body, now))
}

// believed believes a verifier only if it names a sender.
func believed(by Signed, err error) (Signed, error) {
	switch {
	case err != nil:
		return Signed{}, err
	case by.Sender == "":
		return Signed{}, unverified("its verifier names no sender")
	case strings.ContainsAny(by.Delivery, "\r\n\x00"):
		return Signed{}, unverified("the id of its delivery is no text of one line")
	}
	return by, nil
}
