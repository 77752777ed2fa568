package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// responsesName is the provider of the parts and errors of [Responses].
const responsesName = "openai.responses"

// ResponsesOptions say which model is asked, where, and how. Zero values leave it to the provider.
type ResponsesOptions struct {
	Model   string        // the model's id; required
	APIKey  string        // default: OPENAI_API_KEY, unless BaseURL names a server other than OpenAI's
	BaseURL string        // default: OPENAI_BASE_URL, then OpenAI's own; on Azure "https://NAME.openai.azure.com/openai/v1", perhaps with "?api-version="
	Client  *http.Client  // default: http.DefaultClient; redirections are never followed; a transport that authenticates needs no key
	Timeout time.Duration // of one whole generation; 0: none beyond the context's
	Idle    time.Duration // how long a stream may be silent; comments and pings count as life; 0: 10 minutes, negative: for ever
	Retries int           // by the SDK, before an answer has begun; 0: none, since the agent retries
	Whole   bool          // ask for the message at once in place of a stream
	// Origin is the host that what the model encrypts or signs belongs to, and goes back to alone; default: BaseURL's, where all
	// hosts of OpenAI's are one. A gateway to OpenAI is told of by "api.openai.com".
	Origin string

	// Effort is how much the model is to think, such as "low" or "high". Summary is what it tells of that: "auto", "concise" or
	// "detailed"; without it, reasoning has no text.
	Effort, Summary string
	// NoReasoning says that the model doesn't think. Such a model refuses reasoning, in a conversation that another one began, and
	// to be asked for its own in encrypted form, which every other has to be asked for, since nothing is stored at the provider.
	// It is known of gpt-3.5, gpt-4, chatgpt and gpt-5-chat.
	NoReasoning bool
	// Strict holds the model to the schemas of the tools and of the response format. Every object is closed then, and a member
	// that may be left out comes as null: in a call's arguments such nulls are left out again, in the text of a response format
	// they stay. The arguments of a call come at its end, not in pieces.
	Strict bool
	// Sequential asks for at most one call at a time.
	Sequential bool
	// CacheKey sends prompt_cache_key, which brings the requests of a session
	// to where its cache is, also to a server of which it isn't known that it
	// takes it. It is of OpenAI, Azure and xAI.
	CacheKey bool
	// Extra is a JSON object of members for every request, such as {"service_tier":"flex"}.
	Extra json.RawMessage
}

// String tells the options without the key. However they are printed, logged or encoded, this is what is told.
func (o ResponsesOptions) String() string {
	type plain ResponsesOptions
	o.APIKey, o.BaseURL = wire.ShownKey(o.APIKey), wire.ShownURL(o.BaseURL)
	return fmt.Sprintf("openai.ResponsesOptions%+v", plain(o))
}

// Format is for every verb.
func (o ResponsesOptions) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, o.String()) }

// MarshalText is for log/slog and encoding/json.
func (o ResponsesOptions) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Responses is an [llm.Model] that speaks OpenAI's Responses API. It keeps no state at the provider: every request holds the
// whole conversation, with the model's own items as they came. Where the API can't read the reasoning any more that it once
// encrypted, since the key is another organization's now, say, it is asked again without. Safe for concurrent use.
type Responses struct {
	endpoint endpoint
	service  responses.ResponseService
	origin   wire.Origin
	o        ResponsesOptions
	extra    map[string]json.RawMessage
}

var (
	_ llm.Model       = (*Responses)(nil)
	_ llm.ToolChecker = (*Responses)(nil)
	_ llm.Retrier     = (*Responses)(nil)
)

// taken are the members of a request that Extra mustn't hold: those that have their own place, and those that would leave the
// conversation at the provider.
var taken = []string{
	"include", "input", "instructions", "max_output_tokens", "model", "parallel_tool_calls", "prompt_cache_key", "prompt_cache_retention",
	"reasoning", "store", "stream", "text", "tool_choice", "tools",
	"background", "conversation", "previous_response_id", "prompt",
}

// NewResponses checks the options. It doesn't connect.
func NewResponses(o ResponsesOptions) (*Responses, error) {
	const typ = "ResponsesOptions"
	e, err := connection{o.Model, o.APIKey, o.BaseURL, o.Client, o.Timeout, o.Retries}.open(typ)
	if err != nil {
		return nil, err
	}
	origin, err := wire.NewOrigin(responsesName, ownHost, e.base, o.Origin)
	if err != nil {
		return nil, fmt.Errorf("openai: Responses%w", err)
	}
	if o.NoReasoning && (o.Effort != "" || o.Summary != "") {
		return nil, fmt.Errorf("openai: %s.NoReasoning goes with neither Effort nor Summary", typ)
	}
	o.NoReasoning = o.NoReasoning || o.Effort == "" && o.Summary == "" && knownPlain(o.Model)
	m := &Responses{endpoint: e, service: responses.NewResponseService(e.options...), origin: origin, o: o}
	if len(o.Extra) > 0 {
		if err := json.Unmarshal(o.Extra, &m.extra); err != nil {
			return nil, fmt.Errorf("openai: %s.Extra is no JSON object: %w", typ, err)
		} else if m.extra == nil {
			return nil, fmt.Errorf("openai: %s.Extra is null, and no JSON object", typ)
		}
	}
	for name := range m.extra {
		if slices.Contains(taken, name) {
			return nil, fmt.Errorf("openai: %s.Extra holds %q, which Generate sets itself", typ, name)
		}
	}
	return m, nil
}

// Retries is how often the SDK tries again by itself; see [llm.Retrier].
func (m *Responses) Retries() int { return m.o.Retries }

// String names the model, and never the key.
func (m Responses) String() string { return responsesName + " " + m.o.Model }

// Format is String, for every verb.
func (m Responses) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, m.String()) }

// knownPlain says that a model, or one fine-tuned from it, is of a family from before the models that think.
func knownPlain(model string) bool {
	model = strings.TrimPrefix(model, "ft:")
	for _, family := range []string{"gpt-3.5", "gpt-4", "chatgpt-", "gpt-5-chat"} {
		if strings.HasPrefix(model, family) {
			return true
		}
	}
	return false
}

// Generate implements [llm.Model]. Its errors are [*llm.Error]s, and the context's own.
func (m *Responses) Generate(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		req.Messages = m.origin.Sent(req.Messages)
		made := func(e llm.Event, err error) bool { return yield(m.origin.Made(e), err) }
		how := everything
		if m.o.NoReasoning {
			how = noReasoning
		}
		err := m.generate(ctx, req, how, made)
		if estranged(err) {
			err = m.generate(ctx, req, noNames, made)
		}
		if err != nil {
			yield(nil, m.endpoint.secrets.Error(err))
		}
	}
}

// generate makes one request. The error is nil too where nobody listens any more.
func (m *Responses) generate(outer context.Context, req llm.Request, how memory, yield func(llm.Event, error) bool) error {
	ctx, cancel := m.endpoint.bound(outer)
	defer cancel()
	params, err := m.params(req, how)
	if err != nil {
		return m.endpoint.failure(outer, responsesName, nil, err)
	}
	res, err := m.endpoint.request(outer, responsesName, func(into option.RequestOption) error {
		if m.o.Whole {
			_, err := m.service.New(ctx, params, into)
			return err
		}
		return m.service.NewStreaming(wire.Stream(ctx, responsesName, m.o.Idle), params, into).Err()
	})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	r := newReply(m, yield)
	if m.o.Strict {
		r.schemas = schemas(req.Tools)
	}
	if err := r.read(res); err != nil && !r.over {
		return m.endpoint.failure(outer, responsesName, res, err)
	}
	return nil
}
