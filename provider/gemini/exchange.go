package gemini

import (
	"context"
	"io"
	"net/http"

	"github.com/fermata-ai/fermata/llm/wire"
)

// exchange is one request's reply, as the transport keeps it for Generate.
type exchange struct {
	status int
	header http.Header
	body   io.ReadCloser // of a reply of status 2xx; the SDK sees an empty one
}

type exchangeKey struct{}

// begin makes an exchange, and the context by which the transport finds it.
func begin(ctx context.Context) (context.Context, *exchange) {
	x := new(exchange)
	return context.WithValue(ctx, exchangeKey{}, x), x
}

func (x *exchange) close() {
	if x.body != nil {
		x.body.Close()
	}
}

// noKey is what the SDK, which wants a key, is given where the caller's
// transport knows who asks. It is not sent.
const (
	noKey     = "none"
	keyHeader = "X-Goog-Api-Key"
)

// transport stands below the SDK, and takes the bodies of good replies from
// under it.
type transport struct{ http.RoundTripper }

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x, ours := req.Context().Value(exchangeKey{}).(*exchange)
	if !ours {
		return t.RoundTripper.RoundTrip(req)
	}
	x.close()
	*x = exchange{} // of an earlier attempt nothing is left
	if req.Header.Get(keyHeader) == noKey {
		req = req.Clone(req.Context())
		req.Header.Del(keyHeader)
	}
	resp, err := t.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	x.status, x.header = resp.StatusCode, resp.Header
	seen := *resp
	if resp.StatusCode/100 == 2 {
		x.body = resp.Body
		seen.Body, seen.ContentLength = http.NoBody, 0
	}
	return &seen, nil
}

// client returns the caller's with our transport in it. Its timeout is left
// out: it ends when the SDK has read the body, and so would cut off the true
// one.
func client(of *http.Client) *http.Client {
	c := wire.Client(of)
	c.Transport, c.Timeout = transport{c.Transport}, 0
	return c
}
