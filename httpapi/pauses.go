package httpapi

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// pauses is a list of what waits.
type pauses struct {
	Pauses []tool.Pause `json:"pauses"`
	More   bool         `json:"more,omitempty"` // there are more than the limit
}

// pauses lists what waits: of one session, or for the user.
func (v *visit) pauses() error {
	p := v.parameters()
	limit := p.number("limit", 50, 1, 200)
	f := session.PauseFilter{Session: v.session(), Tool: p.text("tool"),
		Reason: tool.Reason(p.text("reason"))} // without a Limit, as list
	if f.Session == "" {
		f.User, f.People = v.whose(p), true
	}
	if p.err != nil {
		return p.err
	}
	list := pauses{Pauses: []tool.Pause{}}
	for pause, err := range v.h.rn.Pending(v.r.Context(), f, v.user) {
		switch {
		case err != nil && damaged(err):
			v.h.config.Logger.ErrorContext(v.r.Context(), "a pause could not be listed", "error", err)
		case err != nil:
			return err
		case len(list.Pauses) == limit:
			list.More = true
			return v.answer(http.StatusOK, list)
		default:
			list.Pauses = append(list.Pauses, pause)
		}
	}
	return v.answer(http.StatusOK, list)
}

// pause shows a pause.
func (v *visit) pause() error {
	p, err := v.find()
	if err != nil {
		return err
	}
	return v.answer(http.StatusOK, p)
}

func (v *visit) find() (tool.Pause, error) {
	return v.h.rn.Find(v.r.Context(), runner.Ref{Pause: v.r.PathValue("pause"),
		Session: v.session()}, v.user)
}

// reply is an answer to a pause. It has one of output, approved and again.
type reply struct {
	Output json.RawMessage `json:"output,omitempty"` // a JSON value that fits the pause's schema
	// Approved is a decision: with Reason, and Arguments if they are edited.
	Approved  *bool           `json:"approved,omitempty"`
	Reason    string          `json:"reason,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Again states that a call which was lost did not happen.
	Again bool   `json:"again,omitempty"`
	ID    string `json:"id,omitempty"` // of the delivery, kept with the receipt
}

// accepted is what became of an answer, or of a cancellation.
type accepted struct {
	Call      string       `json:"call"`
	Pause     string       `json:"pause,omitempty"`
	Kind      session.Kind `json:"kind,omitempty"`
	Decided   string       `json:"decided,omitempty"`
	By        string       `json:"by,omitempty"` // whose answer counts
	At        time.Time    `json:"at,omitzero"`
	Fate      session.Fate `json:"fate,omitempty"`
	Duplicate bool         `json:"duplicate,omitempty"` // it was accepted before
}

func acceptedOf(pause string, r session.Receipt) accepted {
	return accepted{Call: r.Call, Pause: pause, Kind: r.Kind, Decided: r.Decided, By: r.Actor,
		At: r.At, Fate: r.Fate, Duplicate: r.Duplicate}
}

// resume answers a pause.
func (v *visit) resume() error {
	var a reply
	if err := v.receive(&a); err != nil {
		return err
	}
	p, err := v.find()
	if err != nil {
		return err
	}
	r, err := v.resumption(&a, p)
	if err != nil {
		return err
	}
	resumed, err := v.h.rn.Resume(v.r.Context(), v.session(), r)
	if err != nil {
		return err
	}
	if v.wantsStream() {
		return v.drive(v.session(), func(ctx context.Context) iter.Seq2[event.Event, error] {
			return resumed.Events(ctx)
		})
	}
	return v.answer(http.StatusOK, acceptedOf(p.ID, resumed.Receipts[0]))
}

// resumption makes the answer that a body has.
func (v *visit) resumption(a *reply, p tool.Pause) (runner.Resumption, error) {
	given := 0
	for _, is := range []bool{len(a.Output) > 0, a.Approved != nil, a.Again} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return runner.Resumption{}, refuse("invalid",
			"an answer has one of output, approved and again")
	case a.Approved == nil && len(a.Arguments) > 0 || a.Approved == nil && !a.Again && a.Reason != "":
		return runner.Resumption{}, refuse("invalid", "arguments and a reason go with approved")
	case a.Approved != nil && !*a.Approved && len(a.Arguments) > 0:
		return runner.Resumption{}, refuse("invalid", "a denial has no arguments")
	}
	if err := v.answers(p); err != nil {
		return runner.Resumption{}, err
	}
	var r runner.Resumption
	switch {
	case a.Again:
		r = runner.RunAgain(p.ID, v.user, a.Reason)
	case a.Approved == nil:
		r = runner.Complete(p.ID, v.user, a.Output)
	case !*a.Approved:
		r = runner.Deny(p.ID, v.user, a.Reason)
	case len(a.Arguments) > 0:
		r = runner.ApproveEdited(p.ID, v.user, a.Reason, a.Arguments)
	default:
		r = runner.Approve(p.ID, v.user, a.Reason)
	}
	r.Delivery = a.ID
	return r, nil
}

// answers returns why a pause isn't answered here. What a machine ends, its
// user must not: that a payment was made, say. What became of a lost call is an
// operator's word, and a user of their own sessions alone is none.
func (v *visit) answers(p tool.Pause) error {
	switch why := p.Await.Reason; {
	case why == "", why.Person(): // one that is over may be answered once more, as a duplicate
		return nil
	case why == tool.ReasonUnknown && v.h.config.Others:
		return nil
	}
	return refuse("not_allowed", "this is not for a person to answer")
}
