package runner

import (
	"context"
	"fmt"
	"slices"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/toolbox"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// host is how a body reaches the runner. It never changes, and any goroutine of
// the body may use it.
type host struct {
	rn    *Runner
	turn  *turnFacts
	tools *toolbox.Box
	actor Actor             // the session's agent, for what its model does to handles
	bound map[string]string // see boundTo
	seen  *seenHandles
	// driver names the drive, see [session.Lease.Driver].
	driver func() string
	// of the drive: how long bodies may take to end
	bodies context.Context
}

// Token makes the token of the call's next pause. The token depends only on
// what is stored, and on the layer that asks. So each attempt makes the same
// token, until the turn's key is retired. Another layer's pause may get the
// number first. So a token that decides is good only for a pause of the layer
// that asks.
func (h host) Token(c tool.Call, permits ...tool.Permit) string {
	t := Token{
		Session: c.Session, Call: c.ID, Pause: c.Pauses + 1, Permits: permits,
		Expires: h.turn.asked.Add(h.rn.options.TokenLifetime).Unix(),
	}
	if slices.ContainsFunc(permits, tool.Permit.Decides) {
		if c.Gate == "" {
			panic("runner: Call.Token: only a layer may permit a decision")
		}
		t.Gate = c.Gate
	}
	return h.mint(t)
}

// ResultLimit returns how many bytes the call's output may have.
func (h host) ResultLimit() int { return h.tools.Limits().Result }

// MailToken makes a token that may send events to the call.
func (h host) MailToken(c tool.Call, names ...string) string {
	for _, name := range names {
		known := func(e tool.MailboxEvent) bool { return e.Name == name }
		if !slices.ContainsFunc(h.tools.Mailbox(c.Tool), known) {
			panic(fmt.Sprintf("runner: Call.MailToken: %s takes no event %q", c.Tool, name))
		}
	}
	return h.mint(Token{
		Session: c.Session, Call: c.ID, Permits: []tool.Permit{tool.PermitEvent},
		Events:  slices.Clone(names),
		Expires: h.turn.asked.Add(h.rn.options.TokenLifetime).Unix(),
	})
}

func (h host) mint(t Token) string {
	token, err := h.rn.ring.held(h.turn.signer).mint(t)
	if err != nil {
		// No call is begun without a key. And no token is better than one that
		// is never valid.
		panic(err)
	}
	return token
}

// History reads the messages before the one that asked for the call.
func (h host) History(ctx context.Context, c tool.Call) ([]llm.Message, error) {
	st, err := h.rn.store.Load(ctx, c.Session)
	if err != nil {
		return nil, err
	}
	if st.Call(c.ID) == nil {
		return nil, fmt.Errorf("%w: call %s", session.ErrSettled, c.ID)
	}
	before := *st
	before.Messages--
	return h.rn.store.History(ctx, &before, 0)
}

// Report shows a running call's progress. It is refused if it makes no sense,
// or comes too late. If it can't be stored, the body need not know: that is
// logged.
func (h host) Report(ctx context.Context, c tool.Call, p tool.Progress) error {
	_, err := h.rn.progress(ctx, c.Session, c.ID, c.Tool, p)
	if err == nil {
		err = h.rn.reported(ctx, c, p)
	}
	if err == nil || isAny(err, ErrInvalidProgress, session.ErrSettled, session.ErrDeleted) {
		return err
	}
	h.rn.options.Logger.Warn("progress was not stored",
		"session", c.Session, "call", c.ID, "error", err)
	return nil
}

// Of returns the runner that runs a call: for a tool that works with sessions,
// as callers do. In a unit test there is none.
func Of(c tool.Call) (rn *Runner, ok bool) {
	h, ok := c.Host.(host)
	return h.rn, ok
}
