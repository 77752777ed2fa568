package webhook

import (
	"errors"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/misfit"
)

// Facts are what a program may need of a problem beside its type. Which of them
// are there depends on the type; docs/problems.md lists them.
type Facts struct {
	Session  string        `json:"session,omitempty"`
	Tool     string        `json:"tool,omitempty"`
	Event    string        `json:"event,omitempty"`    // its name, or its name and id
	Events   []string      `json:"events,omitempty"`   // those that the call takes
	Open     string        `json:"open,omitempty"`     // the pause that is open
	Gate     *Gate         `json:"gate,omitempty"`     // whose decision was given, and is wanted
	Accepted *Accepted     `json:"accepted,omitempty"` // what came first
	Settled  *Settled      `json:"settled,omitempty"`  // how the call ended
	Until    time.Time     `json:"until,omitzero"`     // when another drive's lease ends
	Waits    *Waits        `json:"waits,omitempty"`    // for what calls wait
	Model    llm.ErrorKind `json:"model,omitempty"`    // how the model failed
}

// Gate is the layer that a decision was for, and the one that asks.
type Gate struct {
	Asks string `json:"asks"`
	For  string `json:"for"`
}

// Accepted is the answer, or the event, that was accepted before. It doesn't
// tell whose it was.
type Accepted struct {
	Pause   int             `json:"pause"` // the number, as in a session.Receipt
	Kind    session.Kind    `json:"kind"`
	Decided string          `json:"decided,omitempty"`
	Event   session.EventID `json:"event,omitzero"`
	At      time.Time       `json:"at"`
}

// Settled is how a call ended, and when. It doesn't tell by whom.
type Settled struct {
	Status event.Status `json:"status"`
	At     time.Time    `json:"at"`
}

// Waits is what keeps a message from being taken. Each pause has its id, call,
// session, tool, number and reason, and nothing else.
type Waits struct {
	Pending     []tool.Pause    `json:"pending,omitempty"`
	MorePending bool            `json:"more_pending,omitempty"`
	Parked      []event.Parked  `json:"parked,omitempty"`
	Blocks      *session.Blocks `json:"blocks,omitempty"` // what can't be superseded
}

// fact is an error with facts: the problems that it may be, and both ways.
type fact struct {
	of  []string
	put func(error, *Problem) bool
	get func(*Problem) (error, bool) // where the facts are there
}

// factOf makes a fact of a type of error.
func factOf[E error](put func(E, *Problem), get func(*Problem) (E, bool), of ...string) fact {
	return fact{of,
		func(err error, p *Problem) bool {
			e, ok := errors.AsType[E](err)
			if ok {
				put(e, p)
			}
			return ok
		},
		func(p *Problem) (error, bool) { return get(p) },
	}
}

// facts are all errors with facts, but for a session.SenderError: whose answer a
// pause takes isn't told to another. A test sees that none of package session's
// is missing.
var facts = []fact{
	factOf(func(e *session.ConflictError, p *Problem) {
		r := e.Receipt
		p.Call = r.Call
		p.Accepted = &Accepted{r.Pause, r.Kind, r.Decided, r.Event, r.At}
	}, func(p *Problem) (*session.ConflictError, bool) {
		if p.Accepted == nil {
			return nil, false
		}
		a := p.Accepted
		return &session.ConflictError{Receipt: session.Receipt{Call: p.Call, Pause: a.Pause,
			Kind: a.Kind, Decided: a.Decided, Event: a.Event, At: a.At}}, true
	}, "conflict"),
	factOf(func(e *session.SettledError, p *Problem) {
		p.Call, p.Settled = e.Call, &Settled{e.Status, e.At}
	}, func(p *Problem) (*session.SettledError, bool) {
		if p.Settled == nil {
			return nil, false
		}
		return &session.SettledError{Call: p.Call, Status: p.Settled.Status, At: p.Settled.At}, true
	}, "settled", "cancelled", "expired"),
	factOf(func(e *session.PauseRequiredError, p *Problem) {
		p.Call, p.Open = e.Call, e.Open
	}, func(p *Problem) (*session.PauseRequiredError, bool) {
		return &session.PauseRequiredError{Call: p.Call, Open: p.Open}, p.Call != ""
	}, "pause_required"),
	factOf(func(e *session.GateError, p *Problem) {
		p.Pause, p.Gate = e.Pause, &Gate{e.Gate, e.For}
	}, func(p *Problem) (*session.GateError, bool) {
		if p.Gate == nil {
			return nil, false
		}
		return &session.GateError{Pause: p.Pause, Gate: p.Gate.Asks, For: p.Gate.For}, true
	}, "other_gate"),
	factOf(func(e *session.ApproverError, p *Problem) {
		p.Pause = e.Pause
	}, func(p *Problem) (*session.ApproverError, bool) {
		return &session.ApproverError{Pause: p.Pause}, p.Pause != ""
	}, "not_approver"),
	factOf(func(e *session.UnknownEventError, p *Problem) {
		p.Call, p.Tool, p.Event, p.Events = e.Call, e.Tool, e.Name, e.Names
	}, func(p *Problem) (*session.UnknownEventError, bool) {
		return &session.UnknownEventError{Call: p.Call, Tool: p.Tool, Name: p.Event,
			Names: p.Events}, p.Call != ""
	}, "unknown_event"),
	factOf(func(e *session.PayloadError, p *Problem) {
		p.Pause, p.Event = e.Pause, e.Event
	}, func(p *Problem) (*session.PayloadError, bool) {
		e := &session.PayloadError{Pause: p.Pause, Event: p.Event, Err: errors.New(p.Detail)}
		if len(p.Faults) > 0 {
			e.Err = &misfit.Error{Faults: p.Faults}
		}
		return e, p.Pause+p.Event != ""
	}, "invalid"),
	factOf(func(e *session.PendingError, p *Problem) {
		p.Session, p.Waits = e.Session, &Waits{nil, e.MorePending, e.Parked, e.Blocks}
		for _, w := range e.Pending {
			p.Waits.Pending = append(p.Waits.Pending, tool.Pause{ID: w.ID, Call: w.Call,
				Session: w.Session, Tool: w.Tool, Number: w.Number,
				Await: tool.Await{Reason: w.Await.Reason}})
		}
	}, func(p *Problem) (*session.PendingError, bool) {
		if p.Waits == nil {
			return nil, false
		}
		return &session.PendingError{Session: p.Session, Pending: p.Waits.Pending,
			MorePending: p.Waits.MorePending, Parked: p.Waits.Parked, Blocks: p.Waits.Blocks}, true
	}, "pending"),
	factOf(func(e *session.BusyError, p *Problem) {
		p.Session, p.Until = e.Session, e.Until
	}, func(p *Problem) (*session.BusyError, bool) {
		return &session.BusyError{Session: p.Session, Until: p.Until}, p.Session != ""
	}, "busy"),
	factOf(func(*runner.HandleError, *Problem) {}, func(p *Problem) (*runner.HandleError, bool) {
		e := &runner.HandleError{Text: p.Error()}
		for _, c := range classes {
			if c.code == p.code() {
				e.Err = c.err
			}
		}
		return e, true
	}, "handle_stopped", "not_yours", "no_input"),
	factOf(func(e *llm.Error, p *Problem) {
		p.Model = e.Kind
	}, func(p *Problem) (*llm.Error, bool) {
		return &llm.Error{Kind: p.Model}, p.Model != ""
	}, "model", "model_unavailable"),
}
