package schedule

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// toolName is the name of the one tool of a schedule's agent.
const toolName = "schedule"

// The events of the call.
const (
	eventPause  = "pause"
	eventResume = "resume"
	eventRun    = "run"
	eventChange = "change"
	eventEnded  = "ended" // the run that a firing waits for
)

var eventNames = []string{eventPause, eventResume, eventRun, eventChange, eventEnded}

// A call that has paused so often, or taken so many events, is followed by
// another one, so that what is kept of a call stays bounded.
const (
	maxPauses = 150
	maxEvents = 64
)

// unreadWait is how long a call waits that could not read the store.
const unreadWait = 10 * time.Second

// unknownWait is how long a call waits whose times are unknown where it runs: a
// machine may lack a zone, and another one that has it is to fire within the
// DefaultGrace.
const unknownWait = 20 * time.Second

// sleeper is the tool of a schedule. Its call sleeps until the next nominal
// time, fires, and sleeps again. What it does is safe to repeat, since each
// firing has an id.
type sleeper struct{}

func (sleeper) Spec() tool.Spec {
	s := tool.Spec{
		Name: toolName, Description: "Fires a schedule at its times.",
		Input:  json.RawMessage(`{"type":"object"}`),
		Effect: tool.Idempotent, MayPause: true,
	}
	for _, name := range eventNames {
		s.Mailbox = append(s.Mailbox, tool.MailboxEvent{Name: name})
	}
	return s
}

// Execute implements [tool.Tool]. What time it is the answer tells, so that an
// entry that is repeated does the same.
func (sleeper) Execute(ctx context.Context, c tool.Call) (tool.Execution, error) {
	rn, ok := runner.Of(c)
	if !ok {
		return tool.Execution{}, fmt.Errorf("schedule: the call has no runner")
	}
	e := entry{rn: rn, call: c}
	var err error
	if e.task, e.schedule, err = readTask(c.Arguments); err != nil {
		return tool.Execution{}, fmt.Errorf("schedule: the call's arguments: %w", err)
	}
	if !e.isOwn(&e.schedule) {
		return tool.Execution{}, fmt.Errorf("schedule: %q of user %q is none of session %q of user %q; make it by Create",
			excerpt.Of(e.schedule.ID), excerpt.Of(e.schedule.User), c.Session, c.User)
	}
	if c.Answer == nil {
		// The answer to a pause tells what time it is.
		return pause(tool.Await{Reason: tool.ReasonTimer}, &e.task.State)
	}
	e.task.State = state{}
	if err := strictjson.Read(c.Answer.Data, &e.task.State); err != nil {
		return tool.Execution{}, fmt.Errorf("schedule: what the call has kept: %w", err)
	}
	e.now = c.Answer.At
	return e.run(ctx)
}

// entry is one entry of the call.
type entry struct {
	rn       *runner.Runner
	call     tool.Call
	task     task
	schedule Schedule
	now      time.Time
}

// isOwn reports whether a schedule is that of its session. What was sent to the
// session may name another user, or another schedule: it would work in that
// user's sessions, or take the names of that schedule's firings.
func (e *entry) isOwn(s *Schedule) bool {
	return s.User == e.call.User && SessionID(s.ID) == e.call.Session
}

// actor is who acts for the schedule: its user.
func (e *entry) actor() runner.Actor { return runner.Actor(e.schedule.User) }

// run takes what has come, fires what is due, and sleeps on.
func (e *entry) run(ctx context.Context) (tool.Execution, error) {
	st, before := &e.task.State, e.call.Answer.Data
	changed, err := e.take(ctx)
	if err != nil {
		// The store could not be read. Nothing has been done: the next entry takes
		// all of it.
		return tool.Execution{Await: &tool.Await{
			Reason: tool.ReasonTimer, Timeout: unreadWait, Data: before,
		}}, nil
	}
	again := time.Time{}
	if t, err := e.schedule.times(); err != nil {
		// Another machine may know the zone, or this one after a deploy.
		again = e.now.Add(unknownWait)
		e.log("a schedule has times that are unknown here, and waits", err)
	} else {
		st.collect(&e.schedule, &t, e.now)
		e.fire(ctx)
		e.task.Over, again = st.over(), st.wake()
	}
	if changed || e.task.Over || e.call.Pauses >= maxPauses || len(e.call.Mail) >= maxEvents {
		return e.pass()
	}
	a := tool.AnyOf(eventNames...)
	if a.Deadline = again; !a.Deadline.IsZero() {
		a.OnTimeout = tool.ReenterOnTimeout
	}
	return pause(a, st)
}

// take takes the events that have come, in order. Those that came for the call
// before, when it had looked for the last time, are the first. Changed: it is
// another schedule now.
func (e *entry) take(ctx context.Context) (changed bool, err error) {
	st := &e.task.State
	if !st.Begun {
		made, err := e.rn.Session(ctx, e.call.Session, e.actor())
		if err != nil {
			return false, err
		}
		st.Begun, st.From = true, made.Created
	}
	var all []tool.Mail
	if st.Before != "" {
		n := 0
		for m, err := range e.rn.Received(ctx, e.call.Session, st.Before, e.actor()) {
			if err != nil {
				return false, err
			}
			if n++; n > st.Left {
				all = append(all, m)
			}
		}
		st.Before, st.Left = "", 0
	}
	all = append(all, e.call.Mail[st.Taken:]...)
	st.Taken = len(e.call.Mail)
	for _, m := range all {
		now, err := e.takeOne(m)
		if err != nil {
			return false, err
		}
		changed = changed || now
	}
	return changed, nil
}

// takeOne does what one event asks for.
func (e *entry) takeOne(m tool.Mail) (changed bool, err error) {
	st := &e.task.State
	switch m.Name {
	case eventPause:
		st.Paused = true
	case eventResume:
		// What would have fired meanwhile is left out. What is to fire once isn't.
		if st.Paused && e.schedule.At.IsZero() {
			st.From = m.At
		}
		st.Paused = false
	case eventRun:
		// An earlier call of the schedule may have taken an equal one.
		if id := runID(e.schedule.ID, m.ID); !st.isDue(id) && (st.Last == nil || st.Last.ID != id) {
			st.Due = append(st.Due, Firing{ID: id})
		}
	case eventChange:
		return e.change(m)
	}
	return false, nil
}

// change makes the schedule another one. One that fires at the same times goes
// on with them: what has fired doesn't fire again, and @every keeps its step.
func (e *entry) change(m tool.Mail) (changed bool, err error) {
	var to stored
	if err := strictjson.Read(m.Payload, &to); err != nil {
		return false, err
	}
	if same, err := to.equals(&e.task.stored); same || err != nil {
		return false, err
	}
	before := e.schedule
	after, err := to.schedule()
	if err != nil {
		return false, err
	}
	if !e.isOwn(&after) {
		return false, nil // Calendar.Change refuses it
	}
	e.task.stored, e.schedule = to, after
	if st := &e.task.State; !e.schedule.sameTimes(&before) {
		st.From, st.Next = m.At, time.Time{}
	}
	return true, nil
}

// pass ends the call. If the schedule isn't over, another call goes on with what
// this one returns.
func (e *entry) pass() (tool.Execution, error) {
	if !e.task.Over {
		st := &e.task.State
		st.Before, st.Left, st.Taken = e.call.ID, st.Taken, 0
	}
	out, err := strictjson.Append(nil, &e.task)
	return tool.Execution{Output: out}, err
}

func pause(a tool.Await, st *state) (tool.Execution, error) {
	data, err := strictjson.Append(nil, st)
	a.Data = data
	return tool.Execution{Await: &a}, err
}
