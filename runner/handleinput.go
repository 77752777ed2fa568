package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/internal/handles"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// checksInput is a tool that judges an input of its running calls by what it
// says alone.
type checksInput interface{ CheckInput(json.RawMessage) error }

// checkInput returns what is wrong with an input for a body that runs, before
// that is stored, if the tool can tell. What answers a question is the
// question's to judge. An agent that this runner doesn't have judges nothing.
func (rn *Runner) checkInput(
	ctx context.Context, sessionID string, h *tool.Handle, input json.RawMessage,
) error {
	st, err := rn.store.Load(ctx, sessionID)
	if err != nil {
		return err
	}
	own, known := rn.acting[st.Agent][h.Tool].(tool.Tool)
	if !known {
		return nil
	}
	judge, ok := tool.As[checksInput](own)
	if !ok {
		return nil
	}
	if err := judge.CheckInput(input); err != nil {
		return &HandleError{session.ErrInvalidResumePayload, err.Error()}
	}
	return nil
}

// answerLive answers what the body of a handle asks while it runs, if the answer
// fits. A text that doesn't fit may be the JSON that does. It is the answer to
// the question that the handle is seen to ask just now, and to no later one: the
// body may have gone on when it takes the input.
func (rn *Runner) answerLive(
	ctx context.Context, h *tool.Handle, in Input, person bool,
) (session.Receipt, error) {
	asked := h.Content.Question
	mail := inputMail(h, in)
	mail.question, mail.person = asked.ID, person
	value, err := handles.LiveAnswer(in.Value, asked.Schema)
	if err != nil {
		return session.Receipt{}, &HandleError{session.ErrInvalidResumePayload, err.Error()}
	}
	mail.Payload, mail.given = value, in.Value
	return rn.fed(ctx, h, mail)
}

// feed sends the body of a handle an input.
func (rn *Runner) feed(ctx context.Context, h *tool.Handle, in Input) (session.Receipt, error) {
	return rn.fed(ctx, h, inputMail(h, in))
}

func inputMail(h *tool.Handle, in Input) Mail {
	return Mail{Call: h.Call, Name: tool.InputEvent, ID: in.Delivery, Payload: in.Value,
		Actor: in.Actor, Delivery: in.Delivery}
}

func (rn *Runner) fed(ctx context.Context, h *tool.Handle, mail Mail) (session.Receipt, error) {
	rc, err := only(rn.Deliver(ctx, h.Session, mail))
	if errors.Is(err, session.ErrUnknownEvent) {
		err = &HandleError{ErrNoInput, fmt.Sprintf("Handle `%s` takes no input while it runs. "+
			"Nothing was given to it.", h.Name)}
	}
	return rc, err
}
