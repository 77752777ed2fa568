package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// endpoint is where the options lead to, once they were checked.
type endpoint struct {
	model string
	base  string // the base URL
	host  string // its host, with its port if it has one
	own   bool   // OpenAI itself
	// It, or Azure: their API is OpenAI's to the letter, where compatible
	// servers are more lenient, or lack something.
	openai  bool
	secrets wire.Secrets
	timeout time.Duration
	options []option.RequestOption
}

// open checks the options of the way to the server.
//
// The environment (OPENAI_BASE_URL, OPENAI_API_KEY, and what else the SDK
// reads) belongs together: it is left aside where BaseURL names a server other
// than OpenAI's, so that a key for one never goes to the other.
func (o Options) open() (endpoint, error) {
	fail := func(format string, args ...any) (endpoint, error) {
		return endpoint{}, invalid(format, args...)
	}
	switch {
	case strings.TrimSpace(o.Model) == "":
		return fail("Model is empty; give it the id of a model, such as %q", "gpt-5-mini")
	case o.Timeout < 0:
		return fail("Timeout is negative (%v); 0 means none", o.Timeout)
	case o.Retries < 0:
		return fail("Retries is negative (%d); 0 means none", o.Retries)
	}
	base := cmp.Or(o.BaseURL, os.Getenv("OPENAI_BASE_URL"), ownURL)
	u, version, err := parseBase(base)
	if err != nil {
		return fail("BaseURL (or OPENAI_BASE_URL) %w; it looks like %q", err, ownURL)
	}
	e := endpoint{model: o.Model, base: u.String(), host: strings.ToLower(u.Host),
		timeout: o.Timeout}
	e.own = wire.InDomain(e.base, ownHost)
	azure := isAzure(u)
	e.openai = e.own || azure

	key := o.APIKey
	if o.BaseURL == "" || e.own {
		e.options = openai.DefaultClientOptions()
		key = cmp.Or(key, os.Getenv("OPENAI_API_KEY"))
	}
	switch {
	case key == "" && e.own && !wire.MayAuthenticate(o.Client):
		return fail("APIKey is empty, and so is OPENAI_API_KEY: OpenAI needs a key, or a Client whose transport authenticates; servers that need neither are named by BaseURL")
	case key == "" && azure && !wire.MayAuthenticate(o.Client):
		return fail("APIKey is empty: Azure needs a key of the resource, or a Client whose transport adds a token of Microsoft Entra")
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		// The key itself is not told.
		return fail("APIKey (or OPENAI_API_KEY) holds a space, a line break or the like")
	}
	e.secrets = wire.NewSecrets(key, nil)
	if o.BaseURL == "" || e.own {
		e.secrets = wire.NewSecrets(key, environment())
	}
	e.options = append(e.options, option.WithBaseURL(u.String()), option.WithAPIKey(key),
		option.WithHTTPClient(wire.Client(o.Client)), option.WithMaxRetries(o.Retries))
	if version != "" {
		e.options = append(e.options, option.WithQuery("api-version", version))
	}
	if azure && key != "" {
		// As a bearer, it takes tokens.
		e.options = append(e.options, option.WithAPIKey(""), option.WithHeader("api-key", key))
	}
	return e, nil
}

// parameters returns a tool's schema, as the API takes it.
func (e endpoint) parameters(d wire.Dialect, t llm.ToolDef) (json.RawMessage, error) {
	schema, err := d.Convert(t.Input)
	if err != nil || !e.openai { // compatible servers take more
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

// isImage reports whether OpenAI looks at images of a type; it refuses a
// request with another.
func isImage(sub string) bool {
	switch sub {
	case "png", "jpeg", "jpg", "gif", "webp":
		return true
	}
	return false
}

// parseBase takes a base URL, and from its query the version of the API, which
// Azure wants there and OpenAI doesn't know. It doesn't quote the URL in its
// errors, since there may be a password in it.
func parseBase(base string) (u *url.URL, version string, err error) {
	fail := func(problem string) (*url.URL, string, error) { return nil, "", errors.New(problem) }
	if u, err = url.Parse(base); err != nil {
		return fail("is no URL")
	}
	query, err := url.ParseQuery(u.RawQuery)
	version = query.Get("api-version")
	query.Del("api-version")
	path := strings.TrimRight(u.Path, "/")
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return fail("begins with neither http:// nor https://")
	case u.Hostname() == "":
		return fail("names no host")
	case u.User != nil:
		return fail("holds a user; credentials that are no API key are the business of Client's transport")
	case err != nil || len(query) > 0 || u.Fragment != "":
		return fail("has a query other than api-version, or a fragment")
	case strings.HasSuffix(path, "/chat/completions"), strings.HasSuffix(path, "/responses"):
		return fail("goes on behind the version, or the deployment, which the API's own path follows")
	}
	u.RawQuery = ""
	return u, version, nil
}

// isAzure reports whether OpenAI's models are asked on Azure: of a resource of
// its own, by a deployment or by the newer path /openai/v1. What else Azure has
// at other paths is as any compatible server.
func isAzure(u *url.URL) bool {
	if path := strings.ToLower(u.Path) + "/"; !strings.HasPrefix(path, "/openai/") {
		return false
	}
	for _, cloud := range []string{"azure.com", "azure.us", "azure.cn"} {
		if wire.InDomain(u.String(), cloud) {
			return true
		}
	}
	return false
}

// environment returns what the SDK takes from there as headers, and may hold a
// key.
func environment() http.Header {
	h := http.Header{"Admin-Key": {os.Getenv("OPENAI_ADMIN_KEY")}}
	for line := range strings.Lines(os.Getenv("OPENAI_CUSTOM_HEADERS")) {
		name, value, _ := strings.Cut(line, ":")
		h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return h
}

// bound returns the context of one generation.
func (e endpoint) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if e.timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, e.timeout)
}
