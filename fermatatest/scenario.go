package fermatatest

import (
	"slices"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// Scenario is one session of an agent, and all that the outside world does to
// the session.
type Scenario struct {
	Name string
	// World makes the outside world of one history. It is called once for each
	// history, and shares nothing between them.
	World func() World
	// Inputs are delivered in order. Before each one the session is driven
	// until it waits. After a crash all are delivered again, from the first: a
	// sender repeats what was not acknowledged, and often enough what was.
	Inputs []Input
	// Diverges: once a call's outcome is unknown, the model or the inputs go
	// another way than in the uncut history. Then what comes after that call's
	// turn is not compared.
	Diverges bool
}

// World is everything outside of the process that outlives it.
type World struct {
	// Agent makes the agent, anew for each life of the process. What it keeps
	// in memory is lost in a crash; what outlives the process it shares through
	// the World's closure. The agent needs a name. Its model must depend on
	// nothing but the request, as fakellm does, and its bodies must end when
	// their context does.
	Agent func() agent.Config
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
	answers []answer
	mail    []runner.Mail
	why     string
	report  tool.Progress
	time    time.Duration

	moment   moment
	undriven bool
}

type kind int

const (
	isMessage kind = iota
	isAnswer
	isEvents
	isCancel
	isProgress
	isTime
)

// moment is when an input comes for the first time in a life of the process. It
// comes again in its turn.
type moment int

const (
	inTurn moment = iota
	duringBody
	atPause
)

// target names a pause without its id: the pause-th of the call-th call of a
// tool in the session, both from 1.
type target struct {
	tool        string
	call, pause int
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

// Answer returns an answer to the first pause of the tool's first call; see
// OfCall and OfPause. The Resumption's Pause is filled in:
//
//	output := json.RawMessage(`{"url":"…"}`)
//	fermatatest.Answer("deploy", runner.Complete("", "ci", output))
func Answer(toolName string, r runner.Resumption) Input {
	t := target{toolName, 1, 1}
	return Input{name: "answer for " + toolName, kind: isAnswer, target: t,
		answers: []answer{{t, r}}}
}

// Together returns several answers in one Resume.
func Together(answers ...Input) Input {
	all := Input{name: "answers together", kind: isAnswer}
	for _, in := range answers {
		all.answers = append(all.answers, in.answers...)
	}
	return all
}

// Send returns outside events for the tool's first call, delivered together; see
// OfCall. The Mail's Call is filled in. With During, OfPause tells which entry of
// the body they come in.
func Send(toolName string, mail ...runner.Mail) Input {
	return Input{name: "events for " + toolName, kind: isEvents, target: target{toolName, 1, 1},
		mail: slices.Clone(mail)}
}

// Cancel returns a cancellation of the tool's first call; see OfCall.
func Cancel(toolName, why string) Input {
	return Input{name: "cancel " + toolName, kind: isCancel,
		target: target{toolName, 1, 1}, why: why}
}

// Progress returns a report of progress of the tool's first call; see OfCall.
func Progress(toolName string, p tool.Progress) Input {
	return Input{name: "progress of " + toolName, kind: isProgress,
		target: target{toolName, 1, 1}, report: p}
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
