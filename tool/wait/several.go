package wait

import (
	"context"
	"encoding/json"

	"github.com/fermata-ai/fermata/internal/waits"
	"github.com/fermata-ai/fermata/tool"
)

// waitForSeveral waits for several handles.
type waitForSeveral struct{ base }

type severalInput struct {
	IDs     []string   `json:"handleIds"`
	Mode    waits.Mode `json:"mode"`
	Timeout *millis    `json:"timeoutMs"`
}

// ids returns the ids, each once, or what is wrong with them.
func (in *severalInput) ids() (ids []string, err error) {
	seen := map[string]bool{}
	for _, id := range in.IDs {
		if err := waits.CheckID(id); err != nil {
			return nil, waits.Errorf("%v.", err)
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	switch n := len(ids); {
	case n == 0:
		return nil, waits.Errorf("handleIds is empty: give one id at least.")
	case n > tool.MaxAwaited:
		return nil, waits.Errorf("handleIds has %d ids, at most %d are taken.", n, tool.MaxAwaited)
	}
	return ids, nil
}

// Acts tells the runner that a call is none that layers are asked about.
func (t *waitForSeveral) Acts(json.RawMessage) (action, handle string) {
	return waits.ActionAwait, ""
}

// Awaits names the handles of a call, for the runner.
func (t *waitForSeveral) Awaits(arguments json.RawMessage) []string {
	var in severalInput
	if json.Unmarshal(arguments, &in) != nil {
		return nil
	}
	ids, err := in.ids()
	if err != nil {
		return nil
	}
	return ids
}

// Execute waits, or tells what has come.
func (t *waitForSeveral) Execute(ctx context.Context, c tool.Call) (tool.Execution, error) {
	in, err := input[severalInput](c)
	if err != nil {
		return tool.Execution{}, err
	}
	ids, err := in.ids()
	if err != nil {
		return tool.Execution{}, err
	}
	host, err := waits.HostOf(c)
	if err != nil {
		return tool.Execution{}, err
	}
	p, err := patienceOf(c, in.Timeout)
	if err != nil {
		return tool.Execution{}, err
	}
	all, err := host.LookAtWaits(ctx, c, t.config.Scope, ids)
	if err != nil {
		return tool.Execution{}, worded(err)
	}
	now := waits.Now(c)
	r, met, err := waits.SeveralOf(in.Mode, all, p.since, now, c.ResultLimit()-room)
	if err != nil {
		return tool.Execution{}, err
	}
	switch over := p.over(c, now); {
	case !met && !over, untold(all) > tool.MaxEnds && c.Answer == nil && !over:
		// So many ends are noted while the pause registers.
		w := &tool.HandleWait{Any: ids, Success: in.Mode == waits.ModeAny}
		if in.Mode == waits.ModeAll {
			w = &tool.HandleWait{All: ids}
		}
		return p.await(t.config.Scope, c, w)
	case !met:
		why := p.words(c)
		r.Status, r.Error = tool.WaitTimeout, &why
		if p.interrupted(c) {
			r.Status = tool.WaitPending
		}
	}
	exec, err := reply(r)
	if step := tells(all); len(step.Ends) > 0 {
		exec.Handle = step
	}
	return exec, err
}

// room is how many bytes a reply has beside its results.
const room = 1 << 10

// tells returns the ends that a reply tells of.
func tells(all []tool.Wait) *tool.HandleStep {
	step := &tool.HandleStep{}
	for i := range all {
		if w := &all[i]; w.Ended() && !w.Told && w.Session != "" {
			step.Ends = append(step.Ends, tool.HandleEnd{Name: w.ID, Child: w.Session})
		}
	}
	return step
}

// untold returns how many ends a reply would be the first to tell of.
func untold(all []tool.Wait) int { return len(tells(all).Ends) }
