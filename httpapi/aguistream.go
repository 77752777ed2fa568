package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/httpapi/internal/agui"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/webhook"
)

// carryOn drives the session beside the request, in place of a worker, until it
// rests; left is called then. Where another drive holds the session, that one
// goes on. The channel is closed when the drive has shown something, or is
// over.
func (a *aguiRun) carryOn(left func()) (began <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(a.v.r.Context()))
	stop := context.AfterFunc(a.v.h.crew.runs, cancel)
	shown := make(chan struct{})
	begin := sync.OnceFunc(func() { close(shown) })
	go func() {
		defer left()
		defer cancel()
		defer stop()
		defer begin()
		drive := a.v.h.rn.Drive
		if a.halted() {
			drive = a.v.h.rn.Continue
		}
		// The stream shows its events, as any follower's.
		for _, err := range drive(ctx, a.session, a.v.user) {
			if begin(); err != nil && !errors.Is(err, session.ErrBusy) && ctx.Err() == nil {
				a.v.h.config.Logger.ErrorContext(ctx, "a session could not be carried on",
					"session", a.session, "error", err)
			}
		}
	}()
	return shown
}

// news reports whether the request, or one before it, brings something that the
// session goes on with. Only a run without news carries on one that was
// stopped: one that fails while a message is on its way is not to be tried
// twice.
func (a *aguiRun) news() bool { return a.answered || len(a.fresh)+len(a.before.Queue) > 0 }

// stream follows the session for the client until the run is over.
func (a *aguiRun) stream(began <-chan struct{}) error {
	ctx, cancel := context.WithCancel(a.v.r.Context())
	defer cancel()
	a.tr = agui.NewTranslator(a.in, string(a.v.user), rand.Text)
	first := a.tr.Begin(a.in, a.fresh, storedAs(a.before))
	for _, r := range a.refused {
		problem, _ := json.Marshal(webhook.ProblemOf(r.err))
		first = append(first, a.tr.Refused(r.interrupt, problem)...)
	}
	for _, id := range a.changed {
		first = append(first, a.tr.NotTaken(id, "another message was sent under this id before; what "+
			"the thread has of it is unchanged")...)
	}
	if unused := a.unused(); len(unused) > 0 {
		first = append(first, a.tr.Ignored(unused)...)
	}
	frames, err := a.wire(first)
	if err != nil {
		return err
	}
	q, from := newQueue(), len(a.before.History)
	// The whole conversation, twice: a stream may last, and needs neither.
	a.in.Messages, a.before.History, a.before.Calls = nil, nil, nil
	go a.watch(ctx, q, frames, a.events(ctx, from, began))
	return a.v.write(a, q, a.session)
}

// watch has the client shown the frames, of which a snapshot may be larger than
// what waits for a client at other times, and then the events.
func (a *aguiRun) watch(
	ctx context.Context, q *queue, frames []frame, events iter.Seq2[event.Event, error],
) {
	for _, f := range frames {
		if !q.offer(ctx, item{frame: f}) {
			q.finish()
			return
		}
	}
	q.watch(ctx, a, events)
}

// unused lists what the input has that nothing uses.
func (a *aguiRun) unused() []string {
	unused := a.in.Unused()
	if a.left > 0 {
		unused = append(unused, "content")
	}
	return unused
}

// events are those of the session, until one closes the run. A rest that the
// user can do nothing about closes none: something else will end it.
func (a *aguiRun) events(
	ctx context.Context, from int, began <-chan struct{},
) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		if a.halted() {
			// The session rests, and the drive is to carry it on. Until it
			// does, a follower would show the end of the run before.
			select {
			case <-began:
			case <-ctx.Done():
				return
			}
		}
		o := &runner.FollowOptions{From: from, Stay: true}
		for ev, err := range a.v.h.rn.Follow(ctx, a.session, a.v.user, o) {
			if end, ok := ev.(event.End); ok && err == nil && a.goesOn(end) {
				continue
			}
			if !yield(ev, err) || err != nil || a.tr.Over() || a.broken {
				return
			}
		}
	}
}

// halted reports whether the session rested when the request came, since its
// last run was stopped by a failure or a limit, and the request brings nothing
// that it goes on with. What an actor has stopped is not carried on by a page
// that is loaded again: it takes a message.
func (a *aguiRun) halted() bool {
	switch a.before.Finish {
	case "", event.FinishPaused, event.FinishStop, event.FinishCancelled:
		return false
	}
	return !a.news()
}

// goesOn reports whether an end is none of the run's: the session waits for what
// isn't the user's to give.
func (a *aguiRun) goesOn(end event.End) bool {
	return end.Finish == event.FinishPaused &&
		len(agui.Interrupts(end.Pending, string(a.v.user))) == 0
}

// frames returns what the client is sent for an event. With what goes wrong the
// run is over: nothing may follow its error.
func (a *aguiRun) frames(ev event.Event) (all []frame, err error) {
	a.broken = true // also by a panic
	all, err = a.shown(ev)
	a.broken = err != nil
	return all, err
}

func (a *aguiRun) shown(ev event.Event) ([]frame, error) {
	events := append(a.results(ev), a.fates(ev)...)
	events = append(events, a.tr.Event(a.v.linkedEvent(a.session, ev))...)
	if a.tr.Stale() {
		t, err := a.v.h.rn.Show(a.v.r.Context(), a.session, a.v.user)
		if err != nil {
			return nil, err
		}
		events = append(events, a.tr.Restate(storedAs(t))...)
	}
	return a.wire(events)
}

// results shows what came of the calls of a turn that was over before the
// follower saw it: the message alone doesn't tell a denial from a failure.
func (a *aguiRun) results(ev event.Event) (events []agui.Event) {
	m, ok := ev.(event.Message)
	if !ok || m.Message.Role != llm.RoleTool {
		return nil
	}
	for _, p := range m.Message.Parts {
		r, ok := p.(llm.ToolResult)
		if !ok || !r.Error || a.tr.HasResult(r.Call) {
			continue
		}
		c, err := a.v.h.rn.Call(a.v.r.Context(), a.session, r.Call, a.v.user)
		if err == nil && c.Settled != "" {
			events = append(events, a.tr.Event(event.Result{Status: c.Settled, Actor: c.Actor, Result: r})...)
		}
	}
	return events
}

// fates shows, before the run ends, which messages were taken off the queue.
func (a *aguiRun) fates(ev event.Event) (events []agui.Event) {
	if _, ends := ev.(event.End); !ends {
		return nil
	}
	for _, m := range a.fresh {
		sent, err := a.v.h.rn.Sent(a.v.r.Context(), a.session, m.ID, a.v.user)
		if err == nil && sent.Refused != "" {
			events = append(events, a.tr.NotTaken(m.ID, sent.Refused)...)
		}
	}
	return events
}

// fails returns what the client is sent for an error: the end of the run.
func (a *aguiRun) fails(err error) []frame {
	p := webhook.ProblemOf(err)
	frames, _ := a.wire([]agui.Event{agui.Failure(
		strings.TrimPrefix(p.Type, webhook.ProblemBase), p.Detail)}) // two strings
	return frames
}

// closes returns the end of a run that the handler shows no further.
func (a *aguiRun) closes() []frame { return a.fails(a.v.h.crew.refuses()) }

// wire returns the frames of events. None is left out, also where it can't be
// written: the client would show something else than what is so.
func (a *aguiRun) wire(events []agui.Event) ([]frame, error) {
	var all []frame
	for _, e := range events {
		data, err := json.Marshal(e)
		if err != nil {
			return nil, fmt.Errorf("httpapi: an event %s of AG-UI: %w", e.Kind(), err)
		}
		all = append(all, frame{data: data})
	}
	return all, nil
}
