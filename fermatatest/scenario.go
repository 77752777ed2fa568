package fermatatest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// Scenario is one session of an agent, the sessions that its calls make, and all
// that the outside world does to them.
type Scenario struct {
	Name string
	// Session is the id of the session that the inputs come to. Empty: "chat-1".
	Session string
	// World makes the outside world of one history. It is called once for each
	// history, and shares nothing between them.
	World func() World
	// Inputs are delivered in order. Before each one the sessions are driven
	// until they wait. After a crash all are delivered again, from the first: a
	// sender repeats what was not acknowledged, and often enough what was. Those
	// before a CancelSession, a Delete or a Sweep that has ended the session are
	// not: that would begin it anew.
	Inputs []Input
	// Diverges: once a call's outcome is unknown, the model or the inputs go
	// another way than in the uncut history. Then what comes after that call's
	// turn is not compared.
	Diverges bool
}

// root returns the id of the session that the inputs come to.
func (s *Scenario) root() string { return cmp.Or(s.Session, "chat-1") }

// World is everything outside of the process that outlives it.
type World struct {
	// Agent makes the agent, anew for each life of the process, with the agents
	// that are its tools. What they keep in memory is lost in a crash; what
	// outlives the process they share through the World's closure. Each needs a
	// name. Its model must depend on nothing but the request, as fakellm does,
	// and its bodies must end when their context does.
	Agent func() agent.Config
	// Others, if set, makes the agents that sessions are handed over to, and
	// those of sessions that calls begin beside their own.
	Others func() []agent.Config
	// Operator answers pauses of reason unknown outcome: what became of the
	// call, or runner.RunAgain. The Resumption's Pause is filled in. Required
	// for tools that ask an operator.
	Operator func(tool.Pause) runner.Resumption
	// Check, if set, returns what is wrong with the outside world at the end of
	// a history.
	Check func() error
}

// Input is one thing that the outside world does. Its methods return changed
// copies.
type Input struct {
	name    string
	kind    kind
	target  target
	id      string // of a message
	text    string
	o       runner.RunOptions
	while   runner.While // of a message that is sent
	answers []answer
	mail    []runner.Mail
	why     string
	report  tool.Progress
	time    time.Duration
	keep    session.Retention

	moment   moment
	undriven bool
}

type kind int

const (
	isMessage kind = iota
	isSent
	isAnswer
	isEvents
	isCancel
	isProgress
	isTime
	isEnd
	isDelete
	isSweep
)

// moment is when an input comes for the first time in a life of the process. It
// comes again in its turn.
type moment int

const (
	inTurn moment = iota
	duringBody
	atPause
)

// step names a call without its id: the call-th of a tool in its session, from
// 1.
type step struct {
	tool string
	call int
}

// target names a pause without its id: the pause-th of a call, from 1.
type target struct {
	step
	pause int
	path  []step // the calls whose sessions lead from the root to the call's
}

type answer struct {
	target
	runner.Resumption
}

// Message returns a user's message, with an id by which Run is safe to repeat.
func Message(id, text string) Input {
	return Input{name: "message " + id, kind: isMessage, id: id, text: text}
}

// With returns the message with options for its Run, but for its id.
func (in Input) With(o runner.RunOptions) Input {
	in.o = o
	return in
}

// Send returns a user's message that is sent, and does that while the session is
// busy. With Undriven, the next input finds the session so.
func Send(id, text string, while runner.While) Input {
	return Input{name: "sent message " + id, kind: isSent, id: id, text: text, while: while}
}

// Answer returns an answer to the first pause of the tool's first call; see
// OfCall and OfPause. The Resumption's Pause is filled in:
//
//	output := json.RawMessage(`{"url":"…"}`)
//	fermatatest.Answer("deploy", runner.Complete("", "ci", output))
func Answer(toolName string, r runner.Resumption) Input {
	t := first(toolName)
	return Input{name: "answer for " + toolName, kind: isAnswer, target: t,
		answers: []answer{{t, r}}}
}

// first is the first pause of the tool's first call.
func first(toolName string) target { return target{step: step{toolName, 1}, pause: 1} }

// Together returns several answers in one Resume, all for the session of the
// first.
func Together(answers ...Input) Input {
	all := Input{name: "answers together", kind: isAnswer}
	for _, in := range answers {
		all.answers = append(all.answers, in.answers...)
	}
	return all
}

// Deliver returns outside events for the tool's first call, delivered together;
// see OfCall. The Mail's Call is filled in. With During, OfPause tells which
// entry of the body they come in.
func Deliver(toolName string, mail ...runner.Mail) Input {
	return Input{name: "events for " + toolName, kind: isEvents, target: first(toolName),
		mail: slices.Clone(mail)}
}

// Cancel returns a cancellation of the tool's first call; see OfCall.
func Cancel(toolName, why string) Input {
	return Input{name: "cancel " + toolName, kind: isCancel,
		target: first(toolName), why: why}
}

// CancelSession returns a cancellation of all that the session does; see Below.
// Once it was accepted it is not repeated.
func CancelSession(why string) Input {
	return Input{name: "cancel the session", kind: isEnd, why: why}
}

// Delete returns the deletion of the session; see Below. What is left of a
// deleted root, when all rests, are tombstones.
func Delete() Input { return Input{name: "delete", kind: isDelete} }

// Sweep returns a sweep of the store by that retention.
func Sweep(r session.Retention) Input { return Input{name: "sweep", kind: isSweep, keep: r} }

// Progress returns a report of progress of the tool's first call; see OfCall.
func Progress(toolName string, p tool.Progress) Input {
	return Input{name: "progress of " + toolName, kind: isProgress,
		target: first(toolName), report: p}
}

// Pass returns an input that lets time pass: beyond a deadline, say.
func Pass(d time.Duration) Input { return Input{name: "pass " + d.String(), kind: isTime, time: d} }

// OfCall returns the input for the n-th call of the tool in the session, from
// 1.
func (in Input) OfCall(n int) Input {
	return in.aim(func(t *target) { t.call = n })
}

// OfPause returns the input for the n-th pause of the call, from 1.
func (in Input) OfPause(n int) Input {
	return in.aim(func(t *target) { t.pause = n })
}

// Below returns the input for the session that the n-th call of that tool has
// made, from 1, in the session that the input was for. So the first Below leads
// from the root one level down, and the second one another level:
//
//	fermatatest.Answer("ask", r).Below("lead", 1).Below("clerk", 2)
func (in Input) Below(toolName string, n int) Input {
	in.name += fmt.Sprintf(" below call %d of %s", n, toolName)
	return in.aim(func(t *target) { t.path = append(slices.Clip(t.path), step{toolName, n}) })
}

func (in Input) aim(f func(*target)) Input {
	f(&in.target)
	in.answers = append([]answer(nil), in.answers...)
	for i := range in.answers {
		f(&in.answers[i].target)
	}
	return in
}

// During makes an input come for the first time while the tool's body runs:
// right after the entry that may lead to the pause that the input is for. An
// answer is early then; a cancellation ends the body's context.
func (in Input) During() Input {
	in.moment = duringBody
	return in
}

// AtPause makes an input come at the event of the pause that it is for, from
// within the loop that ranges over the events.
func (in Input) AtPause() Input {
	in.moment = atPause
	return in
}

// Undriven leaves the session as the input leaves it: a later input drives it
// on.
func (in Input) Undriven() Input {
	in.undriven = true
	return in
}
