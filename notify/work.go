package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/internal/hold"
	core "github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/usererr"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// Options configure Work. Nil means the defaults.
type Options struct {
	// Links, if set, makes the links for a pause that a person ends, each time
	// that a notification of it is sent. They are never stored. An error counts
	// as one of the sender, but for that of a store that can't be read here and now.
	Links func(ctx context.Context, p tool.Pause) ([]Link, error)
	// Timeout is how long one Send may take; default 10 s.
	Timeout time.Duration
	// FirstWait is how long it takes until one that failed is tried again;
	// default 5 s. Each further wait is twice as long, up to MaxWait; default an
	// hour. A [LaterError] asks for a longer one.
	FirstWait, MaxWait time.Duration
	// Tries is how often one is tried before it becomes a dead letter; default
	// 20, which takes some ten hours.
	Tries int
	// DropDeleted leaves out what a deleted session has still to tell. Without
	// it, that is sent, and tells that the session is deleted.
	DropDeleted bool
	// Concurrency is for how many sessions something is sent at once; default 8.
	Concurrency int
	// Poll is how often the store is asked for what no signal told of; default
	// 1 s.
	Poll time.Duration
	// Logger gets what failed; default slog.Default.
	Logger *slog.Logger
}

func (o *Options) defaults() {
	or := func(d *time.Duration, otherwise time.Duration) {
		if *d <= 0 {
			*d = otherwise
		}
	}
	or(&o.Timeout, 10*time.Second)
	or(&o.FirstWait, 5*time.Second)
	or(&o.MaxWait, time.Hour)
	or(&o.Poll, time.Second)
	if o.Tries <= 0 {
		o.Tries = 20
	}
	if o.Concurrency <= 0 {
		o.Concurrency = 8
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

// ErrTellsNothing is the error of a store without session.Options.Notify.
var ErrTellsNothing = errors.New("notify: the store tells nothing: set session.Options.Notify")

// Work sends what the sessions of a store tell, until ctx ends. It returns that
// context's error, after the senders have returned. Any number of processes may
// work for one store, and each session is sent for by one of them at a time.
//
// Work takes one look each Poll at an index that holds what is due and nothing
// else, so that idle sessions cost nothing.
func Work(ctx context.Context, store *session.Store, to Sender, o *Options) error {
	if store == nil || to == nil {
		return errors.New("notify: Work needs a store and a sender")
	}
	w := &worker{store: hold.Of(store), to: to, sending: map[string]bool{},
		again: make(chan struct{}, 1)}
	if o != nil {
		w.o = *o
	}
	w.o.defaults()
	if !w.store.Tells() {
		return ErrTellsNothing
	}
	w.places = make(chan struct{}, w.o.Concurrency)
	due, stop := w.store.WatchNotices()
	defer stop()
	defer w.underway.Wait()
	for {
		next, err := w.round(ctx)
		if err != nil && ctx.Err() == nil {
			w.o.Logger.Error("what is to be sent can't be read", "error", err)
		}
		timer := time.NewTimer(w.pause(next))
		select {
		case <-due:
		case <-w.again:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// worker is one Work. Its goroutine alone takes rounds.
type worker struct {
	store    *core.Store
	to       Sender
	o        Options
	places   chan struct{}  // has a value for each session that is being sent for
	underway sync.WaitGroup // those
	again    chan struct{}  // gets a value when something was passed over that may be due

	mu sync.Mutex // guards sending; held over no call
	// by session, those that are being sent for, and whether one was found due
	// meanwhile
	sending map[string]bool
}

// pause returns how long it is until the next look.
func (w *worker) pause(next time.Time) time.Duration {
	if next.IsZero() {
		return w.o.Poll
	}
	return min(w.o.Poll, max(next.Sub(w.store.Now()), time.Millisecond))
}

// round starts what is due, and returns when more will be, as far as that is
// known. It begins with any part of the index, so that processes seldom go for
// the same session.
func (w *worker) round(ctx context.Context) (next time.Time, err error) {
	begins := rand.IntN(core.NoticeShards)
	for i := range core.NoticeShards {
		at, err := w.shard(ctx, (begins+i)%core.NoticeShards)
		if err != nil {
			return next, err
		}
		if next.IsZero() || !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return next, nil
}

func (w *worker) shard(ctx context.Context, shard int) (next time.Time, err error) {
	var after []byte
	for {
		due, more, next, err := w.store.DueNotices(ctx, shard, after)
		if err != nil {
			return next, err
		}
		for _, d := range due {
			after = d.Key
			if !w.begins(d.Session) {
				continue
			}
			select {
			case w.places <- struct{}{}:
			case <-ctx.Done():
				w.ends(d.Session, false)
				return next, ctx.Err()
			}
			w.underway.Go(func() {
				defer func() { <-w.places }()
				sent := false
				defer func() { w.ends(d.Session, sent) }()
				sent = w.session(ctx, d)
			})
		}
		if !more {
			return next, nil
		}
	}
}

// begins reports whether nothing is being sent for a session, and notes that
// something is.
func (w *worker) begins(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, underway := w.sending[id]
	w.sending[id] = underway
	return !underway
}

// ends notes that nothing is sent for a session any more. It has it looked at
// again if it was found due meanwhile. Where nothing could be sent, because
// another process has the right to, say, that would go on without end: the next
// poll looks at it.
func (w *worker) ends(id string, sent bool) {
	w.mu.Lock()
	again := w.sending[id] && sent
	delete(w.sending, id)
	w.mu.Unlock()
	if again {
		select {
		case w.again <- struct{}{}:
		default:
		}
	}
}

// session does what an entry of the index is there for. It reports whether it
// could.
func (w *worker) session(ctx context.Context, d core.DueNotice) (sent bool) {
	sent, err := w.send(ctx, d)
	if err == nil || ctx.Err() != nil {
		return sent
	}
	if errors.Is(err, session.ErrNewerVersion) {
		return false // it stays due, for a process that can read it
	}
	w.o.Logger.Warn("sending for a session has stopped for now", "session", d.Session,
		"error", err)
	if errors.Is(err, session.ErrCorrupt) {
		if err := w.store.PutOff(ctx, d, w.store.Now().Add(w.o.MaxWait)); err != nil {
			w.o.Logger.Warn("an entry can't be put off", "session", d.Session, "error", err)
		}
	}
	return false
}

// send is session, with the error.
func (w *worker) send(ctx context.Context, d core.DueNotice) (sent bool, err error) {
	if d.Pause != "" {
		return true, w.store.RemindOf(ctx, d)
	}
	s, err := w.store.BeginSending(ctx, d, w.o.Timeout)
	if s == nil || err != nil {
		return false, err
	}
	defer s.Release()
	return true, w.all(ctx, s)
}

// all sends all that a session has to tell, as far as it can be.
func (w *worker) all(ctx context.Context, s *core.Sending) error {
	lasting := context.WithoutCancel(ctx) // what was sent is noted
	for ctx.Err() == nil {
		u, more, err := s.Next(ctx)
		if err != nil || !more {
			return err
		}
		if err := s.Renew(ctx); err != nil {
			return err
		}
		switch err := w.one(ctx, &u); {
		case err == nil:
			if err := s.Sent(lasting); err != nil {
				return err
			}
		case ctx.Err() != nil:
			return nil // it was cut off, and has not failed
		case isUnread(err):
			return err
		default:
			dead, again := s.Failed(lasting, err.Error(), w.waits(err))
			w.o.Logger.Warn("a notification was not sent", "session", u.Session,
				"number", u.Number, "kind", u.Kind, "dead", dead, "error", err)
			if again != nil || !dead {
				return again
			}
		}
	}
	return nil
}

// waits returns how long it takes until a notification is tried again that has
// failed with an error, by how often it was tried.
func (w *worker) waits(err error) func(tries int) (time.Duration, bool) {
	var later *LaterError
	errors.As(err, &later)
	return func(tries int) (wait time.Duration, more bool) {
		wait = w.o.FirstWait
		for range tries - 1 {
			if wait *= 2; wait >= w.o.MaxWait {
				break
			}
		}
		wait = min(wait, w.o.MaxWait)
		wait += rand.N(wait/10 + 1) // so that those that failed together spread out
		if later != nil {
			wait = max(wait, min(later.After, maxLater))
		}
		return wait, tries < w.o.Tries
	}
}

// one sends one notification.
func (w *worker) one(ctx context.Context, u *core.Unsent) (err error) {
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("notify: the sender panicked: %v", p)
		}
	}()
	n, err := w.load(ctx, u)
	if err != nil || n.Deleted && w.o.DropDeleted {
		return err
	}
	return usererr.Use(w.to.Send(ctx, n))
}

// load returns a notification as it is now.
func (w *worker) load(ctx context.Context, u *core.Unsent) (Notification, error) {
	n := Notification{
		ID: idOf(u.Session, u.Number), Kind: u.Kind, Number: u.Number, At: u.At,
		Session: u.Session, Root: u.Root, User: u.User, Agent: u.Agent,
		Call: u.Call, Tool: u.Tool, Status: u.Status, Finish: u.Finish, Why: u.Why,
	}
	deleted, err := w.store.IsDeleted(ctx, u.Session)
	if err != nil {
		return n, &unreadError{err}
	}
	n.Deleted = deleted
	reason := u.Reason
	if waits := u.Pause > 0 && u.Kind != Failed; waits {
		if err := w.pauseOf(ctx, u, &n); err != nil {
			return n, err
		}
	}
	n.Text = textOf(&n, reason)
	return n, nil
}

// unreadError is that of a store, which can't be read now, or not by this
// program. Its notification was not sent, and has not failed: it stays due.
type unreadError struct{ error }

func (e *unreadError) Unwrap() error { return e.error }

// isUnread reports whether an error is one of those. What is damaged won't be
// read later either, and so has failed.
func isUnread(err error) bool {
	var unread *unreadError
	return errors.As(err, &unread) && !errors.Is(err, session.ErrCorrupt)
}

// pauseOf reads the pause that a notification is about.
func (w *worker) pauseOf(ctx context.Context, u *core.Unsent, n *Notification) error {
	id := core.PauseID(u.Call, u.Pause)
	p, err := w.store.Find(ctx, u.Session, id)
	switch {
	case errors.Is(err, session.ErrDeleted), errors.Is(err, session.ErrUnknownSession),
		errors.Is(err, session.ErrUnknownCall), errors.Is(err, session.ErrUnknownPause):
		p = tool.Pause{ID: id, Call: u.Call, Session: u.Session, User: u.User, Agent: u.Agent,
			Tool: u.Tool, Number: u.Pause}
	case err != nil:
		return &unreadError{err}
	}
	n.Pause, n.Over = &p, p.Await.Reason == ""
	if n.Over || w.o.Links == nil || !byPeople(p.Await.Reason) {
		return nil
	}
	n.Links, err = w.o.Links(ctx, p)
	err = usererr.Use(err)
	if errors.Is(err, session.ErrNewerVersion) || errors.Is(err, session.ErrNoAnswer) {
		return &unreadError{err}
	}
	return err
}
