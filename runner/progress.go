package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/modeltext"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// ErrInvalidProgress refuses progress that is too large, whose data are no
// JSON, or whose fraction is not between 0 and 1.
var ErrInvalidProgress = errors.New("runner: the progress can't be taken")

// Progress reports how far a call's outside job is. The call is given by its
// id, or by the id of one of its pauses; then the progress is refused once that
// pause is over. It is refused once the call is settled. In this process it is
// shown at once.
//
// The latest progress of a call is stored: at once if the last one stored is
// 250 ms old, and otherwise as soon as it is. So after nil this progress may
// not be stored yet, or never, since another one came. [Runner.Close] stores
// what is still to be stored.
func (rn *Runner) Progress(
	ctx context.Context, sessionID, call string, actor Actor, p tool.Progress,
) error {
	if err := rn.authorize(ctx, about(OpProgress, sessionID, call, actor)); err != nil {
		return err
	}
	_, err := rn.progress(ctx, sessionID, call, "", p)
	return err
}

// Heartbeat is what the sender of a sign of life is told.
type Heartbeat struct {
	// Cancelled: the call was cancelled, or is to be: the outside job may stop.
	Cancelled bool
	// Due is until when the next one must come; zero: none is awaited.
	Due time.Time
}

// Heartbeat reports that a call's outside job goes on, as Progress does, and
// tells whether the call was cancelled. The progress may be zero: then what was
// known of how far the job is stays. A call that has ended otherwise is a
// *session.SettledError.
func (rn *Runner) Heartbeat(
	ctx context.Context, sessionID, call string, actor Actor, p tool.Progress,
) (Heartbeat, error) {
	if err := rn.authorize(ctx, about(OpProgress, sessionID, call, actor)); err != nil {
		return Heartbeat{}, err
	}
	var heard session.Heard
	var err error
	if p.Message == "" && p.Fraction == 0 && len(p.Data) == 0 {
		p.At = rn.store.Now()
		heard, err = rn.store.Progress(ctx, sessionID, call, p, false)
	} else {
		heard, err = rn.progress(ctx, sessionID, call, "", p)
	}
	if errors.Is(err, session.ErrCancelled) {
		return Heartbeat{Cancelled: true}, nil
	}
	return Heartbeat{Cancelled: heard.Cancelled, Due: heard.Due}, err
}

// maxProgress bounds Message and Data together, in bytes.
const maxProgress = 16 << 10

// progress is Progress without the Authorizer. The empty toolName is looked up.
func (rn *Runner) progress(
	ctx context.Context, id, callOrPause, toolName string, p tool.Progress,
) (heard session.Heard, err error) {
	call := session.CallID(callOrPause)
	p.Message, p.At = modeltext.CleanString(p.Message), rn.store.Now()
	p.Data = modeltext.CleanJSON(bytes.Clone(p.Data))
	switch {
	case len(p.Message)+len(p.Data) > maxProgress:
		return heard, fmt.Errorf("%w: it has %d bytes, at most %d are taken",
			ErrInvalidProgress, len(p.Message)+len(p.Data), maxProgress)
	case len(p.Data) > 0 && !json.Valid(p.Data):
		return heard, fmt.Errorf("%w: its data are no JSON", ErrInvalidProgress)
	case !(p.Fraction >= 0 && p.Fraction <= 1):
		return heard, fmt.Errorf("%w: its fraction %v is not between 0 and 1",
			ErrInvalidProgress, p.Fraction)
	}
	key := callName{id, call}
	now := rn.reports.begin(key)
	heard, err = rn.store.Progress(ctx, id, callOrPause, p, now)
	if now {
		rn.reports.end(key, err)
	}
	if err != nil {
		return heard, err
	}
	if !now {
		rn.reports.keep(key, latest{callOrPause, p})
	}
	if toolName == "" {
		toolName = heard.Tool
	}
	if !heard.Background {
		rn.live.report(id, event.Progress{Call: call, Tool: toolName, Progress: p})
	}
	return heard, nil
}

// storeProgress stores the last of a burst of progress.
func (rn *Runner) storeProgress(ctx context.Context, call callName, p latest) error {
	_, err := rn.store.Progress(ctx, call.session, p.id, p.Progress, true)
	if err != nil && !callIsOver(err) {
		rn.options.Logger.Warn("progress was not stored",
			"session", call.session, "call", call.call, "error", err)
	}
	return err
}
