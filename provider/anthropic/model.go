package anthropic

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// provider is the name in [llm.Error], and in [llm.Native] as far as this
// package sees it.
const provider = "anthropic"

// maxPauses is how often in one generation a message goes on that the API
// paused, since a tool of its own takes long.
const maxPauses = 16

// Model asks one of Anthropic's models. It is safe for use from many
// goroutines.
type Model struct {
	options Options
	client  sdk.Client
	secrets wire.Secrets
	origin  wire.Origin
}

// New checks the options and makes a Model. Nothing is sent yet.
func New(o Options) (*Model, error) {
	o = o.complete()
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("anthropic: %w", err)
	}
	origin, err := wire.NewOrigin(provider, domain, o.BaseURL, o.Origin)
	if err != nil {
		return nil, fmt.Errorf("anthropic: %w", err)
	}
	// Whatever else is in the environment is no matter of ours: all that counts
	// is in the options.
	opts := []option.RequestOption{
		option.WithoutEnvironmentDefaults(),
		option.WithBaseURL(o.BaseURL),
		option.WithHTTPClient(wire.Client(o.Client)),
		option.WithMaxRetries(o.Retries),
	}
	if o.APIKey != "" {
		opts = append(opts, option.WithAPIKey(o.APIKey))
	}
	for name, values := range o.header() {
		opts = append(opts, option.WithHeaderDel(name))
		for _, v := range values {
			opts = append(opts, option.WithHeaderAdd(name, v))
		}
	}
	return &Model{options: o, client: sdk.NewClient(opts...), secrets: o.secrets(), origin: origin},
		nil
}

// Retries returns how often the SDK tries again by itself; see [llm.Retrier].
func (m *Model) Retries() int { return m.options.Retries }

// String names the model, and never the key.
func (m Model) String() string { return provider + " " + m.options.Model }

// Format is String, for every verb.
func (m Model) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, m.String()) }

// Generate asks the model for the next message. Errors are [*llm.Error], or the
// context's.
//
// Of the request's metadata, "user_id" goes along, by which Anthropic tells an
// application's users apart. A message that the API pauses while one of its own
// tools works goes on by itself, up to 16 times; it counts as one, with the
// usage of all its parts.
func (m *Model) Generate(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		req.Messages = m.origin.Sent(req.Messages)
		if err := m.generate(ctx, req, func(e llm.Event) bool {
			return yield(m.origin.Made(e),
				nil)
		}); err != nil {
			yield(nil, m.secrets.Error(err))
		}
	}
}

// generate returns nil too where yield has had enough.
func (m *Model) generate(ctx context.Context, req llm.Request, yield func(llm.Event) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	params, err := m.params(req)
	if err != nil {
		return err
	}
	caller := ctx
	if m.options.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.options.Timeout)
		defer cancel()
	}
	r := &reply{yield: yield}
	resumed := 0 // messages at the end that are the one that goes on
	for pauses := 0; ; pauses++ {
		r.pausing = pauses < maxPauses
		err := m.ask(ctx, params, r)
		if err != nil && !r.enough && len(r.blocks) == 0 && foreign(err) {
			if params, err = m.params(unthought(req)); err != nil {
				return err
			}
			err = m.ask(ctx, params, r)
		}
		if err != nil && !r.enough {
			return wire.Traced(m.failure(caller, ctx, err), r.header)
		}
		if !r.paused || r.enough {
			return nil
		}
		messages := params.Messages[:len(params.Messages)-resumed]
		params.Messages = append(messages[:len(messages):len(messages)], r.resume())
		resumed = 1
	}
}

// ask makes one request.
func (m *Model) ask(ctx context.Context, params sdk.MessageNewParams, r *reply) error {
	body, err := encode(params)
	if err != nil {
		return invalid("the request can't be encoded: %w", err)
	}
	// The body is what counts; the SDK looks at these for its own ends.
	head := sdk.MessageNewParams{Model: params.Model, MaxTokens: params.MaxTokens}
	opts := []option.RequestOption{option.WithRequestBody("application/json", body)}
	if m.options.Whole {
		return m.whole(ctx, head, opts, r)
	}
	return m.stream(ctx, head, opts, r)
}

// stream reads the message while it is being written.
func (m *Model) stream(ctx context.Context, head sdk.MessageNewParams, opts []option.RequestOption,
	r *reply) error {
	var res *http.Response
	ctx = wire.Stream(ctx, provider, m.options.Idle)
	stream := m.client.Messages.NewStreaming(ctx, head,
		append(opts, option.WithResponseInto(&res))...)
	if err := stream.Err(); err != nil {
		return err
	}
	defer stream.Close()
	r.heard(res)
	if !isStream(res) {
		return r.instead(res)
	}
	for stream.Next() {
		if done, err := r.add(stream.Current()); done || err != nil {
			return err
		}
	}
	if err := stream.Err(); err != nil {
		return err
	}
	return wire.Truncated(provider)
}

// whole reads the message when it is done.
func (m *Model) whole(ctx context.Context, head sdk.MessageNewParams, opts []option.RequestOption,
	r *reply) error {
	var res *http.Response
	// Without a timeout of ours the SDK sets one, and refuses messages that it
	// thinks may take longer.
	const never = 365 * 24 * time.Hour
	opts = append(opts, option.WithRequestTimeout(never),
		option.WithHeaderDel("X-Stainless-Timeout"))
	opts = append(opts, option.WithResponseBodyInto(&res)) // with its body unread
	_, err := m.client.Messages.New(ctx, head, opts...)
	r.heard(res)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return r.instead(res)
}
