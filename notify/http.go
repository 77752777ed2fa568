package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/fermata-ai/fermata/webhook"
)

// HTTPConfig is for [HTTP].
type HTTPConfig struct {
	// URL is where notifications go.
	URL string
	// Secrets sign them, as webhook.Sign has it: one, or several while one
	// replaces another, each with a signature of its own.
	Secrets []string
	// Transport makes the requests; default http.DefaultTransport.
	Transport http.RoundTripper
	// Now is the clock of the signatures; default time.Now.
	Now func() time.Time
}

// HTTP returns a sender that posts each notification to a URL, signed as Standard
// Webhooks (https://www.standardwebhooks.com) has it. The header webhook-id is
// the notification's ID, so the receiver can tell one that comes again. The body
// is
//
//	{"type": "needs_person", "timestamp": "2025-01-02T03:04:05Z", "data": ...}
//
// where type and timestamp are the Kind and At of the notification, and data is
// all of it. A status of 2xx is the only one that counts as taken. No
// redirection is followed.
func HTTP(c HTTPConfig) (Sender, error) {
	p, err := newPoster(c.URL, c.Transport)
	if err != nil {
		return nil, err
	}
	s := &httpSender{poster: p, secrets: append([]string(nil), c.Secrets...), now: c.Now}
	if s.now == nil {
		s.now = time.Now
	}
	if len(s.secrets) == 0 {
		return nil, errors.New("notify: HTTPConfig.Secrets is empty: what isn't signed can't be told " +
			"from what anyone sends")
	}
	if err := s.sign(http.Header{}, "n1_try", nil); err != nil {
		return nil, err
	}
	return s, nil
}

type httpSender struct {
	*poster
	secrets []string
	now     func() time.Time
}

func (s *httpSender) sign(h http.Header, id string, body []byte) error {
	now := s.now()
	for _, secret := range s.secrets {
		if err := webhook.Sign(h, secret, id, now, body); err != nil {
			return err
		}
	}
	return nil
}

func (s *httpSender) Send(ctx context.Context, n Notification) error {
	body, err := json.Marshal(struct {
		Type      Kind         `json:"type"`
		Timestamp time.Time    `json:"timestamp"`
		Data      Notification `json:"data"`
	}{n.Kind, n.At, n})
	if err != nil {
		return err
	}
	h := http.Header{}
	if err := s.sign(h, n.ID, body); err != nil {
		return err
	}
	return s.post(ctx, h, body)
}

// poster posts JSON to one URL.
type poster struct {
	url    string
	client http.Client
}

func newPoster(to string, transport http.RoundTripper) (*poster, error) {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		// The URL may be a secret.
		return nil, errors.New("notify: the URL to send to is no absolute one of http or https")
	}
	p := &poster{url: to}
	p.client.Transport = transport
	p.client.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}
	return p, nil
}

// post makes a request. No error of it has the URL, which may be a secret.
func (p *poster) post(ctx context.Context, h http.Header, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return errors.New("notify: the request can't be made")
	}
	req.Header = h
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "fermata")
	res, err := p.client.Do(req)
	if err != nil {
		var named *url.Error
		if errors.As(err, &named) {
			err = named.Err
		}
		return fmt.Errorf("notify: the request failed: %w", err)
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, 64<<10) // so that the connection can be used again
	if res.StatusCode/100 == 2 {
		return nil
	}
	err = fmt.Errorf("notify: the receiver answers with status %d", res.StatusCode)
	if seconds, bad := strconv.Atoi(res.Header.Get("Retry-After")); bad == nil && seconds > 0 {
		return &LaterError{After: time.Duration(min(seconds, maxLaterSeconds)) * time.Second,
			Err: err}
	}
	return err
}

// LaterError is the error of a sender that is not to be asked again before After
// is over. More than a day isn't waited.
type LaterError struct {
	After time.Duration
	Err   error
}

func (e *LaterError) Error() string { return e.Err.Error() }
func (e *LaterError) Unwrap() error { return e.Err }

const (
	maxLater        = 24 * time.Hour
	maxLaterSeconds = int(maxLater / time.Second)
)
