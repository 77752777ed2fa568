package httpapi

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
)

// newMessage is what a user says. Files come beside it, in a form of
// multipart/form-data.
type newMessage struct {
	Text string `json:"text,omitempty"`
	// ID makes the request safe to repeat.
	ID string `json:"id,omitempty"`
	// While is what the message does while the session is busy, or calls wait.
	While string `json:"while,omitempty" jsonschema:"enum=supersede,enum=steer,enum=refuse"`
}

// newSession is the message that begins a session.
type newSession struct {
	Text  string `json:"text,omitempty"`
	ID    string `json:"id,omitempty"`
	Agent string `json:"agent,omitempty"` // empty: the runner's first
}

// begun is a session that a message has begun.
type begun struct {
	Session string      `json:"session"`
	Message runner.Sent `json:"message"`
}

// incoming is a message on its way in.
type incoming struct {
	newMessage
	agent string
	files []llm.Part
}

func (m *incoming) message() llm.Message {
	out := llm.Message{Role: llm.RoleUser}
	if m.Text != "" {
		out.Parts = append(out.Parts, llm.Text{Text: m.Text})
	}
	out.Parts = append(out.Parts, m.files...)
	return out
}

// begin begins a session under an id of the handler's own.
func (v *visit) begin() error {
	var s newSession
	files, err := v.receiveFiles(&s)
	if err != nil {
		return err
	}
	m := &incoming{newMessage{Text: s.Text, ID: s.ID}, s.Agent, files}
	id := sessionID(v.user, s.ID)
	if s.ID != "" && s.Agent != "" {
		if _, err := v.reach(v.r.Context(), id); err == nil {
			m.agent = "" // it is there: the request is repeated, and its agent chosen
		}
	}
	v.w.Header().Set("Location", v.h.path("sessions", id))
	if v.wantsStream() {
		return named(s.Agent, v.run(id, m))
	}
	sent, err := v.store(id, m)
	if err != nil {
		return named(s.Agent, err)
	}
	return v.answer(http.StatusCreated, begun{id, sent})
}

// named makes a fault of the client's of an agent that it has named wrongly.
func named(agent string, err error) error {
	if agent != "" && errors.Is(err, runner.ErrUnknownAgent) {
		return refuse("invalid", fmt.Sprintf("there is no agent %.60q", agent))
	}
	return err
}

// sessionID makes the id of a new session. Of one user and one key of theirs it
// is always the same, so that a request may be repeated. No user can name, or
// guess, one that another user begins.
func sessionID(user runner.Actor, key string) string {
	if key == "" {
		return "s-" + strings.ToLower(rand.Text())
	}
	sum := sha256.Sum256([]byte(string(user) + "\x00" + key))
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16])
	return "s-" + strings.ToLower(text)
}

// send sends a message to a session that is there.
func (v *visit) send() error {
	m := &incoming{}
	var err error
	if m.files, err = v.receiveFiles(&m.newMessage); err != nil {
		return err
	}
	if v.wantsStream() {
		return v.run(v.session(), m)
	}
	sent, err := v.store(v.session(), m)
	if err != nil {
		return err
	}
	return v.answer(http.StatusAccepted, sent)
}

// store stores a message for the worker that carries the session on.
func (v *visit) store(id string, m *incoming) (runner.Sent, error) {
	if err := v.h.crew.refuses(); err != nil {
		return runner.Sent{}, err
	}
	return v.h.rn.Send(v.r.Context(), string(v.user), id, m.message(), &runner.SendOptions{
		Agent: m.agent, MessageID: m.ID, While: runner.While(m.While)})
}

// run drives the session with a message, and streams what happens.
func (v *visit) run(id string, m *incoming) error {
	switch runner.While(m.While) {
	case runner.WhileQueue, runner.WhileSupersede:
	default:
		return refuse("invalid", "a message that begins a stream waits for nothing: while is "+
			"supersede, or left out")
	}
	return v.drive(id, func(ctx context.Context) iter.Seq2[event.Event, error] {
		return v.h.rn.Run(ctx, string(v.user), id, m.message(), &runner.RunOptions{
			Agent: m.agent, MessageID: m.ID, Detached: true,
			Supersede: runner.While(m.While) == runner.WhileSupersede})
	})
}

// sent tells how a message stands.
func (v *visit) sent() error {
	sent, err := v.h.rn.Sent(v.r.Context(), v.session(), v.r.PathValue("message"), v.user)
	if err != nil {
		return err
	}
	return v.answer(http.StatusOK, sent)
}

// carryOn carries a session on.
func (v *visit) carryOn() error {
	return v.drive(v.session(), func(ctx context.Context) iter.Seq2[event.Event, error] {
		return v.h.rn.Continue(ctx, v.session(), v.user)
	})
}
