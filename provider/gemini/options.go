package gemini

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/llm/wire"
	"google.golang.org/genai"
)

// Options say which model to use, and how to reach it.
type Options struct {
	// Model is the model's id, such as "gemini-3-flash"; "models/" before it
	// makes no difference.
	Model string
	// APIKey defaults to GOOGLE_API_KEY, then GEMINI_API_KEY, in the order of
	// Google's own libraries, unless BaseURL names a server other than the
	// API's own: a key goes to none that it isn't for, nor to the rest of
	// Google's cloud. A Client whose transport authenticates may do without.
	APIKey string
	// BaseURL is where the API is, without its version; default:
	// GOOGLE_GEMINI_BASE_URL, then Google's own.
	BaseURL string
	Client  *http.Client  // default: http.DefaultClient; redirections are never followed
	Timeout time.Duration // of one whole generation; 0: none beyond the context's
	// Idle is how long a stream may be silent. Comments and pings count as
	// life. 0 means 10 minutes, a negative value for ever.
	Idle time.Duration
	// Retries is how often the SDK tries again before an answer has begun. 0
	// means never. An agent that retries too refuses the model: see
	// llm.Retrier.
	Retries int
	Whole   bool // ask for the message at once in place of a stream
	// Origin is the host that what the model encrypts or signs belongs to, and
	// goes back to alone; default: BaseURL's, where all hosts below
	// generativelanguage.googleapis.com are one. A gateway to it is told of by
	// that name.
	Origin string

	Thinking Thinking
}

// Thinking says how much a model thinks before it answers; zero values leave it
// to the model. Level and Budget exclude each other.
type Thinking struct {
	Level   string // for Gemini 3: "minimal", "low", "medium" or "high"
	Budget  *int   // for Gemini 2.5, in tokens; 0: none, -1: as much as the model likes
	Include bool   // summaries of the thoughts come along, as llm.Reasoning
}

// complete fills in the defaults, and says what is wrong with the rest.
func (o Options) complete() (Options, error) {
	if o.Model == "" {
		return o, errors.New("gemini: Options.Model is empty: set the model's id, such as \"gemini-3-flash\"")
	}
	if strings.ContainsAny(o.Model, "?&#%\\ \t\r\n") || strings.Contains(o.Model, "..") {
		return o, fmt.Errorf("gemini: Options.Model is %q, which can't be part of a URL: set the model's id", o.Model)
	}
	if o.BaseURL == "" || isOwn(o.BaseURL) {
		o.APIKey = cmp.Or(o.APIKey, os.Getenv("GOOGLE_API_KEY"), os.Getenv("GEMINI_API_KEY"))
	}
	if o.APIKey == "" && !wire.MayAuthenticate(o.Client) {
		return o, errors.New("gemini: no API key: set Options.APIKey, or, for Google's own service, GEMINI_API_KEY in the environment, " +
			"or give Options.Client a transport that authenticates")
	}
	if strings.ContainsFunc(o.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return o, errors.New("gemini: the API key holds white space, or what no key holds: was it cut out wrongly?")
	}
	var err error
	if o.BaseURL, err = baseURL(cmp.Or(o.BaseURL, os.Getenv("GOOGLE_GEMINI_BASE_URL"),
		"https://generativelanguage.googleapis.com")); err != nil {
		return o, err
	}
	switch {
	case o.Timeout < 0:
		return o, fmt.Errorf("gemini: Options.Timeout is %v: it can't be negative; 0 is none",
			o.Timeout)
	case o.Retries < 0 || o.Retries > 100:
		return o, fmt.Errorf("gemini: Options.Retries is %d: it must be from 0 to 100", o.Retries)
	}
	if o.Thinking.Budget != nil { // what the caller goes on to do with its own is no matter of ours
		own := *o.Thinking.Budget
		o.Thinking.Budget = &own
	}
	return o, o.Thinking.check()
}

// apiVersion is the one that the SDK adds to a base URL.
const apiVersion = "/v1beta"

// isOwn reports whether a base URL is the API's own.
func isOwn(base string) bool { return wire.InDomain(base, domain) }

// domain is the API's own. The rest of googleapis.com is Google's cloud: other
// services, and what customers keep there.
const domain = "generativelanguage.googleapis.com"

func baseURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		// It may hold a password.
		return "", errors.New("gemini: Options.BaseURL (or GOOGLE_GEMINI_BASE_URL) must be like https://generativelanguage.googleapis.com")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("gemini: the base URL holds a user, a query or a fragment: leave them out; the key goes in Options.APIKey")
	}
	return strings.TrimSuffix(strings.TrimRight(s, "/"), apiVersion), nil
}

func (t Thinking) check() error {
	switch t.Level {
	case "", "minimal", "low", "medium", "high":
	default:
		return fmt.Errorf("gemini: Options.Thinking.Level is %q: it must be minimal, low, medium or high", t.Level)
	}
	switch {
	case t.Budget == nil:
		return nil
	case t.Level != "":
		return errors.New("gemini: Options.Thinking has a level and a budget: the API takes one of them")
	case *t.Budget < -1 || *t.Budget > math.MaxInt32:
		return fmt.Errorf("gemini: Options.Thinking.Budget is %d: it must be a number of tokens, 0 or -1", *t.Budget)
	}
	return nil
}

// config returns the wire's form, nil where everything is left to the model.
func (t Thinking) config() *genai.ThinkingConfig {
	if t == (Thinking{}) {
		return nil
	}
	c := &genai.ThinkingConfig{IncludeThoughts: t.Include,
		ThinkingLevel: genai.ThinkingLevel(strings.ToUpper(t.Level))}
	if t.Budget != nil {
		c.ThinkingBudget = genai.Ptr(int32(*t.Budget))
	}
	return c
}

// String tells the options without the key. However they are printed, logged or
// encoded, this is what is told.
func (o Options) String() string {
	type plain Options
	o.APIKey, o.BaseURL = wire.ShownKey(o.APIKey), wire.ShownURL(o.BaseURL)
	return fmt.Sprintf("gemini.Options%+v", plain(o))
}

// Format is for every verb.
func (o Options) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, o.String()) }

// MarshalText is for log/slog and encoding/json.
func (o Options) MarshalText() ([]byte, error) { return []byte(o.String()), nil }
