package wire

import (
	"fmt"
	"net/http"
)

// Client returns a copy of an HTTP client, nil for the default one, that
// follows no redirection: net/http takes along every header but those that it
// knows, and so the key. [TransportError] tells where a service sends requests
// on to. It ends a request for a [Stream] that is silent for too long.
func Client(of *http.Client) *http.Client {
	if of == nil {
		of = http.DefaultClient
	}
	c := *of
	if c.Transport == nil {
		c.Transport = http.DefaultTransport
	}
	c.Transport = streaming{c.Transport}
	c.CheckRedirect = func(r *http.Request, via []*http.Request) error { return redirected{via[0].URL.Host, r.URL.Host} }
	return &c
}

// MayAuthenticate reports whether an HTTP client, which may be nil, has a
// transport of the caller's own making: it may add to each request what a
// service wants in place of a key. One of net/http doesn't.
func MayAuthenticate(c *http.Client) bool {
	if c == nil || c.Transport == nil {
		return false
	}
	_, plain := c.Transport.(*http.Transport)
	return !plain
}

type redirected struct{ from, to string }

func (r redirected) Error() string {
	return fmt.Sprintf("%s sends requests on to %s; if that is right, name it as the base URL",
		r.from, r.to)
}
