package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/handles"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// Calls that act on handles, as the driver of a turn sees them. What they do is
// their tools' business, see package tool/handle.

// awaits is a tool whose calls wait for handles of their session. They are
// waits from the start, and take no slot of those that run.
type awaits interface {
	// Awaits names the handles that a call with these arguments waits for.
	Awaits(arguments json.RawMessage) []string
}

// actsOn notes in a call that is being opened what it does to a handle. Such a
// call may be entered again: what it does is known by the call's id.
func (s *subject) actsOn(c *session.Call, arguments json.RawMessage) {
	t := s.rn.acting[s.agent.Name()][c.Tool]
	if t == nil {
		return
	}
	if c.Action, c.Handle = t.Acts(arguments); c.Action != "" {
		c.Effect, c.Mailbox = tool.Idempotent, nil
	}
}

// editable returns the schema that edited arguments of a call have to fit: of one
// that is no action, its tool's own.
func (s *subject) editable(c *session.Call, all json.RawMessage) json.RawMessage {
	t, ok := s.rn.acting[s.agent.Name()][c.Tool].(interface{ OwnInput() json.RawMessage })
	if !ok || c.Action != "" {
		return all
	}
	return t.OwnInput()
}

// actsStill returns why a call must not run with some arguments: it would be an
// action, or another one, or on another handle than when it was asked for. What
// is known of a call, its effect and who is asked about it, goes with that.
func (s *subject) actsStill(c *session.Call, running json.RawMessage) error {
	t := s.rn.acting[s.agent.Name()][c.Tool]
	if t == nil || c.Action == session.ActionWait {
		return nil
	}
	if action, handle := t.Acts(running); action != c.Action || handle != c.Handle {
		return fmt.Errorf("%w: they would make it an action that it was not, or none",
			interceptor.ErrChanged)
	}
	return nil
}

// waitsForHandles reports whether the i-th of the open calls can't begin yet.
// Calls on one handle are made in call order. One that awaits a handle which
// the turn begins waits for that beginning, wherever it stands.
func (cs *calls) waitsForHandles(open []session.Call, i int) bool {
	c := &open[i]
	if c.Answer != nil {
		return false
	}
	st := session.State{Calls: open}
	if c.Handle != "" {
		return st.Before(i) != nil
	}
	return !st.Bound(i)
}

// binds notes in calls that are being opened which of them begin what another
// one awaits.
func (s *subject) binds(opening []session.Call, asked []llm.ToolCall) {
	for i := range opening {
		names := s.awaited(&opening[i], asked[i].Arguments)
		for j := range opening {
			if o := &opening[j]; o.MakesHandle() && slices.Contains(names, o.Handle) {
				opening[i].Binds = append(opening[i].Binds, j)
			}
		}
	}
}

// awaited names the handles that a call with these arguments waits for; none, if
// it is of another kind.
func (s *subject) awaited(c *session.Call, arguments json.RawMessage) []string {
	t := s.rn.awaiting[s.agent.Name()][c.Tool]
	if t == nil {
		return nil
	}
	return t.Awaits(arguments)
}

// clash returns why a call can't have a handle that it names, or nil: the turn
// would give the name twice, or an open handle has it.
func (cs *calls) clash(c *session.Call) error {
	open, _ := cs.read.calls()
	names := cs.awaited(c, session.Arguments(cs.read.asked, c.ID))
	if c.Handle != "" {
		names = append(names, c.Handle)
	}
	for _, name := range names {
		makes, clashes := 0, false
		for i := range open {
			if o := &open[i]; o.Handle == name && o.MakesHandle() {
				makes, clashes = makes+1, clashes || o.Clash
			}
		}
		if clashes {
			return errors.New(cs.worded(c.Tool, handles.Taken(name, makes == 1)))
		}
	}
	return nil
}

// worded returns a refusal in the form that errors of the tool have, if they
// have one of their own.
func (s *subject) worded(toolName, text string) string {
	t, ok := s.rn.acting[s.agent.Name()][toolName].(interface{ ErrorWords(string) string })
	if !ok {
		return text
	}
	return t.ErrorWords(text)
}

// begins makes the handle that a call begins, as its tool asks for.
func (a *attempt) begins(step *tool.HandleStep) (*session.NewHandle, error) {
	if step == nil || step.Begin == nil {
		return nil, nil
	}
	if step.Wait != nil {
		return a.newWait(step)
	}
	id := a.rn.store.NewID("call")
	n, err := a.newHandle(a.own.waiting, id, step.Name, cmp.Or(step.Tool, a.call.Tool), step.Begin)
	if err == nil {
		n.Policy = a.policyOf(a.call.Tool)
	}
	return n, err
}

// policyOf returns how handles of a tool are treated.
func (s *subject) policyOf(toolName string) tool.HandlePolicy {
	t, ok := s.rn.acting[s.agent.Name()][toolName].(interface{ Policy() tool.HandlePolicy })
	if !ok {
		return tool.HandlePolicy{}
	}
	return t.Policy()
}

// newHandle returns a handle in the making, of one call of a tool, with that id.
func (s *subject) newHandle(
	ctx context.Context, id, name, toolName string, arguments json.RawMessage,
) (*session.NewHandle, error) {
	message := llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{
		llm.ToolCall{ID: id, Name: toolName, Arguments: arguments},
	}}
	entry, err := session.NewEntry(message.Clean())
	if err != nil {
		return nil, err
	}
	is, _, err := s.declared(ctx, toolName)
	if err != nil {
		return nil, err
	}
	return &session.NewHandle{
		Name: name, Policy: s.policyOf(toolName), Message: entry, Limits: limitsOf(s.agent),
		Call: session.Call{ID: id, Tool: toolName, Status: session.Requested,
			Effect: is.Effect, MayPause: is.MayPause, Output: is.Output, Mailbox: is.Mailbox},
	}, nil
}

// shows is what a call's result, or pause, tells of handles.
func shows(step *tool.HandleStep) (all []session.HandleShown) {
	if step == nil {
		return nil
	}
	if step.Child != "" {
		all = append(all, session.HandleShown{
			Name: step.Name, Child: step.Child, Shown: step.Shown, Told: step.Told,
			Progress: step.Progress,
		})
	}
	for _, e := range step.Ends[:min(len(step.Ends), tool.MaxEnds)] {
		all = append(all, session.HandleShown{Name: e.Name, Child: e.Child, Told: true})
	}
	return all
}

// begun has a handle driven that a commit has begun.
func (a *attempt) begun(n *session.NewHandle) {
	if n == nil {
		return
	}
	var root string
	a.own.lease.View(func(st *session.State) { root = st.Root() })
	a.rn.children.start(root, session.HandleID(a.call.ID))
}

// awaitedHandles returns the children that a pause's handles are just now. One
// that the pause itself begins is the call's own.
func (a *attempt) awaitedHandles(w *tool.HandleWait) (all []session.Awaited, err error) {
	if w == nil {
		return nil, nil
	}
	at := map[string]int{}
	add := func(names []string, set func(*session.Awaited)) {
		for _, name := range names {
			i, known := at[name]
			if !known {
				i = len(all)
				at[name] = i
				all = append(all, session.Awaited{Name: name})
			}
			set(&all[i])
		}
	}
	add(w.All, func(h *session.Awaited) { h.All = true })
	add(w.Any, func(h *session.Awaited) { h.Any = true })
	for i := range all {
		if w.Scope != tool.SessionScope {
			continue // which has no child
		}
		if s := a.out.Handle; s != nil && s.Begin != nil && s.Name == all[i].Name {
			all[i].Child = session.HandleID(a.call.ID)
			continue
		}
		h, err := a.rn.store.Handle(a.own.waiting, a.session, all[i].Name)
		if err != nil {
			return nil, failure(a.own.waiting, err)
		}
		all[i].Child, all[i].Asks = h.Child, a.seen.asks(h)
	}
	return all, nil
}

// register has the next handles know of a call that awaits them.
func (cs *calls) register(c *session.Call) error {
	if c.Pause.Await.Scope != "" {
		return cs.registerWaits(c)
	}
	id, pause, from := c.ID, c.Pauses, c.Pause.Await.Registered
	list, err := cs.rn.store.Awaited(cs.waiting, cs.session, c.Pause.Await)
	if err != nil {
		return err
	}
	next := list[from:min(from+session.MaxRegistered, len(list))]
	return cs.commit(func(tx *session.Tx) error { return tx.Register(id, pause, from, next) })
}

// listBlob is what an await keeps of its handles; nil: it has none.
func listBlob(list []session.Awaited) (*session.Blob, error) {
	if len(list) == 0 {
		return nil, nil
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	return session.NewBlob(raw)
}
