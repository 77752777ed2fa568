// Package webhook takes the answers of outside systems over HTTP. A tool hands
// out [URL]; the holder of that URL may
//
//	POST .../hooks/{token}            complete the call: the body is its output,
//	                                  a JSON value
//	POST .../hooks/{token}/fail       {"message": "why", "retryable": false}:
//	                                  the outside job failed
//	POST .../hooks/{token}/progress   {"message": "...", "fraction": 0.5,
//	                                  "data": ...}: how far the job is
//	POST .../hooks/{token}/heartbeat  the same, or nothing: that the job goes on;
//	                                  the answer has "cancelled" if it should not
//	POST .../hooks/{token}/cancel     {"reason": "why"}: cancel the call
//	POST .../hooks/{token}/approve    {"reason": "why"}: let the call run that
//	                                  a layer holds
//	POST .../hooks/{token}/deny       {"reason": "why"}: refuse it
//	POST .../hooks/{token}/event/{name}
//	                                  send the call an event of that name: the
//	                                  body is its payload, a JSON value, and the
//	                                  header Webhook-Id its id
//	POST .../hooks/{token}/event      the same: {"name": "...", "id": "...",
//	                                  "payload": ...}
//
// as far as the token permits it, and on the pause that it was made for. Events
// are for the call, whatever its pause, and Call.MailToken makes their token; a
// name may be left out where the token is for one event alone, an id where the
// header has it. The token that a tool's body gets by Call.Token() completes and
// fails; with permits it may do those and nothing else. Decisions take a token
// that was made for them: by Runner.MintToken, for one pause that is open, or by
// Call.Token in the layer that asks; either is good for that layer's pause and
// no other's. Only POST acts: a chat that fetches a link to preview it decides
// nothing, and a person who is to decide by a link needs a page with a button
// behind it. [Links] has such pages, and links of its own for them.
//
// The token may come as "Authorization: Bearer {token}" instead, with nothing
// in its place in the path; that keeps it out of the access logs of proxies. A
// token in the path counts before one in the header.
//
// # Answers
//
// 200 means that the delivered answer is durable, and nothing more: the handler
// never runs a model or a tool. Runner.Work carries the agent on, in this
// process or another one on the same store. A delivery that comes again gets
// the same 200, with "duplicate": true, for as long as the store keeps
// receipts; so a sender may retry whenever it is in doubt. (Progress has no
// receipts. The latest counts.)
//
// No response names people: a token's holder learns that another answer came
// first, and not from whom.
//
// A delivery that is refused leaves no trace, and the call waits on. The answer
// is a [Problem], and [Status] lists the codes. 503 is the one that asks for
// another try.
//
// # Bodies
//
// A body is JSON in UTF-8, uncompressed, of 1 MiB at most; a byte order mark
// before it is taken off. Its Content-Type is application/json, another type
// that ends in +json, or left out. One that is too large is refused, and the
// call waits on: send a reference in its place, or a failure.
//
// An empty body is no output: it could as well be a body that got lost. To
// complete a call without an output, send null. The bodies of fail, cancel,
// approve and deny may be empty. Members that are not listed above are refused,
// since a misspelt retryable would go unseen.
//
// # Signatures
//
// Without a [Verifier] the token is the only credential. With one, a request
// needs a signature beside it. The verifiers of [StandardWebhooks], [GitHub] and
// [Stripe] ship. [ByKey] makes a handler for senders that know no token: they
// sign what they send, and name their job by an id of their own.
//
// An Authorizer of the runner is asked all the same, about the token's holder,
// Config.Actor or Signed.Sender: give those names that no user can have.
//
// [Limits] bound how many requests are taken.
package webhook

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/runner"
)

// Config configures a handler. The zero value is right for most.
type Config struct {
	// Path is where the handler is mounted: what stands before the token in a
	// request's path. Default "/hooks/".
	Path string
	// MaxBody bounds bodies, in bytes; default 1 MiB, which is what a Runner
	// takes by default.
	MaxBody int64
	// FailTooLarge fails a call whose answer is larger than MaxBody, with an
	// error that says so. Otherwise the answer is refused, and the call waits on
	// for one that its sender may never make. The sender gets the 413 all the
	// same. With a Verifier, which then has to be a StreamVerifier, the body is
	// read on and not kept, to check its signature, up to MaxHashed bytes,
	// default 16 MiB. A larger one is refused, and the call waits on.
	FailTooLarge bool
	MaxHashed    int64
	// ReadTimeout bounds how long a request's body may take to arrive; default
	// 30 s. A server with a ReadTimeout of its own keeps that one.
	ReadTimeout time.Duration
	// Actor is the actor in the receipts of answers whose token names no
	// holder; default: who has signed, or "webhook".
	Actor runner.Actor
	// Verifier, if set, checks who sent a request: then one needs its token and
	// a signature. The delivery's id is what the signature covers, and
	// DeliveryHeader isn't read.
	Verifier Verifier
	// DeliveryHeader is the header in which a sender gives its own id of a
	// delivery, the same each time that it tries. It is kept with the receipt,
	// and is the id of an event that comes without one. Default "Webhook-Id", as
	// in Standard Webhooks.
	DeliveryHeader string
	// Limits bound how many requests are taken; default: all.
	Limits Limits
	// Now is the clock by which signatures are fresh; default time.Now.
	Now func() time.Time
	// Logger gets the errors that the sender is not told; default slog.Default.
	// Tokens and bodies are never logged.
	Logger *slog.Logger
}

// DefaultMaxBody is the default of Config.MaxBody, in bytes.
const DefaultMaxBody = 1 << 20

// New returns a handler that delivers to rn, which needs no agent: one that
// only takes answers will do.
//
//	hooks, err := webhook.New(rn, webhook.Config{})
//	http.Handle("/hooks/", hooks)
func New(rn *runner.Runner, c Config) (http.Handler, error) {
	if rn == nil {
		return nil, errors.New("webhook: the runner is nil")
	}
	d, err := newDoor(door{verifier: c.Verifier, bodies: bodies(c.MaxBody, c.ReadTimeout),
		now: c.Now, logger: c.Logger}, c.Limits)
	if err != nil {
		return nil, err
	}
	if c.MaxHashed == 0 {
		c.MaxHashed = max(DefaultMaxHashed, d.bodies.Max)
	}
	if c.MaxHashed < d.bodies.Max {
		return nil, errors.New("webhook: Config.MaxHashed is less than Config.MaxBody")
	}
	if _, ok := c.Verifier.(StreamVerifier); c.FailTooLarge && c.Verifier != nil && !ok {
		return nil, errors.New("webhook: Config.FailTooLarge is set, and Config.Verifier is no " +
			"StreamVerifier: it can't check a body that is not kept")
	}
	if c.Path == "" {
		c.Path = "/hooks/"
	}
	if c.Path[0] != '/' {
		return nil, errors.New(
			"webhook: Config.Path does not begin with a slash; \"/hooks/\" is the default")
	}
	c.Path = strings.TrimRight(c.Path, "/") + "/"
	if c.DeliveryHeader == "" {
		c.DeliveryHeader = "Webhook-Id"
	}
	return &handler{door: d, rn: rn, config: c}, nil
}

// URL returns the address by which an outside system completes the call of a
// token. With "/fail", "/progress" or "/cancel" after it, the outside system
// does the rest. With "/approve" or "/deny", the holder of a token for a
// decision decides. With "/event/" and an event's name, the holder of a token
// of Call.MailToken sends that event. Base is the handler's own address, as the outside world
// knows it: "https://agents.example.com/hooks".
func URL(base, token string) string {
	return strings.TrimRight(base, "/") + "/" + token
}
