package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// Chat is a model behind Chat Completions. It is safe for use from many
// goroutines.
type Chat struct {
	options Options
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
func NewChat(o Options) (*Chat, error) {
	if o.Responses != (ResponsesOptions{}) {
		return nil, invalid("Responses is set: it is for NewResponses")
	}
	at, err := o.open()
	if err != nil {
		return nil, err
	}
	origin, err := wire.NewOrigin("openai.chat", ownHost, at.base, o.Origin)
	if err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	role, limit := "developer", "max_completion_tokens"
	if !at.openai {
		role, limit = "system", "max_tokens"
	}
	if err := choose("Chat.SystemRole", &o.Chat.SystemRole, role, "developer",
		"system"); err != nil {
		return nil, err
	}
	if err := choose("Chat.LimitField", &o.Chat.LimitField, limit, "max_completion_tokens",
		"max_tokens"); err != nil {
		return nil, err
	}
	if f := o.Chat.CallIDs; f != (wire.Form{}) && (f.Max < 1 || f.Min < 0 || f.Min > f.Max) {
		return nil, invalid("Chat.CallIDs is of %d to %d bytes; Max must be at least 1, and Min from 0 to Max", f.Min, f.Max)
	}
	extra, err := o.extra("messages", "model", "n", "stream", "stream_options", "tools")
	if err != nil {
		return nil, err
	}
	service := openai.NewChatCompletionService(at.options...)
	return &Chat{options: o, at: at, name: origin.Name(), service: service, extra: extra}, nil
}

// Retries returns how often the SDK tries again by itself; see [llm.Retrier].
func (c *Chat) Retries() int { return c.options.Retries }

// String names the model, and never the key.
func (c Chat) String() string { return c.name + " " + c.options.Model }

// Format is String, for every verb.
func (c Chat) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// Generate implements [llm.Model].
func (c *Chat) Generate(ctx context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if err := c.generate(ctx, r, yield); err != nil && err != errStopped {
			yield(nil, c.at.secrets.Error(err))
		}
	}
}

func (c *Chat) generate(outer context.Context, r llm.Request,
	yield func(llm.Event, error) bool) error {
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
	if err := reply.read(res, reply); err == errStopped {
		return err
	} else if err != nil {
		return c.at.failure(outer, c.name, res, err)
	}
	return nil
}
