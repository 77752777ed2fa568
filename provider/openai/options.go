package openai

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/llm/wire"
)

// Options say which model is asked, where, and how. They are those of both
// APIs: [NewResponses] and [NewChat]. Only Model is required at OpenAI, with
// the key in the environment; Model and BaseURL for a compatible server that
// needs no key:
//
//	Options{Model: "qwen3:8b", BaseURL: "http://localhost:11434/v1"}
type Options struct {
	Model string // the model's id
	// APIKey defaults to OPENAI_API_KEY, unless BaseURL names a server other
	// than OpenAI's: a key goes to none that it isn't for.
	APIKey string
	// BaseURL is the server's, with the version, such as
	// "https://openrouter.ai/api/v1"; default: OPENAI_BASE_URL, then OpenAI's.
	// On Azure it is "https://NAME.openai.azure.com/openai/v1", or, for Chat,
	// names a deployment and the version of the API:
	// "https://NAME.openai.azure.com/openai/deployments/gpt-5?api-version=2025-04-01-preview".
	BaseURL string
	// Client defaults to http.DefaultClient. Redirections are never followed.
	// With a transport of its own, which may authenticate, no key is needed.
	Client  *http.Client
	Timeout time.Duration // of one whole generation; 0: none beyond the context's
	// Idle is how long a stream may be silent. Comments and pings count as
	// life. 0 means 10 minutes, a negative value for ever.
	Idle time.Duration
	// Retries is how often the SDK tries again before an answer has begun. 0
	// means never, since the agent retries.
	Retries int
	Whole   bool // ask for the message at once in place of a stream
	// Origin is the host that owns what the model encrypts or signs: it goes
	// back to that host alone. The default is BaseURL's, where all hosts of
	// OpenAI's are one. A gateway to OpenAI is told of by "api.openai.com".
	Origin string

	// Effort is how much a reasoning model is to think, such as "low" or
	// "high"; default: the model's own.
	Effort string
	// Strict holds the model to the schemas of the tools and of the response
	// format. Every object is closed then, and a member that may be left out
	// comes as null. In a call's arguments such nulls are left out again, in
	// the text of a response format they stay. The arguments of a call come at
	// its end, not in pieces.
	Strict bool
	// Sequential asks for at most one call at a time.
	Sequential bool
	// CacheKey sends prompt_cache_key, which brings the requests of a session
	// to where its cache is, also to a server of which it isn't known that it
	// takes it. OpenAI and Azure take it; Moonshot does in Chat, xAI in
	// Responses.
	CacheKey bool
	// Extra is a JSON object of members for every request, such as
	// {"temperature":0}, or what a compatible server has of its own.
	Extra json.RawMessage

	Chat      ChatOptions      // for NewChat alone
	Responses ResponsesOptions // for NewResponses alone
}

// ChatOptions say how a server's Chat Completions differ from OpenAI's.
type ChatOptions struct {
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
	// Bridge puts a short message of the assistant's between results and a
	// message with the user's role, such as media of the results. Mistral's own
	// service has it always; its models elsewhere may want it.
	Bridge bool
	// NoStreamOptions leaves out stream_options, for servers that refuse it.
	// The usage is then unknown.
	NoStreamOptions bool
}

// ResponsesOptions say what the Responses API is to tell of the model's
// thoughts.
type ResponsesOptions struct {
	// Summary is what the model tells of its thoughts: "auto", "concise" or
	// "detailed". Without it, reasoning has no text.
	Summary string
	// NoReasoning tells that the model doesn't think. Such a model refuses
	// reasoning that another one began a conversation with. It also refuses to
	// be asked for its own in encrypted form. Every other model has to be asked
	// for that, since nothing is stored at the provider. The default is right
	// for gpt-3.5, gpt-4, chatgpt and gpt-5-chat.
	NoReasoning bool
}

// String tells the options without the key. However they are printed, logged or
// encoded, this is what is told.
func (o Options) String() string {
	type plain Options
	o.APIKey, o.BaseURL = wire.ShownKey(o.APIKey), wire.ShownURL(o.BaseURL)
	return fmt.Sprintf("openai.Options%+v", plain(o))
}

// Format is for every verb.
func (o Options) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, o.String()) }

// MarshalText is for log/slog and encoding/json.
func (o Options) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// extra returns the members of Extra. Those that are taken have a place of
// their own in a request.
func (o Options) extra(taken ...string) (members map[string]json.RawMessage, err error) {
	if len(o.Extra) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(o.Extra, &members); err != nil {
		return nil, invalid("Extra is no JSON object: %w", err)
	} else if members == nil {
		return nil, invalid("Extra is no JSON object, but null")
	}
	for name := range members {
		if slices.Contains(taken, name) {
			return nil, invalid("Extra holds %q, which Generate sets itself", name)
		}
	}
	return members, nil
}

// invalid returns the error of an option.
func invalid(format string, args ...any) error {
	return fmt.Errorf("openai: Options."+format,
		args...)
}

// choose checks an option that is one of a few words, and fills in its default.
func choose(field string, value *string, otherwise string, allowed ...string) error {
	if *value == "" {
		*value = otherwise
	}
	if !slices.Contains(allowed, *value) {
		return invalid("%s is %q; it may be %q", field, *value, allowed)
	}
	return nil
}
