package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/llm/wire"
)

// Options say which model is asked, where, and how. Model is required.
type Options struct {
	Model string // the model's id, such as "claude-opus-5-5"
	// APIKey defaults to ANTHROPIC_API_KEY, unless BaseURL names a server other
	// than Anthropic's, which may do without.
	APIKey  string
	BaseURL string        // default: ANTHROPIC_BASE_URL, then https://api.anthropic.com
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
	// goes back to alone; default: BaseURL's, where all hosts of Anthropic's
	// are one. A gateway to Anthropic is told of by "api.anthropic.com".
	Origin string

	// MaxTokens bounds a message where the request's Limits don't; the API
	// wants to be told. Default: 16384, and the thinking budget on top.
	// Thinking counts.
	MaxTokens int
	// Thinking is how the model thinks before it answers.
	Thinking Thinking
	// Effort is how much the model puts into its answer: "low", "medium",
	// "high", "xhigh" or "max", as far as it knows them.
	Effort string
	// Strict holds the model to the tools' schemas. Their objects then take no
	// other properties than those they name, and tools that can't be told so
	// are refused by CheckTools.
	Strict bool
	// ServerTools are tools that Anthropic runs itself, as the API takes them:
	//
	//	{"type": "web_search_20250305", "name": "web_search"}
	ServerTools []json.RawMessage
	// Betas are the names of beta features to be turned on: the header
	// anthropic-beta.
	Betas []string
	// Header is sent with each request, in place of what the SDK sends under
	// the same name.
	Header http.Header
}

// Thinking configures the model's reasoning, in the API's own terms. Which
// types a model knows, and what it does without, is told in its documentation.
//
// With "enabled", the API wants each message with calls to begin with thinking.
// A turn that another model began goes on without. And there as with
// "adaptive", the API may refuse a tool choice that forces a call: such
// requests need a Model without thinking.
type Thinking struct {
	// Type is "" for what the model does by itself, "adaptive", "enabled",
	// "between_tools" or "disabled".
	Type   string
	Budget int // tokens, 1024 at least: with "enabled" only
	// Display is "" for the model's default or, with "adaptive" and "enabled",
	// "summarized" or "omitted".
	Display string
}

const (
	defaultURL       = "https://api.anthropic.com"
	domain           = "anthropic.com"
	defaultMaxTokens = 16384
	minBudget        = 1024 // by the API
)

// complete fills in what the environment knows, and what is left out.
func (o Options) complete() Options {
	// The environment's key goes to no server that it isn't for.
	if o.APIKey == "" && (o.BaseURL == "" || isOwn(o.BaseURL)) {
		o.APIKey = os.Getenv("ANTHROPIC_API_KEY")
	}
	if o.BaseURL == "" {
		o.BaseURL = os.Getenv("ANTHROPIC_BASE_URL")
	}
	if o.BaseURL == "" {
		o.BaseURL = defaultURL
	}
	if o.MaxTokens == 0 {
		o.MaxTokens = defaultMaxTokens + o.Thinking.Budget
	}
	// What the caller goes on to do with its own is no matter of ours.
	o.ServerTools, o.Betas, o.Header = slices.Clone(o.ServerTools), slices.Clone(o.Betas), o.Header.Clone()
	for i, raw := range o.ServerTools {
		o.ServerTools[i] = bytes.Clone(raw)
	}
	return o
}

// isOwn reports whether a base URL is Anthropic's.
func isOwn(base string) bool { return wire.InDomain(base, domain) }

// check reports the first thing that is wrong. No value that may be a secret is
// in the error.
func (o Options) check() error {
	if strings.TrimSpace(o.Model) == "" {
		return errors.New(`Options.Model is empty: name one, such as "claude-opus-5-5"`)
	}
	base, err := url.Parse(o.BaseURL)
	switch {
	case err != nil: // the error quotes the URL, which may hold a password
		return errors.New("Options.BaseURL (or ANTHROPIC_BASE_URL) is no URL")
	case base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		return fmt.Errorf("the base URL %q must begin with https:// and a host", base.Redacted())
	case base.RawQuery != "" || base.Fragment != "":
		return errors.New("the base URL must end with its path: without ? and #")
	case strings.HasSuffix(strings.TrimRight(base.Path, "/"), "/v1"):
		return fmt.Errorf("the base URL %q ends in /v1, which is put there anyway: leave it out",
			base.Redacted())
	case o.APIKey == "" && isOwn(o.BaseURL) && !wire.MayAuthenticate(o.Client) &&
		o.header().Get("Authorization")+o.header().Get("X-Api-Key") == "":
		return errors.New("no API key: set Options.APIKey or ANTHROPIC_API_KEY, or give Options.Client a transport that authenticates")
	case strings.ContainsFunc(o.APIKey, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return errors.New("the API key holds white space, a line break or another character that no key has: was it read from a file?")
	case o.Timeout < 0:
		return fmt.Errorf("Options.Timeout is %v: it must not be negative", o.Timeout)
	case o.Retries < 0:
		return fmt.Errorf("Options.Retries is %d: it must not be negative", o.Retries)
	case o.MaxTokens < 1:
		return fmt.Errorf("Options.MaxTokens is %d: it must be above zero", o.MaxTokens)
	}
	if err := o.Thinking.check(o.MaxTokens); err != nil {
		return err
	}
	if known := []string{"", "low", "medium", "high", "xhigh", "max"}; !slices.Contains(known,
		o.Effort) {
		return fmt.Errorf("Options.Effort is %q: it must be one of %q", o.Effort, known[1:])
	}
	for name, values := range o.Header {
		if name == "" || strings.ContainsAny(name, " :\t\r\n") ||
			strings.ContainsAny(strings.Join(values, ""), "\r\n\x00") {
			name, _, _ = strings.Cut(name, ":") // a caller may have put a key there, too
			return fmt.Errorf("the header %q can't be sent: check its name, and its value for line breaks", name)
		}
	}
	for i, name := range o.serverNames() {
		if name == "" {
			return fmt.Errorf(`Options.ServerTools[%d] must be an object with "type" and "name", as the API takes it`, i)
		}
	}
	return nil
}

// serverNames returns the names of the server tools; one that is no tool has
// none.
func (o Options) serverNames() []string {
	names := make([]string, len(o.ServerTools))
	for i, raw := range o.ServerTools {
		var tool struct{ Type, Name string }
		if err := json.Unmarshal(raw, &tool); err == nil && tool.Type != "" {
			names[i] = tool.Name
		}
	}
	return names
}

func (t Thinking) check(maxTokens int) error {
	switch t.Type {
	case "", "adaptive", "between_tools", "disabled":
		if t.Budget != 0 {
			return fmt.Errorf(`Thinking.Budget is for the type "enabled" only, not for %q`, t.Type)
		}
	case "enabled":
		if t.Budget < minBudget {
			return fmt.Errorf("Thinking.Budget is %d: it must be %d at least", t.Budget, minBudget)
		}
		if t.Budget >= maxTokens {
			return fmt.Errorf("Thinking.Budget (%d) must be less than Options.MaxTokens (%d), of which it is a part", t.Budget, maxTokens)
		}
	default:
		return fmt.Errorf(`Thinking.Type is %q: it must be "adaptive", "enabled", "between_tools", "disabled" or empty`, t.Type)
	}
	switch {
	case t.Display == "":
	case t.Display != "summarized" && t.Display != "omitted":
		return fmt.Errorf(`Thinking.Display is %q: it must be "summarized", "omitted" or empty`,
			t.Display)
	case t.Type != "adaptive" && t.Type != "enabled":
		return fmt.Errorf(`Thinking.Display is for the types "adaptive" and "enabled" only, not for %q`, t.Type)
	}
	return nil
}

// header returns what is sent beside what the SDK sends.
func (o Options) header() http.Header {
	h := make(http.Header)
	for name, values := range o.Header {
		h[textproto.CanonicalMIMEHeaderKey(name)] = values
	}
	if len(o.Betas) > 0 {
		h.Add("Anthropic-Beta", strings.Join(o.Betas, ","))
	}
	return h
}

// secrets returns what no error tells.
func (o Options) secrets() wire.Secrets {
	s := wire.NewSecrets(o.APIKey, o.header())
	if u, err := url.Parse(o.BaseURL); err == nil && u.User != nil {
		password, _ := u.User.Password()
		s = append(s, wire.NewSecrets(password, nil)...)
	}
	return s
}

// String tells the options without the key, and without what headers and the
// base URL hold of one. However they are printed, logged or encoded, this is
// what is told.
func (o Options) String() string {
	type plain Options
	o.APIKey, o.Header, o.BaseURL = wire.ShownKey(o.APIKey), wire.ShownHeader(o.Header), wire.ShownURL(o.BaseURL)
	return fmt.Sprintf("anthropic.Options%+v", plain(o))
}

// Format is for every verb.
func (o Options) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, o.String()) }

// MarshalText is for log/slog and encoding/json.
func (o Options) MarshalText() ([]byte, error) { return []byte(o.String()), nil }
