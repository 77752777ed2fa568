package runner

import (
	"context"
	"encoding/json"

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
