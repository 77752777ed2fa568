package runner

import (
	"context"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// told loads the answer and the decisions that a call was given. They are
// copies, and not the head's.
func (s *subject) told(
	ctx context.Context, c *session.Call,
) (answer *tool.Answer, decisions []tool.Decision, err error) {
	if answer, err = s.answerTo(ctx, c); err != nil {
		return nil, nil, err
	}
	for _, rec := range c.Decisions {
		d, err := s.rn.store.Decided(ctx, s.session, rec)
		if err != nil {
			return nil, nil, err
		}
		if len(d.Arguments) > 0 { // the next layer sees what will run
			d.Arguments = s.core.Tools.Derived(c.Tool, d.Arguments)
		}
		decisions = append(decisions, d)
	}
	return answer, decisions, nil
}

// answerTo loads the answer that a call was given; nil: none was.
func (s *subject) answerTo(ctx context.Context, c *session.Call) (answer *tool.Answer, err error) {
	return s.rn.answer(ctx, s.session, c.Answer)
}

// answer loads an answer, of which the head has a part; nil: none was given.
func (rn *Runner) answer(
	ctx context.Context, id string, a *session.Answer,
) (answer *tool.Answer, err error) {
	if a == nil {
		return nil, nil
	}
	store := rn.store
	answer = &tool.Answer{Pause: a.Pause, Mode: a.Mode, Actor: a.Actor, At: a.At,
		TimedOut: a.Kind == session.KindTimeout, Interrupted: a.Interrupted, Question: a.Question,
		Deadline: a.Deadline, OnTimeout: a.OnTimeout}
	if answer.Payload, err = store.Value(ctx, id, a.Payload); err != nil {
		return nil, err
	}
	if answer.Data, err = store.Value(ctx, id, a.Data); err != nil {
		return nil, err
	}
	if answer.Prompt, err = store.Words(ctx, id, a.Prompt); err != nil {
		return nil, err
	}
	return answer.Clone(), nil
}
