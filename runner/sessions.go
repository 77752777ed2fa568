package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// Session is a session as it is listed and shown. Its JSON, that of a
// Transcript, and that of a CallDetails are good for an HTTP API, as that of a
// tool.Pause is.
type Session struct {
	ID       string    `json:"id"`
	User     string    `json:"user"`
	Agent    string    `json:"agent"`
	Created  time.Time `json:"created"`
	Messages int       `json:"messages"` // committed
	Turn     int       `json:"turn"`     // model messages so far

	// Finish is how the last run ended: FinishPaused while calls wait, and
	// empty while the run goes on. Why is, with FinishFailed, what happened;
	// with Again, the failure before it; with FinishOther, the provider's word;
	// with FinishCancelled, the reason given.
	Finish event.Finish `json:"finish,omitempty"`
	Why    string       `json:"why,omitempty"`

	Driven bool `json:"driven,omitempty"` // a drive holds it
	Deaths int  `json:"deaths,omitempty"` // drives of it that died in a row, without progress

	// Again is when a worker carries it on, after deaths or after its model
	// failed. Continue need not wait for the former.
	Again time.Time `json:"again,omitzero"`
	Usage llm.Usage `json:"usage,omitzero"` // of the current run

	// Parked are calls whose tools are gone. Show has those as well that an agent
	// works for which is gone, as event.Parked says.
	Parked []event.Parked `json:"parked,omitempty"`
	Undos  []Undo         `json:"undos,omitempty"` // what is to be called off outside

	// Handles counts those that have not stopped, as far as the session knows.
	// Handle is the name of this session in the one above it, if it is one.
	Handles int    `json:"handles,omitempty"`
	Handle  string `json:"handle,omitempty"`

	// Path leads to a child from the top of its tree; see tool.Pause.
	Path []tool.PathStep `json:"path,omitempty"`
}

// Sessions lists sessions by id, children and hidden ones only if the filter asks
// for them. One that can't be read is an error in its place.
func (rn *Runner) Sessions(
	ctx context.Context, f session.Filter, actor Actor,
) iter.Seq2[Session, error] {
	return func(yield func(Session, error) bool) {
		op := Operation{Kind: OpList, Actor: actor, User: f.User, Sessions: f}
		if err := rn.authorize(ctx, op); err != nil {
			yield(Session{}, err)
			return
		}
		for st, err := range rn.store.List(ctx, f) {
			if err != nil {
				if !yield(Session{}, err) {
					return
				}
			} else if !yield(rn.overview(st), nil) {
				return
			}
		}
	}
}

func (rn *Runner) overview(st *session.State) Session {
	s := Session{
		ID: st.ID, User: st.User, Agent: st.Agent, Created: st.Created,
		Messages: st.Messages, Turn: st.Turn, Finish: st.Finish, Why: st.Why,
		Usage: st.Run.Usage, Parked: st.Parked(), Handles: st.Handles,
	}
	if st.Parent != nil {
		s.Path, s.Handle = slices.Clone(st.Parent.Path), st.Parent.Handle
	}
	for _, e := range st.Outbox {
		if e.Undo != nil {
			s.Undos = append(s.Undos, undoOf(session.Undone{
				Session: st.ID, User: st.User, Errand: e,
			}))
		}
	}
	s.Driven, _ = rn.store.Driven(st)
	switch step := rn.store.Next(st); {
	case st.Halt != nil:
		s.Finish, s.Why = st.Halt.Finish, st.Halt.Why
	case step.Kind == session.StepWait, step.Kind == session.StepSay && st.Open() > 0:
		s.Finish = event.FinishPaused
	case step.Working():
		s.Finish = ""
		rn.backingOff(st, &s)
	case step.Kind == session.StepRetry:
		s.Again, s.Why = step.Until, st.Retry.Why
		if !s.Driven {
			s.Finish = event.FinishDelayed
		}
	}
	return s
}

// backingOff notes that workers leave a session alone for a while, since drives
// of it died.
func (rn *Runner) backingOff(st *session.State, s *Session) {
	s.Deaths = st.Takeovers
	if at := rn.store.TriedAgain(st); !s.Driven && at.After(rn.store.Now()) {
		s.Again = at
		s.Why = fmt.Sprintf("%d drives of it died one after the other without getting on",
			st.Takeovers)
	}
}

// Session shows a session as Sessions lists it, without its messages.
func (rn *Runner) Session(ctx context.Context, sessionID string, actor Actor) (Session, error) {
	st, err := rn.visible(ctx, Operation{Kind: OpShow, Actor: actor, Session: sessionID})
	if err != nil {
		return Session{}, err
	}
	return rn.overview(st), nil
}

// Transcript is all that is committed of a session.
type Transcript struct {
	Session
	// History goes up to the last closed turn, and every provider accepts it.
	// Of an open turn it has the message that asked.
	History []llm.Message `json:"history"`
	// Pending and MorePending are as event.End has them.
	Pending     []tool.Pause `json:"pending,omitempty"`
	MorePending bool         `json:"more_pending,omitempty"`
	// Calls are those of the open turn, in call order, with the results of
	// those that have settled.
	Calls []CallDetails `json:"calls,omitempty"`
	// Queue is what its user has sent that waits, in the order in which it is
	// taken.
	Queue []QueuedMessage `json:"queue,omitempty"`
}

// Show reads a session with its messages, its open pauses, and what became of
// the calls beside them.
func (rn *Runner) Show(ctx context.Context, sessionID string, actor Actor) (Transcript, error) {
	st, err := rn.visible(ctx, Operation{Kind: OpShow, Actor: actor, Session: sessionID})
	if err != nil {
		return Transcript{}, err
	}
	t := Transcript{Session: rn.overview(st)}
	if t.History, err = rn.store.History(ctx, st, 0); err != nil {
		return Transcript{}, err
	}
	page, err := rn.store.Waiting(ctx, st, nil)
	if err != nil {
		return Transcript{}, err
	}
	t.Pending, t.MorePending = page.Pauses, page.More
	gone, err := rn.lackingAs(ctx, st)
	if err != nil {
		return Transcript{}, err
	}
	t.Parked = append(t.Parked, gone...)
	if t.Queue, err = rn.queued(ctx, st); err != nil {
		return Transcript{}, err
	}
	for i := range st.Calls {
		c, err := rn.callDetails(ctx, st, st.Calls[i].ID)
		if err != nil {
			return Transcript{}, err
		}
		t.Calls = append(t.Calls, c)
	}
	return t, nil
}

// CallDetails is what is known of one call.
type CallDetails struct {
	Call      string             `json:"call"`
	Tool      string             `json:"tool"`
	Status    session.CallStatus `json:"status"`            // see session.Requested
	Settled   event.Status       `json:"settled,omitempty"` // how it ended
	Output    json.RawMessage    `json:"output,omitempty"`  // with which result
	Actor     string             `json:"by,omitempty"`
	At        time.Time          `json:"at,omitzero"`       // when it settled
	Parked    time.Time          `json:"parked,omitzero"`   // since when its tool is gone
	Attempt   int                `json:"attempt,omitempty"` // of a tool of effect once
	Pauses    int                `json:"pauses,omitempty"`
	Decisions []tool.Decision    `json:"decisions,omitempty"` // each with its actor and arguments
	Again     []RanAgain         `json:"again,omitempty"`     // what operators stated of it
	Artifacts []tool.Artifact    `json:"artifacts,omitempty"`
	Media     []llm.Media        `json:"media,omitempty"` // for the model
	// Kept is the Await.Data of the tool's own pause that was answered last, until
	// the call pauses again, or settles.
	Kept     json.RawMessage   `json:"-"`
	Receipts []session.Receipt `json:"receipts,omitempty"` // what was accepted for its pauses
	Mail     *Mailbox          `json:"mail,omitempty"`     // of a call that takes events

	// Of a call of the open turn that acts on a handle: what it does, and the
	// handle's name.
	Action string `json:"action,omitempty"`
	Handle string `json:"handle,omitempty"`
}

// Call shows one call of a session, while it is open and for as long as
// receipts are kept.
func (rn *Runner) Call(
	ctx context.Context, sessionID, call string, actor Actor,
) (CallDetails, error) {
	call = session.CallID(call)
	op := Operation{Kind: OpShow, Actor: actor, Session: sessionID, Call: call}
	st, err := rn.visible(ctx, op)
	if err != nil {
		return CallDetails{}, err
	}
	return rn.callDetails(ctx, st, call)
}

// visible authorizes and loads a session that is not deleted.
func (rn *Runner) visible(ctx context.Context, op Operation) (*session.State, error) {
	if err := rn.authorize(ctx, op); err != nil {
		return nil, err
	}
	st, err := rn.store.Load(ctx, op.Session)
	if err == nil && !st.Deleted.IsZero() {
		err = fmt.Errorf("%w: %q", session.ErrDeleted, op.Session)
	}
	return st, err
}
