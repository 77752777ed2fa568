package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"time"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// ChatOptions say which model is asked through Chat Completions, and where. Only Model is required at OpenAI, with the key in
// the environment; Model and BaseURL for a compatible server that needs no key:
//
//	ChatOptions{Model: "qwen3:8b", BaseURL: "http://localhost:11434/v1"}
type ChatOptions struct {
	Model string
	// APIKey defaults to OPENAI_API_KEY, unless BaseURL names a server other than OpenAI's: a key goes to none that it isn't for.
	APIKey string
	// BaseURL is the server's, with the version, such as
	// "https://openrouter.ai/api/v1"; default: OPENAI_BASE_URL, then OpenAI's.
	// On Azure it is "https://NAME.openai.azure.com/openai/v1", or names a
	// deployment and the version of the API:
	// "https://NAME.openai.azure.com/openai/deployments/gpt-5?api-version=2025-04-01-preview".
	BaseURL string
	// Client defaults to http.DefaultClient. Redirections are never followed.
	// With a transport of its own, which may authenticate, no key is needed.
	Client  *http.Client
	Timeout time.Duration // of one whole generation; 0: none beyond the context's
	Idle    time.Duration // how long a stream may be silent; comments and pings count as life; 0: 10 minutes, negative: for ever
	Retries int           // by the SDK, before an answer has begun; 0: none, since the agent retries
	Whole   bool          // ask for the message at once in place of a stream
	// Origin is the host that what the model encrypts or signs belongs to, and goes back to alone; default: BaseURL's, where all
	// hosts of OpenAI's are one. A gateway to OpenAI is told of by "api.openai.com".
	Origin string

	// Effort is how much a reasoning model is to think, such as "low" or "high"; default: the model's own.
	Effort string
	// Strict holds the model to the schemas of the tools and of the response format. Every object is closed then, and a member
	// that may be left out comes as null: in a call's arguments such nulls are left out again, in the text of a response format
	// they stay. The arguments of a call come at its end, not in pieces.
	Strict bool
	// Sequential asks for at most one call at a time.
	Sequential bool

	// SystemRole is the role of Request.System: "developer" (default at OpenAI
	// and on Azure) or "system" (default elsewhere).
	SystemRole string
	// LimitField is where Limits.OutputTokens goes: "max_completion_tokens"
	// (default at OpenAI and on Azure) or "max_tokens" (default elsewhere).
	LimitField string
	// CallIDs is the form of the ids of calls that the server takes; default:
	// what OpenAI, Mistral, and most others do. Mistral's models elsewhere may
	// want wire.Form{Min: 9, Max: 9}.
	CallIDs wire.Form
	// CacheKey sends prompt_cache_key, which brings the requests of a session
	// to where its cache is, also to a server of which it isn't known that it
	// takes it. It is of OpenAI, Azure and Moonshot.
	CacheKey bool
	// NoStreamOptions leaves out stream_options, for servers that refuse it; the usage is then unknown.
	NoStreamOptions bool
	// Extra is a JSON object of members for every request, such as {"temperature":0} or what a compatible server has of its own.
	Extra json.RawMessage
}

// String tells the options without the key. However they are printed, logged or encoded, this is what is told.
func (o ChatOptions) String() string {
	type plain ChatOptions
	o.APIKey, o.BaseURL = wire.ShownKey(o.APIKey), wire.ShownURL(o.BaseURL)
	return fmt.Sprintf("openai.ChatOptions%+v", plain(o))
}

// Format is for every verb.
func (o ChatOptions) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, o.String()) }

// MarshalText is for log/slog and encoding/json.
func (o ChatOptions) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Chat is a model behind Chat Completions. It is safe for use from many goroutines.
type Chat struct {
	options ChatOptions
	at      endpoint
	name    string // in Native.Provider and Error.Provider
	service openai.ChatCompletionService
	extra   map[string]json.RawMessage
}

var (
	_ llm.Model       = (*Chat)(nil)
	_ llm.ToolChecker = (*Chat)(nil)
	_ llm.Retrier     = (*Chat)(nil)
)

// NewChat checks the options. It makes no request.
func NewChat(o ChatOptions) (*Chat, error) {
	at, err := connection{o.Model, o.APIKey, o.BaseURL, o.Client, o.Timeout, o.Retries}.open("ChatOptions")
	if err != nil {
		return nil, err
	}
	origin, err := wire.NewOrigin("openai.chat", ownHost, at.base, o.Origin)
	if err != nil {
		return nil, fmt.Errorf("openai: Chat%w", err)
	}
	c := &Chat{options: o, at: at, name: origin.Name(), service: openai.NewChatCompletionService(at.options...)}
	role, limit := "developer", "max_completion_tokens"
	if !at.openai {
		role, limit = "system", "max_tokens"
	}
	if err := choose("SystemRole", &c.options.SystemRole, role, "developer", "system"); err != nil {
		return nil, err
	}
	if err := choose("LimitField", &c.options.LimitField, limit, "max_completion_tokens", "max_tokens"); err != nil {
		return nil, err
	}
	if f := o.CallIDs; f != (wire.Form{}) && (f.Max < 1 || f.Min < 0 || f.Min > f.Max) {
		return nil, fmt.Errorf("openai: ChatOptions.CallIDs is of %d to %d bytes; Max must be at least 1, and Min from 0 to Max", f.Min, f.Max)
	}
	if len(o.Extra) > 0 {
		if err := json.Unmarshal(o.Extra, &c.extra); err != nil {
			return nil, fmt.Errorf("openai: ChatOptions.Extra is no JSON object: %w", err)
		} else if c.extra == nil {
			return nil, errors.New("openai: ChatOptions.Extra is no JSON object, but null")
		}
	}
	for _, taken := range []string{"messages", "model", "n", "stream", "stream_options", "tools"} {
		if _, ok := c.extra[taken]; ok {
			return nil, fmt.Errorf("openai: ChatOptions.Extra holds %q, which Generate sets itself", taken)
		}
	}
	return c, nil
}

// Retries is how often the SDK tries again by itself; see [llm.Retrier].
func (c *Chat) Retries() int { return c.options.Retries }

// String names the model, and never the key.
func (c Chat) String() string { return c.name + " " + c.options.Model }

// Format is String, for every verb.
func (c Chat) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

func choose(field string, value *string, otherwise string, allowed ...string) error {
	if *value == "" {
		*value = otherwise
	}
	for _, a := range allowed {
		if *value == a {
			return nil
		}
	}
	return fmt.Errorf("openai: ChatOptions.%s is %q; it may be %q", field, *value, allowed)
}

// Generate implements [llm.Model].
func (c *Chat) Generate(ctx context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if err := c.generate(ctx, r, yield); err != nil && err != errStopped {
			yield(nil, c.at.secrets.Error(err))
		}
	}
}

func (c *Chat) generate(outer context.Context, r llm.Request, yield func(llm.Event, error) bool) error {
	params, err := c.params(r)
	if err != nil {
		return wire.Invalid(c.name, "%w", err)
	}
	ctx, cancel := c.at.bound(outer)
	defer cancel()
	res, err := c.at.request(outer, c.name, func(into option.RequestOption) error {
		if c.options.Whole {
			_, err := c.service.New(ctx, params, into)
			return err
		}
		return c.service.NewStreaming(wire.Stream(ctx, c.name, c.options.Idle), params, into).Err()
	})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	reply := newChatReply(c, r.Tools, func(e llm.Event) error {
		if err := outer.Err(); err != nil {
			return err
		}
		if !yield(e, nil) {
			return errStopped
		}
		return nil
	})
	if err := reply.read(res); err == errStopped {
		return err
	} else if err != nil {
		return c.at.failure(outer, c.name, res, err)
	}
	return nil
}
