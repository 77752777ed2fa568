package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// responsesName is the provider of the parts and errors of [Responses].
const responsesName = "openai.responses"

// Responses is an [llm.Model] that speaks OpenAI's Responses API. It keeps no
// state at the provider: every request holds the whole conversation, with the
// model's own items as they came. Where the API can't read the reasoning any
// more that it once encrypted, since the key is another organization's now,
// say, it is asked again without. Safe for concurrent use.
type Responses struct {
	options Options
	at      endpoint
	service responses.ResponseService
	origin  wire.Origin
	extra   map[string]json.RawMessage
}

var (
	_ llm.Model       = (*Responses)(nil)
	_ llm.ToolChecker = (*Responses)(nil)
	_ llm.Retrier     = (*Responses)(nil)
)

// taken are the members of a request that Extra mustn't hold: those that have
// their own place, and those that would leave the conversation at the provider.
var taken = []string{
	"include", "input", "instructions", "max_output_tokens", "model", "parallel_tool_calls",
	"prompt_cache_key", "prompt_cache_retention",
	"reasoning", "store", "stream", "text", "tool_choice", "tools",
	"background", "conversation", "previous_response_id", "prompt",
}

// NewResponses checks the options. It makes no request.
func NewResponses(o Options) (*Responses, error) {
	if o.Chat != (ChatOptions{}) {
		return nil, invalid("Chat is set: it is for NewChat")
	}
	at, err := o.open()
	if err != nil {
		return nil, err
	}
	origin, err := wire.NewOrigin(responsesName, ownHost, at.base, o.Origin)
	if err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	thinks := o.Effort != "" || o.Responses.Summary != ""
	if o.Responses.NoReasoning && thinks {
		return nil, invalid("Responses.NoReasoning goes with neither Effort nor Responses.Summary")
	}
	o.Responses.NoReasoning = o.Responses.NoReasoning || !thinks && knownPlain(o.Model)
	extra, err := o.extra(taken...)
	if err != nil {
		return nil, err
	}
	return &Responses{options: o, at: at, service: responses.NewResponseService(at.options...),
		origin: origin, extra: extra}, nil
}

// Retries returns how often the SDK tries again by itself; see [llm.Retrier].
func (m *Responses) Retries() int { return m.options.Retries }

// String names the model, and never the key.
func (m Responses) String() string { return responsesName + " " + m.options.Model }

// Format is String, for every verb.
func (m Responses) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, m.String()) }

// knownPlain reports whether a model, or one fine-tuned from it, is of a family
// from before the models that think.
func knownPlain(model string) bool {
	model = strings.TrimPrefix(model, "ft:")
	for _, family := range []string{"gpt-3.5", "gpt-4", "chatgpt-", "gpt-5-chat"} {
		if strings.HasPrefix(model, family) {
			return true
		}
	}
	return false
}

// Generate implements [llm.Model]. Its errors are [*llm.Error]s, and the
// context's own.
func (m *Responses) Generate(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		req.Messages = m.origin.Sent(req.Messages)
		made := func(e llm.Event, err error) bool { return yield(m.origin.Made(e), err) }
		how := everything
		if m.options.Responses.NoReasoning {
			how = noReasoning
		}
		err := m.generate(ctx, req, how, made)
		if estranged(err) {
			err = m.generate(ctx, req, noNames, made)
		}
		if err != nil {
			yield(nil, m.at.secrets.Error(err))
		}
	}
}

// generate makes one request. The error is nil, too, where the caller listens
// no more.
func (m *Responses) generate(outer context.Context, req llm.Request, how memory,
	yield func(llm.Event, error) bool) error {
	ctx, cancel := m.at.bound(outer)
	defer cancel()
	params, err := m.params(req, how)
	if err != nil {
		return m.at.failure(outer, responsesName, nil, err)
	}
	res, err := m.at.request(outer, responsesName, func(into option.RequestOption) error {
		if m.options.Whole {
			_, err := m.service.New(ctx, params, into)
			return err
		}
		return m.service.NewStreaming(wire.Stream(ctx, responsesName, m.options.Idle), params,
			into).Err()
	})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	r := newReply(m, yield)
	if m.options.Strict {
		r.schemas = schemas(req.Tools)
	}
	if err := r.read(res, r); err != nil && !r.over {
		return m.at.failure(outer, responsesName, res, err)
	}
	return nil
}
