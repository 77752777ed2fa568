package runner

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/internal/modeltext"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// produced is what bodies of this process have produced so far. The store has
// it at most storeEvery later, and at the latest with the call's end. All
// methods may be called from any goroutine.
type produced struct {
	rn *Runner

	mu sync.Mutex // guards the rest; held over no call
	by map[callName]*output
}

// output is what one body has produced.
type output struct {
	tool.Content
	stored time.Time // when the last store of it began; zero: never
	waits  bool      // it will be stored
}

const storeEvery = time.Second

// maxContent bounds each half of what is kept of a body's content, in bytes.
const maxContent = 24 << 10

// Produce takes what a body has produced so far.
func (h host) Produce(_ context.Context, c tool.Call, content tool.Content) {
	content.Head = modeltext.CleanString(content.Head)
	content.Tail = modeltext.CleanString(content.Tail)
	if n := len(content.Head); n > maxContent {
		content.Head = modeltext.CleanString(content.Head[:maxContent])
	}
	if n := len(content.Tail); n > maxContent {
		content.Tail = modeltext.CleanString(content.Tail[n-maxContent:])
	}
	content.At = h.rn.store.Now()
	h.rn.produced.take(callName{c.Session, c.ID}, content)
}

func (p *produced) take(call callName, content tool.Content) {
	p.mu.Lock()
	o := p.by[call]
	if o == nil {
		o = &output{}
		p.by[call] = o
	}
	o.Content = content
	wait := max(0, storeEvery-time.Since(o.stored))
	begin := !o.waits
	o.waits = true
	p.mu.Unlock()
	if begin {
		p.rn.drives.start(func() { p.storeAfter(call, wait) })
	}
}

// storeAfter stores what a body has produced by then.
func (p *produced) storeAfter(call callName, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.rn.closing.Done():
	}
	p.mu.Lock()
	o := p.by[call]
	if o == nil { // the call has ended, and its end stored it
		p.mu.Unlock()
		return
	}
	content := stored(o.Content)
	o.waits, o.stored = false, time.Now()
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), p.rn.options.CloseTimeout)
	defer cancel()
	err := p.rn.store.PutContent(ctx, call.session, call.call, content)
	if err != nil && !callIsOver(err) {
		p.rn.options.Logger.Warn("what a call produced was not stored",
			"session", call.session, "call", call.call, "error", err)
	}
}

func stored(c tool.Content) *session.Content {
	return &session.Content{Total: c.Total, Head: c.Head, Tail: c.Tail, Screen: c.Screen,
		Question: c.Question, At: c.At}
}

// at returns what a body of this process has produced, if there is one.
func (p *produced) at(call callName) (c tool.Content, here bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.by[call]; o != nil {
		return o.Content, true
	}
	return c, false
}

// ended forgets a body's content, which its end has stored.
func (p *produced) ended(call callName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.by, call)
}

// Lasting ends with the drive's bodies, or when a cancelled call would soon
// settle without its own.
func (h host) Lasting(_ tool.Call, cause error) (context.Context, context.CancelFunc) {
	if isAny(cause, errCallCancelled, errRunEnded) {
		return context.WithTimeout(h.bodies, inTime(h.rn.options.CancelGrace))
	}
	return context.WithCancel(h.bodies)
}

// content adds what a handle has produced.
func (rn *Runner) content(ctx context.Context, out *tool.Handle) error {
	if c, here := rn.produced.at(callName{out.Session, out.Call}); here {
		out.Content = c
		return nil
	}
	c, err := rn.store.Content(ctx, out.Session, out.Call)
	if err != nil || c == nil {
		return err
	}
	out.Content = tool.Content{Total: c.Total, Head: c.Head, Tail: c.Tail, Screen: c.Screen,
		Question: c.Question, At: c.At}
	return nil
}

// NextMail waits for events beyond the number after. Commits of this process
// give a signal, and so does its bell for those of others: no body looks by
// itself.
func (h host) NextMail(
	ctx context.Context, c tool.Call, after int,
) (mail []tool.Mail, last int, err error) {
	if !session.IsHandle(c.Session) {
		return nil, after, io.EOF // a turn waits for this call, and none comes
	}
	changed, stop := h.rn.store.WatchAll(c.Session)
	defer stop()
	for {
		st, err := h.rn.store.Load(ctx, c.Session)
		if err != nil && !errors.Is(err, session.ErrNoAnswer) {
			return nil, after, err
		}
		if err == nil {
			own := st.Call(c.ID)
			if own == nil || own.Status == session.Settled {
				return nil, after, session.ErrSettled
			}
			if own.Mailbox != nil && own.Mailbox.Count > after {
				mail, err = h.rn.store.MailAfter(ctx, c.Session, c.ID, after)
				return mail, after + len(mail), err
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, after, context.Cause(ctx)
		}
	}
}
