package runner

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/internal/handles"
	"github.com/fermata-ai/fermata/internal/hold"
	"github.com/fermata-ai/fermata/internal/modeltext"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool"
)

// What a program does to the handles of a session.

// Spawning is a handle that a program begins.
type Spawning struct {
	Handle    string // its name in the session: as a model's, see tool/handle
	Tool      string // of the session's agent, made by handle.Stateful
	Arguments json.RawMessage
	// ID names the wish: under the same one again nothing is begun.
	ID    string
	Actor Actor
}

// Spawned is what became of a Spawn.
type Spawned struct {
	Session   string `json:"session"` // that runs the handle, for Follow, Show, Call
	Call      string `json:"call"`    // its one call
	Duplicate bool   `json:"duplicate,omitempty"`
}

// The refusals of Spawn, beside session.ErrNameTaken.
var (
	ErrInvalidSpawn  = errors.New("runner: this can't be begun")
	ErrSpawnConflict = errors.New("runner: another handle was begun under that id")
)

// Spawn begins a handle: a call of one of the session's tools that runs beside
// it, as if its model had begun it. It may be called at any time, also while the
// session is idle. It goes through the agent's layers. Arguments that don't fit
// stop the handle with an error.
//
// The same ID again, with the same name, tool and arguments, is a duplicate,
// whatever has become of the handle; with others it is ErrSpawnConflict.
func (rn *Runner) Spawn(ctx context.Context, sessionID string, s Spawning) (Spawned, error) {
	op := Operation{Kind: OpSpawn, Actor: s.Actor, Session: sessionID, Handle: s.Handle,
		Tool: s.Tool}
	if err := rn.authorize(ctx, op); err != nil {
		return Spawned{}, err
	}
	if err := rn.cleanSpawning(&s); err != nil {
		return Spawned{}, err
	}
	st, err := rn.store.Load(ctx, sessionID)
	if err != nil {
		return Spawned{}, err
	}
	a, err := rn.agent(st.Agent)
	if err != nil {
		return Spawned{}, err
	}
	t := rn.acting[a.Name()][s.Tool]
	if t == nil || rn.awaiting[a.Name()][s.Tool] != nil {
		return Spawned{}, fmt.Errorf("%w: agent %q has no tool %q of which handles are begun",
			ErrInvalidSpawn, a.Name(), s.Tool)
	}
	if action, _ := t.Acts(s.Arguments); action != "" {
		return Spawned{}, fmt.Errorf("%w: the arguments have an action, and are to be the tool's own",
			ErrInvalidSpawn)
	}
	who := &subject{rn: rn, session: sessionID, user: st.User, agent: a, core: hold.Of(a)}
	n, err := who.newHandle(ctx, rn.store.NewID("call"), s.Handle, s.Tool, s.Arguments)
	if err != nil {
		return Spawned{}, err
	}
	if n.TokenKey, err = rn.ring.newest(ctx); err != nil {
		return Spawned{}, err
	}
	call := callOf(sessionID, s.ID)
	begun := false
	err = rn.store.Update(ctx, sessionID, func(tx *session.Tx) (err error) {
		begun, err = tx.BeginOnce(call, n)
		return err
	})
	switch {
	case err != nil:
		return Spawned{}, err
	case !begun:
		return rn.spawnedBefore(ctx, session.HandleID(call), &s)
	}
	rn.children.start(st.Root(), session.HandleID(call))
	return Spawned{Session: session.HandleID(call), Call: n.Call.ID}, nil
}

// callOf names the call that a program's wish stands for. A store has each such
// name once.
func callOf(sessionID, id string) string {
	sum := sha256.Sum256([]byte(sessionID + "\x00" + id))
	return "call_" + hex.EncodeToString(sum[:16])
}

// cleanSpawning makes a wish fit to be stored.
func (rn *Runner) cleanSpawning(s *Spawning) error {
	if err := session.CheckID("id of a Spawn", s.ID); err != nil {
		return err
	}
	if err := handles.CheckID(s.Handle); err != nil {
		return fmt.Errorf("%w: its name: %w", ErrInvalidSpawn, err)
	}
	s.Arguments = modeltext.CleanJSON(bytes.Clone(s.Arguments))
	if len(s.Arguments) == 0 {
		s.Arguments = json.RawMessage("{}")
	}
	if n := len(s.Arguments); n > rn.options.MaxAnswer {
		return fmt.Errorf("%w: the arguments have %d bytes, at most %d are taken",
			ErrInvalidSpawn, n, rn.options.MaxAnswer)
	}
	if !json.Valid(s.Arguments) {
		return fmt.Errorf("%w: the arguments are no JSON", ErrInvalidSpawn)
	}
	return nil
}

// spawnedBefore returns the handle that was begun under an id, if it is the same.
func (rn *Runner) spawnedBefore(ctx context.Context, child string, s *Spawning) (Spawned, error) {
	st, err := rn.store.Load(ctx, child)
	if err == nil && !st.Deleted.IsZero() {
		err = fmt.Errorf("%w: %q", session.ErrDeleted, child)
	}
	if err != nil {
		return Spawned{}, err
	}
	asked, err := rn.store.Asked(ctx, st)
	if err != nil {
		return Spawned{}, err
	}
	if len(asked) != 1 || st.Parent == nil {
		return Spawned{}, fmt.Errorf("%w: session %q has %d calls, and is a handle's",
			session.ErrCorrupt, child, len(asked))
	}
	same, err := sameJSON(asked[0].Arguments, s.Arguments)
	if err == nil && !(same && asked[0].Name == s.Tool && st.Parent.Handle == s.Handle) {
		err = fmt.Errorf("%w: %q was handle %q, of tool %s", ErrSpawnConflict, s.ID,
			st.Parent.Handle, asked[0].Name)
	}
	return Spawned{Session: child, Call: asked[0].ID, Duplicate: true}, err
}

// sameJSON reports whether two values have the same content.
func sameJSON(a, b json.RawMessage) (bool, error) {
	one, err := strictjson.Hash(a)
	if err != nil {
		return false, err
	}
	other, err := strictjson.Hash(b)
	return one == other, err
}

// Input is what is given to a handle.
type Input struct {
	Handle string // its name in the session
	Value  json.RawMessage
	Actor  Actor
	// Delivery names the input: under the same one again it is a duplicate, as long
	// as its handle has the name.
	Delivery string
	// Session, if set, is the handle's own, as Spawned and tool.Handle tell it: of
	// one that has had the name before, an input that came is still a duplicate,
	// and another one is an ErrHandleStopped. So nothing that is sent again is given
	// to the next handle of the name.
	Session string
}

// Apply gives a handle input. One that runs gets it as the event
// tool.InputEvent of its call; one that asks, as the answer to its question, a
// person's as well as the model's. What waits for a decision is not answered so:
// Resume its pause with Approve or Deny.
//
// The Authorizer is asked about the Apply, and then about the Deliver or Resume
// that it comes to, at the handle's own session. What a model applies is asked
// about as those, by the actor "agent:" with the agent's name.
func (rn *Runner) Apply(
	ctx context.Context, sessionID string, in Input,
) (session.Receipt, error) {
	op := Operation{Kind: OpApply, Actor: in.Actor, Session: sessionID, Handle: in.Handle}
	if err := rn.authorize(ctx, op); err != nil {
		return session.Receipt{}, err
	}
	if err := session.CheckID("delivery of an Apply", in.Delivery); err != nil {
		return session.Receipt{}, err
	}
	rec, err := rn.store.Handle(ctx, sessionID, in.Handle)
	if err != nil {
		return session.Receipt{}, err
	}
	if in.Session != "" && in.Session != rec.Child {
		return rn.applyToFormer(ctx, sessionID, in)
	}
	return rn.apply(ctx, sessionID, rec, in, true)
}

// applyToFormer is Apply for a handle that has stopped, and whose name another one
// has since.
func (rn *Runner) applyToFormer(
	ctx context.Context, sessionID string, in Input,
) (rc session.Receipt, err error) {
	st, err := rn.store.Load(ctx, in.Session)
	switch {
	case errors.Is(err, session.ErrUnknownSession), err == nil && !st.WasHandle(sessionID, in.Handle):
		return rc, fmt.Errorf("%w: %q, in session %q", session.ErrUnknownHandle, in.Handle, in.Session)
	case err != nil:
		return rc, err
	}
	h := tool.Handle{Name: in.Handle, Session: st.ID, Call: st.Calls[0].ID}
	came, err := rn.store.HasMail(ctx, h.Session, h.Call, tool.InputEvent, in.Delivery)
	if err != nil {
		return rc, err
	}
	if !came {
		return rc, &HandleError{ErrHandleStopped, handles.NothingToApply(in.Handle)}
	}
	return rn.feed(ctx, &h, in)
}

// Abort ends a handle, as Cancel ends its call; a body that runs may take a
// moment. One that has stopped is left as it is, and that is no error. Why may
// be empty.
func (rn *Runner) Abort(
	ctx context.Context, sessionID, name string, actor Actor, why string,
) error {
	op := Operation{Kind: OpAbort, Actor: actor, Session: sessionID, Handle: name}
	if err := rn.authorize(ctx, op); err != nil {
		return err
	}
	if why == "" {
		why = "aborted"
	}
	rec, err := rn.store.Handle(ctx, sessionID, name)
	if err != nil {
		return err
	}
	return rn.abort(ctx, rec, actor, why)
}

// Fetch returns a handle as it is just now. What it tells counts for nothing
// with the model, which is told by its own calls. A handle whose process has died
// is carried on, as Await says.
func (rn *Runner) Fetch(
	ctx context.Context, sessionID, name string, actor Actor,
) (tool.Handle, error) {
	op := Operation{Kind: OpFetch, Actor: actor, Session: sessionID, Handle: name}
	if _, err := rn.visible(ctx, op); err != nil {
		return tool.Handle{}, err
	}
	rec, err := rn.store.Handle(ctx, sessionID, name)
	if err != nil {
		return tool.Handle{}, err
	}
	return rn.handle(ctx, rec)
}
