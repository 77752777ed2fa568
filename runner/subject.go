package runner

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/internal/agentcore"
	"github.com/fermata-ai/fermata/internal/session"
)

// subject is what a drive is about, and what all its parts know: the session,
// its user, its agent, and the runner. It never changes once the drive has
// begun, and any goroutine may read it.
type subject struct {
	rn      *Runner
	session string
	user    string
	agent   *agent.Agent
	core    *agentcore.Core // of agent
}

func (s *subject) log() *slog.Logger { return s.rn.options.Logger }

// gone reports whether the agent had a call's tool when the call was asked for,
// and doesn't have it now. A tool that the model invented is not gone: its call
// fails.
func (s *subject) gone(c *session.Call) bool {
	return !c.Invented && !s.rn.has(s.agent.Name(), c.Tool)
}

// nests reports whether a tool's calls make children. Such a call is a wait from
// the start, and takes no slot of those that run.
func (s *subject) nests(name string) bool { return s.rn.nesting[s.agent.Name()][name] }

// declared returns what the head keeps of a tool's declaration, by today's
// tool.
func (s *subject) declared(
	ctx context.Context, name string,
) (out session.Declared, known bool, err error) {
	out.Effect, out.MayPause, known = s.core.Tools.Declared(name)
	out.Background = s.core.Tools.Scheduling(name).Background
	if out.MayPause {
		out.Output, err = s.rn.store.PutSchema(ctx, s.core.Tools.Checks(name).Output)
	}
	if err == nil {
		out.Mailbox, err = s.mailbox(ctx, name)
	}
	return out, known, err
}

// mailbox returns the mailbox of a new call of a tool; nil: it takes no events.
func (s *subject) mailbox(ctx context.Context, name string) (*session.Mailbox, error) {
	events := s.core.Tools.Mailbox(name)
	if len(events) == 0 {
		return nil, nil
	}
	box := &session.Mailbox{Limit: s.core.Tools.Limits().Mail}
	for _, e := range events {
		hash, err := s.rn.store.PutSchema(ctx, e.Schema)
		if err != nil {
			return nil, err
		}
		box.Kinds = append(box.Kinds, session.MailKind{Name: e.Name, Schema: hash,
			Sender: e.Sender})
	}
	return box, nil
}

// recovered is deferred, and makes an error of a panic of who. A panic of the
// caller, who was looking at an event just then, goes on.
func (s *subject) recovered(who string, out *listener, err *error) {
	if out.calling {
		return
	}
	if p := recover(); p != nil {
		s.log().Error(who+" panicked", "session", s.session, "panic", p, "stack",
			string(debug.Stack()))
		*err = fmt.Errorf("%s panicked: %v", who, p)
	}
}
