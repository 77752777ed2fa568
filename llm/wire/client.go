package wire

import (
	"fmt"
	"net/http"
)

// Client is a copy of an HTTP client, nil for the default one, that follows no redirection: net/http takes along every header but those
// that it knows, and so the key. [TransportError] tells where a service sends requests on to.
func Client(of *http.Client) *http.Client {
	if of == nil {
		of = http.DefaultClient
	}
	c := *of
	c.CheckRedirect = func(r *http.Request, via []*http.Request) error { return redirected{via[0].URL.Host, r.URL.Host} }
	return &c
}

type redirected struct{ from, to string }

func (r redirected) Error() string {
	return fmt.Sprintf("%s sends requests on to %s; if that is right, name it as the base URL", r.from, r.to)
}
