package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/httpapi/internal/agui"
	"github.com/fermata-ai/fermata/internal/httpin"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// AG-UI is a second way in and out, for clients that know that protocol alone:
// one request is one run. What they may do is what the user may do by the other
// routes, and it is judged as that is.

// aguiRun is one run of a client's. It belongs to the request's goroutine until
// its stream begins, and then to the one that follows the session.
type aguiRun struct {
	v       *visit
	in      *agui.Input
	session string
	before  runner.Transcript // as the session was when the request came
	fresh   []agui.Queued     // what the user has said
	again   []agui.Message    // those after the last answer that aren't new
	changed []string          // of these, the ids of which the store has other messages
	left    int               // parts of messages that aren't taken
	// What became of the client's answers.
	answered bool // one was taken
	refused  []refusedAnswer

	tr     *agui.Translator
	broken bool // an event could not be shown
}

// agui serves a run.
func (v *visit) agui() error {
	in, err := v.receiveAGUI()
	if err != nil {
		return err
	}
	a := &aguiRun{v: v, in: in}
	leave, err := v.h.crew.enter(place{user: v.user})
	if err != nil {
		return err
	}
	defer leave()
	left, err := v.h.crew.enter(place{v.user, true})
	if err != nil {
		return err
	}
	if err := a.take(v.r.Context()); err != nil {
		left()
		return err
	}
	return a.stream(a.carryOn(left))
}

// take gives the session what the input brings.
func (a *aguiRun) take(ctx context.Context) error {
	for _, step := range []func(context.Context) error{a.find, a.hear, a.answer, a.say} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// receiveAGUI reads the request's body. It has the whole conversation, files
// included, and so has a bound of its own.
func (v *visit) receiveAGUI() (*agui.Input, error) {
	defer v.patient() // the store may take longer than the client may
	if err := errors.Join(httpin.Plain(v.w, v.r), httpin.IsJSON(v.r)); err != nil {
		return nil, err
	}
	if v.r.Header.Get("Content-Type") == "" {
		return nil, httpin.Unsupported("the body has no type; send Content-Type: application/json")
	}
	body, err := v.h.talks.Read(v.w, v.r)
	if err != nil {
		return nil, err
	}
	in, err := agui.ReadInput(httpin.Unmarked(body))
	switch {
	case err != nil:
		return nil, refuse("invalid", short(err.Error()))
	case len(in.Tools) > 0:
		return nil, refuse("invalid", fmt.Sprintf("the input offers %d tools, the first of them %.60q; "+
			"an agent here has tools of its own alone. Give it a tool that pauses, and answer the "+
			"interrupt", len(in.Tools), in.Tools[0].Name))
	}
	return in, nil
}

// find finds the session of the thread. A thread may be named by the id of any
// session that the user has. Any other name is the client's own, and makes the
// id of a session that no other user can name.
func (a *aguiRun) find(ctx context.Context) error {
	v := a.v
	a.session = a.in.Thread
	_, err := v.reach(ctx, a.session)
	if noSession(err) {
		a.session = threadSession(v.user, a.in.Thread)
		_, err = v.reach(ctx, a.session)
	}
	switch {
	case noSession(err):
		return nil // the first message begins it
	case err != nil:
		return err
	}
	a.before, err = v.h.rn.Show(ctx, a.session, v.user)
	return err
}

// threadSession makes the id of the session of a client's thread.
func threadSession(user runner.Actor, thread string) string {
	sum := sha256.Sum256([]byte("AG-UI\x00" + string(user) + "\x00" + thread))
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16])
	return "t-" + strings.ToLower(text)
}

// noSession reports whether the user has no session of that id, as far as the
// user may know.
func noSession(err error) bool {
	r := httpin.AsRefusal(err)
	return r != nil && r.Code == "unknown_session" || errors.Is(err, session.ErrUnknownSession) ||
		errors.Is(err, session.ErrInvalidID) || errors.Is(err, runner.ErrNotAllowed)
}

// hear finds out which messages of the input are new. The rest of what the
// client sends as history is not read: the store has it.
func (a *aguiRun) hear(ctx context.Context) error {
	fresh, files := map[string]bool{}, int64(0)
	for _, m := range a.in.Said() {
		known, err := a.knows(ctx, m.ID)
		switch {
		case err != nil:
			return err
		case known || fresh[m.ID]:
			a.again = append(a.again, m)
			continue
		}
		said, left, err := m.News(a.v.takesMedia)
		if err != nil {
			return refuse("invalid", short(err.Error()))
		}
		for _, p := range said.Parts {
			if file, is := p.(llm.Media); is {
				files += int64(len(file.Data))
			}
		}
		if files > a.v.h.uploads.Max {
			return a.v.h.uploads.TooLarge()
		}
		a.left += left
		fresh[m.ID] = true
		a.fresh = append(a.fresh, agui.Queued{ID: m.ID, Message: said.Clean()})
	}
	if a.before.ID == "" && len(a.fresh) == 0 {
		return refuse("unknown_session", "the user has no such thread, and a message begins one")
	}
	return nil
}

// knows reports whether a message was sent to the session before.
func (a *aguiRun) knows(ctx context.Context, id string) (bool, error) {
	if err := ctx.Err(); err != nil || a.before.ID == "" {
		return false, err // not every store looks
	}
	_, err := a.v.h.rn.Sent(ctx, a.session, id, a.v.user)
	if errors.Is(err, session.ErrUnknownMessage) {
		return false, nil
	}
	return err == nil, err
}

func (v *visit) takesMedia(media string) bool {
	return slices.Contains(v.h.config.Limits.MediaTypes, media)
}

// say sends what is new. That is safe to repeat. A message whose id was that of
// another one before is not taken, and the client is told: the conversation that
// it sends with it must not be refused for it.
func (a *aguiRun) say(ctx context.Context) error {
	for _, m := range a.fresh {
		if err := a.sayOne(ctx, m); err != nil {
			return err
		}
	}
	for _, m := range a.again {
		said, _, err := m.News(a.v.takesMedia)
		if err == nil {
			err = a.sayOne(ctx, agui.Queued{ID: m.ID, Message: said.Clean()})
			if err != nil && httpStatus(err) >= 500 {
				return err
			}
			if !errors.Is(err, session.ErrMessageConflict) {
				continue // it is the same, or whatever is refused of it now: it was taken
			}
		}
		a.changed = append(a.changed, m.ID)
	}
	return nil
}

func (a *aguiRun) sayOne(ctx context.Context, m agui.Queued) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := a.v.h.rn.Send(ctx, string(a.v.user), a.session, m.Message,
		&runner.SendOptions{MessageID: m.ID})
	return err
}

// short bounds what a client is told of its own input.
func short(text string) string {
	const most = 400
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// stored is the session as a client is told of it.
func storedAs(t runner.Transcript) agui.Stored {
	s := agui.Stored{History: t.History}
	for _, c := range t.Calls {
		if c.Settled == "" {
			continue
		}
		s.Open = append(s.Open, event.Result{Status: c.Settled, Actor: c.Actor,
			Result: llm.ToolResult{Call: c.Call, Name: c.Tool, Output: c.Output,
				Error: c.Settled != event.Done, Media: c.Media}})
	}
	for _, q := range t.Queue {
		s.Queue = append(s.Queue, agui.Queued{ID: q.ID, Message: q.Message})
	}
	return s
}

// aguiRoute describes the route.
func aguiRoute() route {
	return route{method: "POST", path: "agui", id: "runAGUI", serve: (*visit).agui,
		summary: "Runs an agent for a client of AG-UI " + agui.Version + ", and streams the " +
			"protocol's events.", streams: true,
		body:   &form{name: "RunAgentInput", schema: bytes.TrimSpace([]byte(aguiInputSchema))},
		status: http.StatusOK}
}

// aguiInputSchema is for the description: the protocol's own schema has the
// forms in full.
const aguiInputSchema = `
{
	"description": "The RunAgentInput of AG-UI, https://ag-ui.com/spec/1.0/schema.json#RunAgentInput.",
	"type": "object",
	"properties": {
		"threadId": {"type": "string", "description": "The id of a session, or a name of the client's."},
		"runId": {"type": "string"},
		"protocolVersion": {"type": "string"},
		"messages": {"type": "array", "items": {"type": "object"}},
		"tools": {"type": "array", "maxItems": 0},
		"context": {"type": "array"},
		"state": {},
		"forwardedProps": {},
		"resume": {"type": "array", "items": {"type": "object"}}
	},
	"required": ["threadId", "runId", "messages"]
}`
