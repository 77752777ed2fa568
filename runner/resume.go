package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/modeltext"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/internal/toolbox"
	"github.com/fermata-ai/fermata/tool"
)

// Resumption is an answer to a pause. Make it with Complete, Fail, Approve,
// Deny, ApproveEdited, RunAgain or FromText.
type Resumption struct {
	// Pause is a pause's id; or a call's, as long as the call has had one pause
	// only.
	Pause string
	// One of these is set; several are refused.
	//
	// Payload is a JSON value that fits the pause's schema. Decision is for a
	// gate: it holds Approved, Reason, and Arguments if they are edited; its
	// other fields are the session's, and refused. Failure is why the outside
	// job failed. Again is an operator's statement that the call did not happen,
	// for a pause of tool.ReasonUnknown, and has Why.
	Payload   json.RawMessage
	Decision  *tool.Decision
	Failure   string
	Retryable bool // with Failure: trying again may help
	Again     bool
	Why       string // with Again: how the operator knows; may be empty

	// Gate, if set, is the layer that the answer is for: at another layer's
	// pause it is refused. What comes with a token takes it from Token.Gate.
	Gate string

	Actor    Actor  // who answers
	Delivery string // an id of the delivery, kept with the receipt
	// Sender is the outside system that has signed the answer, as a verifier
	// has found; empty: none. A pause with an Await.Sender takes that one's
	// alone.
	Sender string

	failed bool  // Failure is meant, even if it is empty
	err    error // the arguments could not be encoded
}

// Complete answers a pause with an output, or an answer for the tool: a JSON
// value that fits the pause's schema.
func Complete(pause string, actor Actor, out json.RawMessage) Resumption {
	return Resumption{Pause: pause, Payload: out, Actor: actor}
}

// Fail answers a pause with the failure of its outside job. The call settles as
// a tool error, which tells the model why and, if it is retryable, that trying
// again may help.
func Fail(pause string, actor Actor, why string, retryable bool) Resumption {
	return Resumption{Pause: pause, Failure: why, Actor: actor, Retryable: retryable, failed: true}
}

// Approve lets a call run with the arguments that were shown.
func Approve(pause string, actor Actor, why string) Resumption {
	d := &tool.Decision{Approved: true, Reason: why}
	return Resumption{Pause: pause, Actor: actor, Decision: d}
}

// Deny refuses a call: its body is never entered, and the model reads why.
func Deny(pause string, actor Actor, why string) Resumption {
	return Resumption{Pause: pause, Actor: actor, Decision: &tool.Decision{Reason: why}}
}

// ApproveEdited lets a call run with other arguments. They are checked against
// the tool's schema, and against the agent's ToolLimits. A runner without the
// session's agent can't know the latter. It accepts arguments over the limit,
// and the call then settles with an error that tells so, without having run. If
// the arguments do not encode as JSON, Resume refuses the answer.
func ApproveEdited[In any](pause string, actor Actor, why string, args In) Resumption {
	raw, err := json.Marshal(args)
	d := &tool.Decision{Approved: true, Reason: why, Arguments: raw}
	return Resumption{Pause: pause, Actor: actor, Decision: d, err: err}
}

// Resumed is what became of a Resume. Each accepted answer is durable.
type Resumed struct {
	// Receipts are those of the resumptions, in their order. Duplicate marks
	// one that was accepted before; Err is set on one that was refused.
	Receipts []session.Receipt

	rn      *Runner
	session string
}

// Events carries the session on, here and now, until the model is done or calls
// wait. For a child it carries on the whole tree that the child belongs to, as
// Continue does: events of the root come bare, those of the child in an
// event.Nested, and the End is the root's. It need not be called: a worker, the
// next Run or Continue does the same. If another drive holds the session, it ends
// at once, with event.FinishElsewhere.
func (r *Resumed) Events(ctx context.Context) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		if r.session == "" {
			return // it is kept for a call that isn't known yet
		}
		r.rn.driveDue(ctx, r.session, false, yield)
	}
}

// Resume delivers answers to pauses of one session. It judges each by itself,
// in one commit: accepted, duplicate of an earlier one with the same content,
// or refused, with an error in its receipt. An answer must fit the pause's
// schema. If this runner has the session's agent, it must also fit the Go type
// that the tool will decode it into. After nil, at least one is accepted or
// duplicate, and what was accepted is durable. The refusals are errors of
// package session. If the Authorizer refuses one answer, none is accepted.
//
// It may be called in another process than the one that paused, long after,
// again and again, and while a drive holds the session.
func (rn *Runner) Resume(
	ctx context.Context, sessionID string, rs ...Resumption,
) (*Resumed, error) {
	if err := checkCount(rs); err != nil {
		return nil, err
	}
	return rn.answered(ctx, sessionID, rs, (*session.Tx).Answer)
}

func checkCount(rs []Resumption) error {
	if len(rs) == 0 || len(rs) > maxResumptions {
		return fmt.Errorf("%w: Resume takes 1 to %d resumptions at once, not %d",
			session.ErrInvalidResumePayload, maxResumptions, len(rs))
	}
	return nil
}

// maxResumptions is how many answers fit one commit, with their receipts and
// index entries.
const maxResumptions = 16

// refusal returns the error of a Resume of which nothing was accepted, or nil.
func refusal(receipts []session.Receipt) error {
	var errs []error
	for _, r := range receipts {
		if r.Err == nil {
			return nil
		}
		errs = append(errs, r.Err)
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// contradiction returns why a resumption can't be meant as it is. Such a
// resumption is refused, and not accepted with a part of it ignored.
func (r Resumption) contradiction() error {
	failed := r.failed || r.Failure != ""
	if err := r.againContradiction(failed); err != nil {
		return err
	}
	switch d := r.Decision; {
	case d != nil && failed:
		return errors.New("it has a decision and a failure, and an answer is one of them")
	case d != nil && len(r.Payload) > 0:
		return errors.New("it has a decision and a payload, and an answer is one of them; " +
			"edited arguments belong into Decision.Arguments")
	case failed && len(r.Payload) > 0:
		return errors.New("it has a failure and a payload, and an answer is one of them")
	case r.Retryable && !failed:
		return errors.New("it says that trying again may help, and that nothing has failed; " +
			"Retryable goes with Failure")
	case d == nil:
		return nil
	case r.Actor == "":
		return errors.New("it is a decision of no actor; set Resumption.Actor to who decides")
	case d.Gate != "":
		return errors.New("its decision names a gate; which layer asked follows from the pause, " +
			"so leave Decision.Gate empty; to decide for one layer only, set Resumption.Gate")
	case d.Shown != "":
		return errors.New("its decision says what was shown; that follows from the pause, " +
			"so leave Decision.Shown empty")
	case d.Actor != "":
		return errors.New("its decision says who decided; that is Resumption.Actor, " +
			"so leave Decision.Actor empty")
	case !d.At.IsZero():
		return errors.New("its decision says when it was made; that is when it is accepted, " +
			"so leave Decision.At zero")
	}
	return nil
}

// incoming returns a resumption as the session judges it. An error is the
// resumption's own, for its receipt.
func (rn *Runner) incoming(r Resumption) (*session.Incoming, error) {
	in := &session.Incoming{
		Pause: r.Pause, Gate: r.Gate, Sender: r.Sender, Actor: modeltext.CleanString(string(r.Actor)),
		Delivery: modeltext.CleanString(r.Delivery), Retryable: r.Retryable,
	}
	misfit := func(err error) error { return &session.PayloadError{Pause: r.Pause, Err: err} }
	var content any
	var kept json.RawMessage
	var reason string
	if err := r.contradiction(); err != nil {
		return nil, misfit(err)
	}
	switch {
	case r.err != nil:
		return nil, misfit(r.err)
	case len(in.Actor) > maxName || len(in.Delivery) > maxName:
		return nil, misfit(fmt.Errorf(
			"its actor has %d bytes and its delivery %d, at most %d are taken",
			len(in.Actor), len(in.Delivery), maxName))
	case r.Decision != nil:
		in.Kind, in.Decision = session.KindDecision, *r.Decision
		reason = modeltext.CleanString(r.Decision.Reason)
		in.Decision.Reason = reason
		in.Value = modeltext.CleanJSON(r.Decision.Arguments)
		if len(in.Value) > 0 && !r.Decision.Approved {
			return nil, misfit(errors.New("a denial has no arguments"))
		}
		kept, content = in.Value, decisionContent{r.Decision.Approved, reason, in.Value}
	case r.Again:
		in.Kind, reason = session.KindRunAgain, modeltext.CleanString(r.Why)
		content = againContent{true, reason}
	case r.failed || r.Failure != "":
		in.Kind = session.KindFail
		why := modeltext.CleanString(r.Failure)
		kept = toolbox.Text(session.FailureText(why, r.Retryable))
		in.Words, _ = session.NewBlob(toolbox.Text(why)) // which is JSON
		content = failureContent{why, r.Retryable}
	default:
		in.Kind, in.Value = session.KindComplete, modeltext.CleanJSON(r.Payload)
		if len(in.Value) == 0 {
			err := errors.New("the payload is empty; an answer without content is null")
			return nil, misfit(err)
		}
		kept, content = in.Value, in.Value
	}
	if n := len(kept) + len(reason); n > rn.options.MaxAnswer {
		return nil, misfit(fmt.Errorf("it has %d bytes, at most %d are taken",
			n, rn.options.MaxAnswer))
	}
	if len(reason) > maxReason {
		return nil, misfit(fmt.Errorf("the reason has %d bytes, at most %d are taken",
			len(reason), maxReason))
	}
	in.Why = session.StringBlob(reason)
	var err error
	if in.Hash, err = hashContent(content); err != nil {
		return nil, misfit(err)
	}
	if in.Payload, err = session.NewBlob(kept); err != nil {
		return nil, misfit(err)
	}
	if len(in.Value) > 0 {
		in.Value = in.Payload.JSON()
	}
	return in, nil
}

// What people write is bounded, in bytes: some of it stands in the head.
const (
	maxReason = 1000 // for a decision, a cancellation, or to run a call again
	maxName   = 256  // of an actor or a delivery
)

// The content by which a repeated answer is recognised.
type (
	decisionContent struct {
		Approved  bool            `json:"approved"`
		Reason    string          `json:"reason,omitempty"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
	}
	failureContent struct {
		Failure   string `json:"failure"`
		Retryable bool   `json:"may_pass,omitempty"` // the name is part of stored hashes
	}
	againContent struct {
		Again bool   `json:"again"`
		Why   string `json:"why,omitempty"`
	}
)

func hashContent(content any) (string, error) {
	raw, ok := content.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = json.Marshal(content); err != nil {
			return "", err
		}
	}
	return strictjson.Hash(raw)
}
