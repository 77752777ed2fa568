package gemini

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
	"google.golang.org/genai"
)

// provider is the name under which errors are told, and native parts kept as
// far as this package sees it.
const provider = "gemini"

// Model is an [llm.Model] and an [llm.ToolChecker]. It may be used by many
// goroutines at once.
type Model struct {
	options Options
	models  *genai.Models
	secrets wire.Secrets
	origin  wire.Origin
}

// New makes a model. It reads the environment where the options leave something
// out, and calls no server.
func New(o Options) (*Model, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	origin, err := wire.NewOrigin(provider, domain, o.BaseURL, o.Origin)
	if err != nil {
		return nil, fmt.Errorf("gemini: %w", err)
	}
	config := &genai.ClientConfig{
		Backend:     genai.BackendGeminiAPI,
		APIKey:      cmp.Or(o.APIKey, noKey),
		HTTPClient:  client(o.Client),
		HTTPOptions: genai.HTTPOptions{BaseURL: o.BaseURL, APIVersion: apiVersion[1:]},
	}
	if o.Retries > 0 {
		config.HTTPOptions.RetryOptions = &genai.HTTPRetryOptions{Attempts: genai.Ptr(int32(o.Retries + 1))}
	}
	c, err := genai.NewClient(context.Background(), config)
	if err != nil {
		// Its error would show the key.
		return nil, errors.New("gemini: the SDK takes no such options")
	}
	return &Model{o, c.Models, wire.NewSecrets(o.APIKey, nil), origin}, nil
}

// Retries returns how often the SDK tries again by itself; see [llm.Retrier].
func (m *Model) Retries() int { return m.options.Retries }

// String names the model, and never the key.
func (m Model) String() string { return provider + " " + m.options.Model }

// Format is String, for every verb.
func (m Model) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, m.String()) }

// Generate implements [llm.Model]. Errors are an [*llm.Error], or the context's
// own.
func (m *Model) Generate(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		req.Messages = m.origin.Sent(req.Messages)
		made := func(e llm.Event, err error) bool { return yield(m.origin.Made(e), err) }
		if err := m.generate(ctx, req, &turn{yield: made}); err != nil &&
			!errors.Is(err, errStopped) {
			yield(nil, m.secrets.Error(err))
		}
	}
}

func (m *Model) generate(outer context.Context, req llm.Request, t *turn) error {
	config, err := m.config(req)
	if err != nil {
		return err
	}
	ctx, x := begin(outer)
	limit, late := m.limit()
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	defer x.close()
	err = m.send(ctx, config)
	if err == nil {
		err = m.receive(x, t)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errStopped):
		return err
	case ctx.Err() != nil && outer.Err() == nil:
		return wire.Traced(late, x.header)
	}
	return wire.Traced(m.failure(outer, x, err), x.header)
}

// limit returns how long a generation may take, 0 for ever, and what it is
// then: the options' Timeout, or the HTTP client's, which our transport has to
// keep in its place.
func (m *Model) limit() (time.Duration, error) {
	limit := m.options.Timeout
	if c := m.options.Client; c != nil && c.Timeout > 0 && (limit == 0 || c.Timeout < limit) {
		return c.Timeout, wire.ClientTimeout(provider)
	}
	return limit, wire.Timeout(provider, limit)
}

// send sends the request. The reply is in the exchange then.
func (m *Model) send(ctx context.Context, config *genai.GenerateContentConfig) error {
	if m.options.Whole {
		_, err := m.models.GenerateContent(ctx, m.options.Model, nil, config)
		return err
	}
	ctx = wire.Stream(ctx, provider, m.options.Idle)
	for _, err := range m.models.GenerateContentStream(ctx, m.options.Model, nil, config) {
		if err != nil {
			return err
		}
	}
	return nil
}

// receive reads the reply to its end.
func (m *Model) receive(x *exchange, t *turn) error {
	if m.options.Whole {
		if err := m.receiveWhole(x, t); err != nil {
			return err
		}
	} else {
		for data, err := range events(x.body) {
			var instead *notEvents
			switch {
			case err == nil:
				err = t.read(data)
			case errors.As(err, &instead) && instead.isWhole():
				err = t.readAll(instead.text)
			}
			if err != nil {
				return err
			}
		}
	}
	if err := t.rest(); err != nil {
		return err
	}
	reason, err := t.stop()
	if err != nil {
		return err
	}
	return t.emit(llm.Finish{Reason: reason, Word: string(t.finish), Usage: t.usage})
}

func (m *Model) receiveWhole(x *exchange, t *turn) error {
	data, err := wire.ReadWhole(provider, x.body)
	if err != nil {
		return err
	}
	return t.readAll(data)
}
