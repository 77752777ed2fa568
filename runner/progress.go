package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// ErrInvalidProgress refuses progress that is too large, whose data are no JSON, or whose fraction is not between 0 and 1.
var ErrInvalidProgress = errors.New("runner: the progress can't be taken")

// Progress tells how far a call's outside job is. The call is given by its id; or by that of one of its pauses: then the progress is
// refused once that pause is over. It is shown live at once, in this process, and refused once the call is
// settled. The latest is stored, at most every 250 ms for a call; nil doesn't promise that this one is.
func (rn *Runner) Progress(ctx context.Context, sessionID, call string, actor Actor, p tool.Progress) error {
	if err := rn.authorize(ctx, about(OpProgress, sessionID, call, actor)); err != nil {
		return err
	}
	return rn.progress(ctx, sessionID, call, "", p)
}

const (
	progressEvery = 250 * time.Millisecond
	maxProgress   = 16 << 10 // bytes of Message and Data together
)

func (rn *Runner) progress(ctx context.Context, id, callOrPause, toolName string, p tool.Progress) error {
	call := session.CallID(callOrPause)
	p.Message, p.Data, p.At = llm.CleanString(p.Message), llm.CleanJSON(p.Data), rn.store.Now()
	switch {
	case len(p.Message)+len(p.Data) > maxProgress:
		return fmt.Errorf("%w: it has %d bytes, at most %d are taken", ErrInvalidProgress, len(p.Message)+len(p.Data), maxProgress)
	case len(p.Data) > 0 && !json.Valid(p.Data):
		return fmt.Errorf("%w: its data are no JSON", ErrInvalidProgress)
	case !(p.Fraction >= 0 && p.Fraction <= 1):
		return fmt.Errorf("%w: its fraction %v is not between 0 and 1", ErrInvalidProgress, p.Fraction)
	}
	write := rn.reports.due(id+" "+call, p.At)
	name, err := rn.store.Progress(ctx, id, callOrPause, p, write)
	if err != nil {
		rn.reports.forget(id + " " + call)
		return err
	}
	if toolName == "" {
		toolName = name
	}
	rn.live.publish(id, event.Progress{Call: call, Tool: toolName, Progress: p})
	return nil
}

// reports remembers when the progress of a call was last stored.
type reports struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// maxReports bounds what is remembered; beyond it, a call's progress may be stored more often than need be.
const maxReports = 10000

func (r *reports) due(call string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.last[call]; ok && now.Sub(last) < progressEvery && !now.Before(last) {
		return false
	}
	if r.last == nil || len(r.last) >= maxReports {
		r.last = map[string]time.Time{}
	}
	r.last[call] = now
	return true
}

func (r *reports) forget(call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, call)
}
