package runner

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/internal/handles"
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
	session.Content
	count  int       // of the times that the body has told
	stored time.Time // when the last store of it began; zero: never
	busy   bool      // a goroutine stores it, or is going to
	itself bool      // the body tells it itself, and not by reports
	// Before is what the call's earlier bodies have produced.
	before tool.Content
	// Asked is the last question of which the parent was told. That goroutine
	// owns it.
	asked string
	// Moment: the spawn that waited for it has gone on. It is that goroutine's.
	moment bool
}

const storeEvery = time.Second

// Produce takes what a body has produced so far. Where what earlier bodies have
// produced can't be read just now, it takes nothing.
func (h host) Produce(ctx context.Context, c tool.Call, content tool.Content) {
	asks := session.Content{Driver: h.driver(), Pauses: c.Pauses}
	call := callName{c.Session, c.ID}
	before, begins := h.rn.produced.before(call, asks)
	if begins {
		var err error
		if before, err = h.rn.earlierContent(ctx, call, asks); err != nil {
			// What was shown is counted over all bodies: without those before, the
			// model would be told the wrong part. Next time the body tells all.
			if ctx.Err() == nil {
				h.rn.options.Logger.Warn("what earlier bodies of a call produced can't be read",
					"session", c.Session, "call", c.ID, "error", err)
			}
			return
		}
	}
	content.Head = modeltext.CleanString(content.Head)
	content.Tail = modeltext.CleanString(content.Tail)
	content = handles.Bounded(content)
	content = handles.Continued(before, content)
	content.At = h.rn.store.Now()
	h.rn.produced.take(call, func(o *output) {
		o.Content, o.itself, o.before = asks, true, before
		o.Content.Content = content
	})
}

// before returns what the earlier bodies of a call have produced, or that the
// body, which has this drive and these pauses, begins.
func (p *produced) before(call callName, body session.Content) (c tool.Content, begins bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.by[call]
	switch {
	case o == nil, o.itself && (o.Driver != body.Driver || o.Pauses != body.Pauses):
		return c, true
	case !o.itself: // what a body tells itself takes the place of its reports
		return c, false
	}
	return o.before, false
}

// answered takes note that the body of a call gets these events. A question that
// one of them answers stands no more, whatever the body has told last.
func (p *produced) answered(call callName, mail []tool.Mail) {
	p.mu.Lock()
	o := p.by[call]
	answers := o != nil && o.Question != nil &&
		slices.ContainsFunc(mail, func(m tool.Mail) bool { return m.Question == o.Question.ID })
	p.mu.Unlock()
	if answers {
		p.take(call, func(o *output) { o.Question = nil })
	}
}

// report adds a line to what a body has reported. Before is what it begins with.
func (p *produced) report(call callName, before session.Content, line string, at time.Time) {
	p.take(call, func(o *output) {
		if o.itself {
			return
		}
		if o.count == 0 {
			o.Content = before
			o.Question = nil // its body is gone
		}
		o.Content.Content = handles.Appended(o.Content.Content, line)
		o.At = at
	})
}

// take has what a body produced changed, and stored soon.
func (p *produced) take(call callName, change func(*output)) {
	p.mu.Lock()
	o := p.by[call]
	if o == nil {
		o = &output{}
		p.by[call] = o
	}
	change(o)
	o.count++
	wait := max(0, storeEvery-time.Since(o.stored))
	begin := !o.busy
	o.busy = true
	p.mu.Unlock()
	if begin {
		p.rn.drives.start(func() {
			for p.storeAfter(call, wait) {
				wait = storeEvery
			}
		})
	}
}

// storeAfter stores what a body has produced by then, and reports whether it is
// to be called again. One goroutine does so at a time, so that nothing older
// comes later.
func (p *produced) storeAfter(call callName, wait time.Duration) (again bool) {
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.rn.closing.Done():
		}
	}
	p.mu.Lock()
	o := p.by[call]
	if o == nil { // the call has ended, and its end stored it
		p.mu.Unlock()
		return false
	}
	content, count := o.Content, o.count
	o.stored = time.Now()
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), p.rn.options.CloseTimeout)
	defer cancel()
	err := p.rn.store.PutContent(ctx, call.session, call.call, &content)
	if err == nil {
		err = p.endsMoment(ctx, call, o, &content.Content)
	}
	if err == nil {
		err = p.asks(ctx, call, o, content.Question)
	}
	failed := err != nil && !callIsOver(err)
	if failed {
		p.rn.options.Logger.Warn("what a call produced was not stored",
			"session", call.session, "call", call.call, "error", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	o.busy = o.count != count || failed && p.rn.closing.Err() == nil
	return o.busy
}

// endsMoment has the spawn go on that waits a moment for content.
func (p *produced) endsMoment(
	ctx context.Context, call callName, o *output, c *tool.Content,
) error {
	if o.moment || c.Total == 0 && c.Question == nil {
		return nil
	}
	parent, err := p.rn.store.EndMoment(ctx, call.session)
	if err != nil {
		return err
	}
	o.moment = true
	if parent != "" {
		p.rn.attend(parent)
	}
	return nil
}

// asks has the model told what a body asks while it runs, once for each
// question.
func (p *produced) asks(
	ctx context.Context, call callName, o *output, q *tool.LiveQuestion,
) error {
	if q == nil || q.ID == o.asked {
		return nil
	}
	parent, err := p.rn.store.AsksLive(ctx, call.session, q.Assistant)
	if err != nil {
		return err
	}
	o.asked = q.ID
	if parent != "" {
		p.rn.attend(parent)
	}
	return nil
}

// at returns what a body of this process has produced, if there is one.
func (p *produced) at(call callName) (c session.Content, here bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.by[call]; o != nil {
		return o.Content, true
	}
	return c, false
}

// lastContent returns what a call has produced: that of its body in this process,
// or else what is stored. It is zero if there is none.
func (rn *Runner) lastContent(ctx context.Context, call callName) (c session.Content, err error) {
	if c, here := rn.produced.at(call); here {
		return c, nil
	}
	stored, err := rn.store.Content(ctx, call.session, call.call)
	if err == nil && stored != nil {
		c = *stored
	}
	return c, err
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

// content adds what a handle has produced, by its session's head and its call. A
// question is left out whose body is gone.
func (rn *Runner) content(
	ctx context.Context, out *tool.Handle, st *session.State, c *session.Call,
) error {
	got, err := rn.lastContent(ctx, callName{out.Session, out.Call})
	if err != nil {
		return err
	}
	out.Content = got.Content
	if !rn.store.Asks(st, c, &got) {
		out.Content.Question = nil
	}
	return nil
}

// NextMail waits for events beyond the number after. Commits of this process
// give a signal, and so does its bell for those of others: no body looks by
// itself. That the store can't be read for a while ends no body. It is read
// again soon.
func (h host) NextMail(
	ctx context.Context, c tool.Call, after int,
) (mail []tool.Mail, last int, err error) {
	if !session.IsHandle(c.Session) {
		return nil, after, io.EOF // a turn waits for this call, and none comes
	}
	changed, stop := h.rn.store.WatchAll(c.Session)
	defer stop()
	for {
		mail, err = h.mailBeyond(ctx, c, after)
		var again <-chan time.Time
		switch {
		case isAny(err, session.ErrSettled, session.ErrUnknownSession, session.ErrCorrupt):
			return nil, after, err
		case err != nil:
			again = time.After(awaitEvery)
		case len(mail) > 0:
			h.rn.produced.answered(callName{c.Session, c.ID}, mail)
			return mail, after + len(mail), nil
		}
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
			return nil, after, context.Cause(ctx)
		}
	}
}

// mailBeyond returns the events beyond the number after that have come.
func (h host) mailBeyond(ctx context.Context, c tool.Call, after int) ([]tool.Mail, error) {
	st, err := h.rn.store.Load(ctx, c.Session)
	if err != nil {
		return nil, err
	}
	own := st.Call(c.ID)
	if own == nil || own.Status == session.Settled {
		return nil, session.ErrSettled
	}
	if own.Mailbox == nil || own.Mailbox.Count <= after {
		return nil, nil
	}
	return h.rn.store.MailAfter(ctx, c.Session, c.ID, after)
}
