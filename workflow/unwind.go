package workflow

import "slices"

// unwind ends a workflow that fails by a step. What runs is ended, or waited
// for where it can be taken back and isn't lost. Then what is done is taken
// back, the last one first, one after the other: a step that takes another back
// may rely on all that came before that one.
func (pl *plan) unwind(by string) error {
	var open, abort []string
	for i := range pl.list.Steps {
		s := &pl.list.Steps[i]
		if pl.of(s.Name).status != running || pl.back[s.Name] {
			continue
		}
		if open = append(open, s.Name); s.Compensate == "" || pl.of(s.Name).lost {
			abort = append(abort, s.Name)
		}
	}
	if len(open) > 0 {
		pl.waits(waitCall{Steps: open, Abort: abort, All: true})
		return nil
	}
	c := &endCall{Failed: by, Why: pl.of(by).why}
	if pl.of(by).status == done {
		c.Why = "it is done, and a wait for it had failed"
	}
	taken := map[string]bool{}
	for _, name := range slices.Backward(pl.order) {
		s := pl.list.step(name)
		if s == nil || s.Compensate == "" || taken[name] || !pl.of(name).stands {
			continue
		}
		taken[name] = true
		back := pl.list.step(s.Compensate)
		st := pl.of(back.Name)
		switch {
		case st.status == running:
			pl.waits(waitCall{Steps: []string{back.Name}})
			return nil
		case pl.triesAgain(back) && pl.delayOf(back) != nil:
			pl.waits(waitCall{Delays: []delay{*pl.delayOf(back)}})
			return nil
		case st.status == notBegun, pl.triesAgain(back):
			if err := pl.begins(back.Name); err != nil {
				return err
			}
			pl.waits(waitCall{Steps: []string{back.Name}})
			return nil
		case st.status == done:
			c.Back = append(c.Back, name)
		default:
			c.NotBack = append(c.NotBack, name)
		}
	}
	pl.calls = append(pl.calls, plannedCall{endTool, c})
	return nil
}
