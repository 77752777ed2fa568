package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

const (
	ownURL  = "https://api.openai.com/v1"
	ownHost = "openai.com" // and every host below it, such as eu.api.openai.com
)

// connection is what the options of both APIs say about the way to the server.
type connection struct {
	Model   string
	APIKey  string
	BaseURL string
	Client  *http.Client
	Timeout time.Duration
	Retries int
}

// endpoint is a connection that was checked.
type endpoint struct {
	model   string
	base    string // the base URL
	host    string // its host, with its port if it has one
	own     bool   // OpenAI itself, not a server that speaks its API
	secrets wire.Secrets
	timeout time.Duration
	options []option.RequestOption
}

// open checks a connection. typ is the name of the options, for errors.
//
// The environment (OPENAI_BASE_URL, OPENAI_API_KEY, and what else the SDK reads) belongs together: it is left aside where
// BaseURL names a server other than OpenAI's, so that a key for one never goes to the other.
func (c connection) open(typ string) (endpoint, error) {
	fail := func(format string, args ...any) (endpoint, error) {
		return endpoint{}, fmt.Errorf("openai: "+typ+"."+format, args...)
	}
	switch {
	case strings.TrimSpace(c.Model) == "":
		return fail("Model is empty; give it the id of a model, such as %q", "gpt-5-mini")
	case c.Timeout < 0:
		return fail("Timeout is negative (%v); 0 means none", c.Timeout)
	case c.Retries < 0:
		return fail("Retries is negative (%d); 0 means none", c.Retries)
	}
	base := cmp.Or(c.BaseURL, os.Getenv("OPENAI_BASE_URL"), ownURL)
	u, err := parseBase(base)
	if err != nil {
		return fail("BaseURL (or OPENAI_BASE_URL) %w; it looks like %q", err, ownURL)
	}
	e := endpoint{model: c.Model, base: u.String(), host: strings.ToLower(u.Host), timeout: c.Timeout}
	e.own = wire.InDomain(e.base, ownHost)

	key := c.APIKey
	if c.BaseURL == "" || e.own {
		e.options = openai.DefaultClientOptions()
		key = cmp.Or(key, os.Getenv("OPENAI_API_KEY"))
	}
	switch {
	case key == "" && e.own:
		return fail("APIKey is empty, and so is OPENAI_API_KEY: OpenAI needs a key; servers that need none are named by BaseURL")
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return fail("APIKey (or OPENAI_API_KEY) holds a space, a line break or the like") // the key itself is not told
	}
	e.secrets = wire.NewSecrets(key, nil)
	if c.BaseURL == "" || e.own {
		e.secrets = wire.NewSecrets(key, environment())
	}
	e.options = append(e.options, option.WithBaseURL(u.String()), option.WithAPIKey(key),
		option.WithHTTPClient(wire.Client(c.Client)), option.WithMaxRetries(c.Retries),
		option.WithMiddleware(boundErrors))
	return e, nil
}

// parameters is a tool's schema, as the API takes it.
func (e endpoint) parameters(d wire.Dialect, t llm.ToolDef) (json.RawMessage, error) {
	schema, err := d.Convert(t.Input)
	if err != nil || !e.own { // compatible servers take more
		return schema, err
	}
	var root map[string]json.RawMessage
	if err := json.Unmarshal(schema, &root); err != nil {
		return nil, err
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf", "enum", "const", "not"} {
		if _, ok := root[key]; ok {
			return nil, fmt.Errorf("at its root, the schema has %s, which the API doesn't take there: put it into a property", key)
		}
	}
	return schema, nil
}

// isImage says whether OpenAI looks at images of a type; it refuses a request with another.
func isImage(sub string) bool {
	switch sub {
	case "png", "jpeg", "jpg", "gif", "webp":
		return true
	}
	return false
}

// boundErrors keeps an endless error from filling the memory: the SDK reads them to their end.
func boundErrors(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	const most = 1 << 20
	res, err := next(r)
	if err == nil && res.StatusCode >= 400 && res.Body != nil {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, most), res.Body}
	}
	return res, err
}

// parseBase doesn't quote the URL in its errors, since there may be a password in it.
func parseBase(base string) (*url.URL, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return nil, errors.New("is no URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("begins with neither http:// nor https://")
	case u.Hostname() == "":
		return nil, errors.New("names no host")
	case u.User != nil:
		return nil, errors.New("holds a user; credentials that are no API key are the business of Client's transport")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("has a query or fragment")
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/chat/completions"), strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/responses"):
		return nil, errors.New("goes on behind the version, which the API's own path follows")
	}
	return u, nil
}

// environment is what the SDK takes from there as headers, and may hold a key.
func environment() http.Header {
	h := http.Header{"Admin-Key": {os.Getenv("OPENAI_ADMIN_KEY")}}
	for line := range strings.Lines(os.Getenv("OPENAI_CUSTOM_HEADERS")) {
		name, value, _ := strings.Cut(line, ":")
		h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return h
}

// bound is the context of one generation.
func (e endpoint) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if e.timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, e.timeout)
}
