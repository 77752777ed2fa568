package httpapi

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/webhook"
)

// eventStream is the media type of server-sent events.
const eventStream = "text/event-stream"

// wantsStream reports whether the client asks for a stream in place of JSON.
func (v *visit) wantsStream() bool {
	return strings.Contains(v.r.Header.Get("Accept"), eventStream)
}

// streams reports whether the answer is a stream, if all is well.
func (v *visit) streams() bool {
	return v.route.streams && (v.route.answer == nil || v.wantsStream())
}

// flushes reports whether what is written can be sent at once.
func flushes(w http.ResponseWriter) bool {
	switch w := w.(type) {
	case http.Flusher, interface{ FlushError() error }:
		return true
	case interface{ Unwrap() http.ResponseWriter }:
		return flushes(w.Unwrap())
	}
	return false
}

// follow streams what happens in a session.
func (v *visit) follow() error {
	p := v.parameters()
	o := &runner.FollowOptions{From: p.number("from", 0, 0, 1<<30), After: p.text("after"),
		Stay: p.flag("stay", true)}
	if id := v.r.Header.Get("Last-Event-ID"); id != "" {
		o.After = id
	}
	if number, ok := strings.CutPrefix(o.After, numbered); ok { // of a run
		if n, err := strconv.Atoi(number); err == nil && n >= 0 {
			o.After = strconv.Itoa(n + 1) // the cursor of that message
		}
	}
	if p.err != nil {
		return p.err
	}
	if accept := v.r.Header.Get("Accept"); accept != "" && !v.wantsStream() &&
		!strings.Contains(accept, "*/*") && !strings.Contains(accept, "text/*") {
		return refuse("not_acceptable", "this is a stream; send Accept: "+eventStream)
	}
	leave, err := v.h.crew.enter(place{user: v.user})
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithCancel(v.r.Context())
	defer cancel()
	f, q := &plainFormat{v: v, session: v.session()}, newQueue()
	go q.watch(ctx, f, v.h.rn.Follow(ctx, v.session(), v.user, o))
	return v.write(f, q, v.session())
}

// drive begins a run. A stream shows it; without one the answer is how the
// session stands. It goes on when the client goes.
func (v *visit) drive(id string, open func(context.Context) iter.Seq2[event.Event, error]) error {
	return v.driveAs(&plainFormat{v: v, session: id}, id, open)
}

func (v *visit) driveAs(
	f format, id string, open func(context.Context) iter.Seq2[event.Event, error],
) error {
	leave, err := v.h.crew.enter(place{user: v.user})
	if err != nil {
		return err
	}
	defer leave()
	left, err := v.h.crew.enter(place{v.user, true})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(v.r.Context()))
	stop := context.AfterFunc(v.h.crew.runs, cancel)
	q := newQueue()
	go func() {
		defer left()
		defer cancel()
		defer stop()
		q.drive(f, open(ctx))
	}()
	if v.wantsStream() {
		v.drives = true
		return v.write(f, q, id)
	}
	first, _ := v.first(q)
	q.leave()
	if len(first) > 0 && first[0].err != nil {
		return first[0].err
	}
	return v.overview(http.StatusAccepted)
}

// soon is how long a stream waits for its first event, so that a refusal is a
// status, before it begins.
const soon = 500 * time.Millisecond

// first waits for the first items of a stream, for a moment.
func (v *visit) first(q *queue) (items []item, over bool) {
	moment := time.NewTimer(soon)
	defer moment.Stop()
	select {
	case <-q.more:
		items, over = q.take()
	case <-moment.C:
	case <-v.h.crew.draining:
	case <-v.r.Context().Done():
	}
	return items, over
}

// numbered is what the id of a message's event begins with, in a run: its number
// follows.
const numbered = "m"

// plainFormat is events in the JSON of package event. An error is a problem.
type plainFormat struct {
	v       *visit
	session string
}

func (f *plainFormat) frames(ev event.Event) ([]frame, error) {
	data, err := event.Marshal(f.v.linkedEvent(f.session, ev))
	if err != nil {
		return nil, err
	}
	id := event.Cursor(ev)
	if m, ok := ev.(event.Message); ok && id == "" {
		id = numbered + strconv.Itoa(m.Number)
	}
	return []frame{{id, data}}, nil
}

// closes returns nothing: a client connects again.
func (f *plainFormat) closes() []frame { return nil }

func (f *plainFormat) fails(err error) []frame {
	data, _ := json.Marshal(webhook.ProblemOf(err))
	return []frame{{data: data}}
}
