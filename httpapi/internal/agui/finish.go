package agui

import (
	"encoding/json"
	"errors"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
)

// finish closes the run as an event.End has it.
func (t *Translator) finish(e event.End) {
	interrupts := Interrupts(e.Pending, t.user)
	for i := range interrupts {
		in := &interrupts[i]
		if l := t.lanes[in.session]; l != nil && l.subagent != "" {
			in.Subagent = l.subagent
			l.paused = append(l.paused, in.ID)
		}
	}
	t.closeLanes(e.Finish == event.FinishPaused)
	h := t.head(TypeRunFinished)
	h.Metadata.Fermata.Finish = string(e.Finish)
	switch end := ending(e.Finish); {
	case e.Finish == event.FinishPaused && len(interrupts) > 0:
		h.Metadata.Fermata.More = e.MorePending || len(interrupts) < len(e.Pending)
		t.add(RunFinished{h, t.thread, t.run, Outcome{Type: Paused, Interrupts: interrupts}})
	case end.outcome != "":
		t.add(RunFinished{h, t.thread, t.run, Outcome{Type: end.outcome}})
	default:
		t.fail(string(e.Finish), end.message)
	}
	t.over = true
}

// end is how a run ends: with an outcome, or as an error with a message.
type end struct{ outcome, message string }

// endings is the table of the finishes.
var endings = map[event.Finish]end{
	event.FinishStop:    {outcome: Success},
	event.FinishRefusal: {outcome: Success},
	event.FinishOther:   {outcome: Success},
	// What was stopped, by an actor or a limit, must not look complete.
	event.FinishLength:     {outcome: Cancelled},
	event.FinishMaxTurns:   {outcome: Cancelled},
	event.FinishMaxCalls:   {outcome: Cancelled},
	event.FinishMaxTokens:  {outcome: Cancelled},
	event.FinishMaxMessage: {outcome: Cancelled},
	event.FinishCancelled:  {outcome: Cancelled},
	// What happened may name things inside; the session has it.
	event.FinishFailed: {message: "the run has failed"},
	event.FinishPaused: {message: "calls wait for something that this user can't answer; a new " +
		"run without messages follows what comes"},
	event.FinishInterrupted: {message: "the run was interrupted, and may be carried on; a new run " +
		"without messages follows it"},
	event.FinishDelayed: {message: "the model is called again later; a new run without messages " +
		"follows it"},
	event.FinishHandedOver: {message: "another agent goes on; a new run without messages follows it"},
	event.FinishElsewhere: {message: "the session is driven elsewhere; a new run without messages " +
		"follows it"},
}

func ending(f event.Finish) end {
	if e, ok := endings[f]; ok {
		return e
	}
	return end{message: "the run has ended: " + string(f)}
}

// Fail closes a run that can't be followed to its end. The code is a problem's.
func (t *Translator) Fail(code, message string) []Event {
	if t.over {
		return nil
	}
	t.root.closeAll()
	t.closeLanes(false)
	t.fail(code, message)
	return t.flush()
}

// Failure is the end of a run that can't be followed any more. What is open
// ends with it.
func Failure(code, message string) Event {
	return RunError{Head{Type: TypeRunError}, message, code}
}

func (t *Translator) fail(code, message string) {
	t.add(Failure(code, message))
	t.over = true
}

// Ignored tells the client which parts of its input nothing here can use.
func (t *Translator) Ignored(parts []string) []Event {
	return t.tell("ignored", struct {
		Input []string `json:"input"`
	}{parts})
}

// Refused tells the client that an answer of its was refused, and why: the
// problem is that of package webhook. The interrupt stays open.
func (t *Translator) Refused(interrupt string, problem raw) []Event {
	return t.tell("refused", struct {
		Interrupt string `json:"interrupt"`
		Problem   raw    `json:"problem"`
	}{interrupt, problem})
}

// NotTaken tells the client that a message which waited was not taken when its
// place came, and why.
func (t *Translator) NotTaken(message, why string) []Event {
	return t.tell("not_taken", struct {
		Message string `json:"message"`
		Why     string `json:"why"`
	}{message, why})
}

func (t *Translator) tell(name string, value any) []Event {
	if b, err := json.Marshal(value); err == nil && !t.over {
		t.add(Custom{t.head(TypeCustom), "fermata." + name, b})
	}
	return t.flush()
}

// impersonal returns of a model's error its kind: the rest may name things
// inside, as why a run has failed may.
func impersonal(err error) error {
	var e *llm.Error
	if errors.As(err, &e) {
		return &llm.Error{Kind: e.Kind}
	}
	return errors.New("the model has failed")
}

// custom passes an event on that the protocol has no form for.
func (t *Translator) custom(l *lane, e event.Event) {
	b, err := event.Marshal(e)
	if err != nil {
		return // raw JSON in it is none
	}
	var is struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(b, &is) == nil {
		t.add(Custom{l.head(TypeCustom), "fermata." + is.Type, b})
	}
}
