package runner_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"time"

	"github.com/fermata-ai/fermata/internal/handles"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// What happens in a round of TestHandlesEndsAgainstAwaits.

// until waits until something is so.
func (rd *awaitRound) until(what string, is func() bool) {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for range 5_000 {
		if is() {
			return
		}
		<-look.C
	}
	rd.t.Errorf("%s: it doesn't come to that: %s", rd.id, what)
}

// load returns the head of a session.
func (rd *awaitRound) load(id string) *session.State {
	st, err := rd.r.store.Load(context.Background(), id)
	if err != nil {
		rd.t.Error(err)
		return &session.State{}
	}
	return st
}

func (rd *awaitRound) record(name string) *session.Handle {
	h, err := rd.r.store.Handle(context.Background(), rd.id, name)
	if err != nil {
		rd.t.Error(err)
		return &session.Handle{}
	}
	return h
}

// pause returns the await's open pause, or nil.
func (rd *awaitRound) pause() *session.Awaiting {
	for _, c := range rd.load(rd.id).Calls {
		if c.Tool == handles.AwaitTool && c.Status == session.Pending && c.Pause != nil {
			return c.Pause.Await
		}
	}
	return nil
}

// isOver reports whether the await has its result.
func (rd *awaitRound) isOver() bool {
	return !slices.ContainsFunc(rd.load(rd.id).Calls, func(c session.Call) bool {
		return c.Tool == handles.AwaitTool && c.Status != session.Settled
	})
}

// registered waits until each handle knows that it is awaited.
func (rd *awaitRound) registered() {
	rd.until("registered", func() bool {
		p := rd.pause()
		return p != nil && p.Registered == p.Size
	})
}

// end does something that ends a handle, at once or soon.
func (rd *awaitRound) end(name string) {
	ctx, h := context.Background(), rd.record(name)
	rd.mu.Lock()
	if rd.begun[name] == 0 {
		rd.begun[name] = rd.moments.Add(1)
	}
	rd.mu.Unlock()
	var err error
	by := rd.by
	if name == "c" {
		by = rd.runners[0] // that has its body: others tell it by its lease, which is long
	}
	switch how := rand.IntN(4); {
	case how == 0:
		err = by.Abort(ctx, rd.id, name, "eve", "aborted in "+rd.id)
	case how == 1:
		_, err = by.Cancel(ctx, h.Child, h.Call, "eve", "cancelled in "+rd.id)
	case name == "c":
		rd.ran.Do(func() { close(rd.over) })
	default:
		rd.until("it waits", func() bool { return rd.load(h.Child).Calls[0].Status != session.Requested })
		pause := session.PauseID(h.Call, 1)
		answer := runner.Complete(pause, "eve", []byte(fmt.Sprintf("%q", "done in "+rd.id)))
		if how == 2 {
			answer = runner.Fail(pause, "eve", "failed in "+rd.id, false)
		}
		var res *runner.Resumed
		if res, err = rd.by.Resume(ctx, h.Child, answer); err == nil {
			rd.follows.Go(func() { // until no body runs any more
				for range res.Events(ctx) {
				}
			})
		}
	}
	if err != nil && !isOneOf(err, public.ErrSettled, public.ErrResumeConflict, public.ErrCancelled) {
		rd.t.Errorf("%s: the end of %s: %v", rd.id, name, err)
	}
}

// knows waits until a handle has stopped, and takes note of it.
func (rd *awaitRound) knows(name string) {
	child := rd.record(name).Child
	rd.until(name+" has stopped", func() bool {
		return rd.load(child).Calls[0].Status == session.Settled
	})
	rd.mu.Lock()
	defer rd.mu.Unlock()
	rd.known[name] = rd.moments.Add(1)
}

func (rd *awaitRound) knownAt(name string) int64 {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	return rd.known[name]
}

// stopped returns what comes beside the ends: nothing, the end of the time, a
// cancellation, or a message.
func (rd *awaitRound) stopped(how int) func() {
	ctx := context.Background()
	return []func(){
		func() {},
		func() {
			rd.stops.Store(rd.moments.Add(1))
			rd.cl.pass(time.Hour)
		},
		func() {
			st := rd.load(rd.id)
			i := slices.IndexFunc(st.Calls, func(c session.Call) bool { return c.Tool == handles.AwaitTool })
			if i < 0 {
				return
			}
			rd.stops.Store(rd.moments.Add(1))
			_, err := rd.by.Cancel(ctx, rd.id, st.Calls[i].ID, "eve", "enough")
			if err != nil && !isOneOf(err, public.ErrSettled, public.ErrResumeConflict,
				public.ErrUnknownCall) {
				rd.t.Errorf("%s: %v", rd.id, err)
			}
		},
		func() {
			rd.stops.Store(rd.moments.Add(1))
			for range rd.by.Run(ctx, user, rd.id, llm.UserText("Stop."), nil) { // perhaps it is busy
			}
		},
	}[how]
}

// met reports whether what is awaited has come, if these have stopped.
func (rd *awaitRound) met(stopped func(name string) bool) bool {
	for _, name := range rd.wait.All {
		if !stopped(name) {
			return false
		}
	}
	return len(rd.wait.Any) == 0 || slices.ContainsFunc(rd.wait.Any, stopped)
}

// between is what has to hold before the other handles end. An await that has
// what it waits for tells; otherwise it waits on for exactly the rest.
func (rd *awaitRound) between(how int) {
	stopped := func(name string) bool { return rd.knownAt(name) > 0 }
	if rd.met(stopped) || how == 1 {
		rd.follows.Go(func() { // until no body runs any more
			for !rd.isOver() && !rd.t.Failed() {
				for range rd.runners[0].Continue(context.Background(), rd.id, user) {
				}
			}
		})
		if how == 1 { // it may have begun to wait after the hour
			rd.until("the await waits", func() bool { return rd.isOver() || rd.pause() != nil })
			rd.cl.pass(time.Hour)
		}
		rd.until("the await tells", rd.isOver)
		return
	}
	if how > 1 {
		return // it may have been too late for a word
	}
	rest := 0
	for _, name := range rd.wait.All {
		if !stopped(name) {
			rest++
		}
	}
	rd.until("it waits for the rest", func() bool {
		p := rd.pause()
		return p != nil && p.Registered == p.Size && p.All == rest &&
			p.AnyDone == slices.ContainsFunc(rd.wait.Any, stopped)
	})
}

// fromProgram waits for the same as the model.
func (rd *awaitRound) fromProgram(ctx context.Context) {
	from := rd.moments.Add(1)
	all, err := rd.by.Await(ctx, rd.id, rd.wait, user)
	to := rd.moments.Add(1)
	if err != nil {
		rd.t.Errorf("%s: a program's await: %v", rd.id, err)
		return
	}
	rd.program = telling{from: from, to: to, stopped: map[string]string{}}
	for _, h := range all {
		if h.State == tool.HandleStopped {
			rd.program.stopped[h.Name] = h.Status + " " + string(h.Output)
		}
	}
}

// quiet drives on until nothing is left to do.
func (rd *awaitRound) quiet() {
	rd.until("nothing is left to do", func() bool {
		for _, err := range rd.runners[0].Continue(context.Background(), rd.id, user) {
			if err != nil && !errors.Is(err, public.ErrBusy) {
				rd.t.Errorf("%s: %v", rd.id, err)
			}
		}
		for _, id := range []string{rd.id, rd.record("a").Child, rd.record("b").Child,
			rd.record("c").Child} {
			if st := rd.load(id); st.Held || len(st.Outbox) > 0 || !st.Wake.IsZero() {
				return false
			}
		}
		return true
	})
}
