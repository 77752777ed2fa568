package runner_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/handles"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// What happens in a round of TestHandlesEndsAgainstAwaits, and how it is judged.

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
			if err != nil && !isOneOf(err, public.ErrSettled, public.ErrResumeConflict, public.ErrUnknownCall) {
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

// check judges what a round has come to.
func (rd *awaitRound) check(all *awaitTally) {
	t, ctx := rd.t, context.Background()
	st := rd.load(rd.id)
	if len(st.Calls) > 0 || st.Handles != 0 || st.Kept != 0 || st.Finish != event.FinishStop {
		t.Errorf("%s is left with %+v", rd.id, st)
	}
	shown, err := rd.r.Show(ctx, rd.id, user)
	must(t, err)
	outputs, told := []string{}, map[string]int{}
	for _, m := range shown.History {
		for _, n := range m.Notices() {
			told[n.Handle]++
		}
		for _, p := range m.Parts {
			if r, ok := p.(llm.ToolResult); ok && r.Name == handles.AwaitTool {
				outputs = append(outputs, string(r.Output))
			}
		}
	}
	cancelled := len(outputs) == 1 && len(rd.tells) == 0 && rd.stops.Load() > 0 &&
		strings.HasPrefix(outputs[0], `"Cancelled: enough.`) // before it waited
	if !cancelled && (len(outputs) != 1 || len(rd.tells) != 1 || rd.tells[0].output != outputs[0]) {
		t.Fatalf("%s: the await has told %+v, and its results are %q", rd.id, rd.tells, outputs)
	}
	all.rounds++
	if cancelled {
		all.cancelled++
	} else {
		rd.judgeTold(outputs[0], told, all)
	}
	if rd.program.stopped != nil {
		if !rd.met(func(name string) bool { _, is := rd.program.stopped[name]; return is }) {
			t.Errorf("%s: a program's await of %+v tells %v", rd.id, rd.wait, rd.program.stopped)
		}
		rd.judge("a program", rd.program, func(status event.Status, output, told string) bool {
			return told == string(status)+" "+output
		})
	}
	for _, name := range []string{"a", "b", "c"} {
		if h := rd.record(name); h.Open() || len(h.Awaits) > 0 || told[name] != 1 {
			t.Errorf("%s: of %s the model was told %d times; it is %+v", rd.id, name, told[name], h)
		}
	}
}

// judgeTold judges what the model is told, and counts of which handles.
func (rd *awaitRound) judgeTold(output string, told map[string]int, all *awaitTally) {
	t := rd.t
	var got handles.Awaited
	must(t, got.UnmarshalJSON([]byte(output)))
	tells := rd.tells[0]
	tells.stopped = map[string]string{}
	for _, r := range got.Completed {
		told[r.ID]++
		tells.stopped[r.ID] = string(r.Result)
		if r.Error != nil {
			tells.stopped[r.ID] = r.Error.Message
		}
	}
	if named := len(got.Completed) + len(got.Pending); named != len(rd.names()) {
		t.Errorf("%s: the await tells of %d handles", rd.id, named)
	}
	met := rd.met(func(name string) bool { _, is := tells.stopped[name]; return is })
	by := rd.stops.Load()
	switch cut := by > 0 && by < tells.to; {
	case got.TimedOut && got.Interrupted, (got.TimedOut || got.Interrupted) && !cut,
		got.TimedOut && met, !got.TimedOut && !got.Interrupted && !met:
		t.Errorf("%s: the await of %+v tells %s", rd.id, rd.wait, output)
	}
	rd.judge("the model", tells, func(status event.Status, output, told string) bool {
		if status == event.Done {
			return told == output
		}
		return strings.Contains(output, " in "+rd.id) && strings.Contains(told, strings.Trim(output, `"`))
	})
	switch {
	case got.TimedOut:
		all.timedOut++
	case got.Interrupted:
		all.interrupted++
	default:
		all.met++
	}
}

func (rd *awaitRound) names() []string {
	names := slices.Concat(rd.wait.All, rd.wait.Any)
	slices.Sort(names)
	return slices.Compact(names)
}

// judge holds what an await has told against what has happened: what was known
// to have stopped before it looked has stopped, and what was ended after it had
// told has not.
func (rd *awaitRound) judge(
	whom string, tells telling, is func(status event.Status, output, told string) bool,
) {
	t := rd.t
	for _, name := range rd.names() {
		h := rd.record(name)
		rec, _, err := rd.r.store.Record(context.Background(), h.Child, h.Call)
		must(t, err)
		if rec.Status != h.Status {
			t.Errorf("%s: %s has ended as %q, and its session knows of %q", rd.id, name, rec.Status, h.Status)
		}
		told, stopped := tells.stopped[name]
		switch {
		case !stopped && rd.known[name] < tells.from:
			t.Errorf("%s: %s is told that %s goes on, which had stopped", rd.id, whom, name)
		case stopped && rd.begun[name] > tells.to:
			t.Errorf("%s: %s is told that %s has stopped, which went on", rd.id, whom, name)
		case stopped && !is(rec.Status, string(rec.Output.JSON()), told):
			t.Errorf("%s: %s is told that %s came to %s, and it came to %q %s", rd.id, whom, name,
				told, rec.Status, rec.Output.JSON())
		}
	}
}
