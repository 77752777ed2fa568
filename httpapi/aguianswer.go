package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/httpapi/internal/agui"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

// refusedAnswer is an answer that was not taken. Its interrupt stays open.
type refusedAnswer struct {
	interrupt string
	err       error
}

// answer gives the answers of the input to their pauses, before what the user
// says. Each is safe to repeat. The error is that of the first, if none is
// taken: then nothing is said.
func (a *aguiRun) answer(ctx context.Context) error {
	for _, r := range a.in.Resume {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := a.answerOne(ctx, r)
		if err != nil && httpStatus(err) >= 500 {
			return err // the store's; the client repeats it all
		}
		if err != nil {
			a.refused = append(a.refused, refusedAnswer{r.Interrupt, err})
		} else {
			a.answered = true
		}
	}
	if n := len(a.refused); n > 0 && n == len(a.in.Resume) {
		return a.refused[0].err
	}
	return nil
}

func (a *aguiRun) answerOne(ctx context.Context, r agui.Resume) error {
	p, decided, err := a.pause(ctx, r.Interrupt)
	if err != nil {
		return err
	}
	abandoned := r.Status == agui.Abandoned
	var answer runner.Resumption
	switch {
	case abandoned && p.Await.Reason == "":
		// It is over. A client has to abandon what it can't answer any more, or
		// its thread would never go on.
		return nil
	case abandoned && !decided:
		_, err := a.v.h.rn.Cancel(ctx, p.Session, p.ID, a.v.user, abandonedWhy)
		return err
	case abandoned:
		answer = runner.Deny(p.ID, a.v.user, abandonedWhy)
	case len(r.Payload) == 0 || string(r.Payload) == "null":
		return invalidAnswer(p, "it has no payload")
	case decided:
		if answer, err = decision(p, a.v.user, r.Payload); err != nil {
			return err
		}
	default:
		answer = runner.Complete(p.ID, a.v.user, r.Payload)
	}
	answer.Delivery = a.in.Run
	_, err = a.v.h.rn.Resume(ctx, p.Session, answer)
	return err
}

// abandonedWhy is what is told of an interrupt that a user has left.
const abandonedWhy = "the user has left it unanswered"

// pause returns the pause of an interrupt, and whether its answer is a
// decision. It is one of the thread's session, or of one below, that a person
// may answer, or that one has answered.
func (a *aguiRun) pause(ctx context.Context, id string) (p tool.Pause, decided bool, err error) {
	for _, p := range a.before.Pending {
		if p.ID == id {
			return p, p.Await.Gate != "", a.v.answers(p)
		}
	}
	unknown := fmt.Errorf("%w: %.60q, in this thread", session.ErrUnknownPause, id)
	if a.before.ID == "" {
		return p, false, unknown
	}
	p, err = a.v.h.rn.Find(ctx, runner.Ref{Pause: id}, a.v.user)
	switch {
	case err != nil && httpStatus(err) >= 500:
		return p, false, err
	case err != nil || p.ID != id: // whether it is there is not told
		return p, false, unknown
	}
	if is, err := a.below(ctx, p.Session); err != nil || !is {
		return p, false, errorOr(err, unknown)
	}
	if p.Await.Reason != "" {
		return p, p.Await.Gate != "", a.v.answers(p)
	}
	end, err := a.v.h.rn.Ended(ctx, runner.Ref{Pause: id}, a.v.user)
	switch {
	case err != nil:
		return p, false, err
	case end.How == runner.StillOpen:
		return p, false, refuse("not_paused", "the call does not wait for an answer yet")
	}
	return p, end.How == runner.EndedApproved || end.How == runner.EndedDenied, nil
}

// below reports whether a session is the thread's, or below it.
func (a *aguiRun) below(ctx context.Context, id string) (bool, error) {
	if id == a.session {
		return true, nil
	}
	s, err := a.v.h.rn.Session(ctx, id, a.v.user)
	if err != nil && httpStatus(err) < 500 {
		return false, nil
	}
	return len(s.Path) > 0 && s.Path[0].Session == a.session, err
}

func errorOr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

func httpStatus(err error) int { return webhook.Status(err) }

func invalidAnswer(p tool.Pause, why string) error {
	return &session.PayloadError{Pause: p.ID, Err: errors.New(short(why))}
}

// decision reads the payload of an approval. It is read as it stands: a member
// that is misspelt, or of another type, approves nothing.
func decision(p tool.Pause, user runner.Actor, payload json.RawMessage) (
	runner.Resumption, error,
) {
	var none runner.Resumption
	doc, err := strictjson.Parse(payload, strictjson.Strict(true))
	if err != nil {
		return none, invalidAnswer(p, err.Error())
	}
	members, ok := doc.Root.(strictjson.Object)
	if !ok {
		return none, invalidAnswer(p, `a decision is an object such as {"approved": true}`)
	}
	var approved, is bool
	var reason strictjson.String
	edits := false
	for _, m := range members.Members {
		fits := true
		switch m.Name {
		case "approved":
			approved, is = m.Value.(bool)
		case "reason":
			reason, fits = m.Value.(strictjson.String)
		case "editedArgs":
			edits = true
		default:
			return none, invalidAnswer(p, fmt.Sprintf("a decision has no member %.40q", m.Name))
		}
		if !fits {
			return none, invalidAnswer(p, fmt.Sprintf("the member %q is of another type", m.Name))
		}
	}
	switch {
	case !is:
		return none, invalidAnswer(p, `a decision has the member "approved", true or false`)
	case !approved && edits:
		return none, invalidAnswer(p, "a denial has no editedArgs")
	case !approved:
		return runner.Deny(p.ID, user, reason.Text), nil
	case !edits:
		return runner.Approve(p.ID, user, reason.Text), nil
	}
	var raw struct {
		EditedArgs json.RawMessage `json:"editedArgs"`
	}
	if err := json.Unmarshal(payload, &raw); err != nil {
		return none, invalidAnswer(p, err.Error())
	}
	return runner.ApproveEdited(p.ID, user, reason.Text, raw.EditedArgs), nil
}
