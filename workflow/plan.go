package workflow

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/strictjson"
)

// maxBegun is how many steps a turn begins, beside its wait: a turn has 64 calls.
const maxBegun = 60

// plan is what happens next in a workflow.
type plan struct {
	*progress
	needs needs
	input any
	back  map[string]bool // the steps that take others back

	calls []plannedCall
}

// plannedCall is a call that the model makes.
type plannedCall struct {
	name string
	args any // a record
}

// next returns the calls that come next; none: the workflow is over.
func next(p *progress, input json.RawMessage) ([]plannedCall, error) {
	all, err := p.list.check()
	if err != nil {
		return nil, fmt.Errorf("its list: %w", err)
	}
	pl := &plan{progress: p, needs: all, back: p.list.takesBack()}
	if pl.input, err = jsontree.Parse(input); err != nil {
		return nil, fmt.Errorf("its input: %w", err)
	}
	if p.over {
		return nil, nil
	}
	if !p.begun {
		if err := pl.checkInput(); err != nil {
			return nil, err
		}
	}
	if name := pl.failing(); name != "" {
		err = pl.unwind(name)
	} else {
		err = pl.forward()
	}
	return pl.calls, err
}

// checkInput finds references to what the input doesn't have before anything is
// begun.
func (pl *plan) checkInput() error {
	for i := range pl.list.Steps {
		name := pl.list.Steps[i].Name
		if _, err := pl.values(pl.needs[name].args); err != nil {
			return fmt.Errorf("step %q: %w", name, err)
		}
	}
	out, err := tree(pl.list.Output)
	if err == nil {
		_, err = pl.values(out)
	}
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

// values returns what the references to the input in a value of the list stand
// for, each once.
func (pl *plan) values(v any) (all []inputValue, err error) {
	for _, pointer := range references(v) {
		step, rest, err := stepOf(pointer)
		switch {
		case err != nil:
			return nil, err
		case step != "" || slices.ContainsFunc(all, func(i inputValue) bool {
			return i.Pointer == pointer
		}):
			continue
		}
		found, err := at(pl.input, rest)
		if err != nil {
			return nil, fmt.Errorf("it refers to %q, and in the input %w", pointer, err)
		}
		all = append(all, inputValue{pointer, jsontree.Text(found)})
	}
	return all, nil
}

// failing returns the first step by which the workflow fails; empty: none has.
// A step that is lost is one, whatever it turns out to come to.
func (pl *plan) failing() string {
	for _, name := range pl.order {
		s := pl.list.step(name)
		if s == nil || pl.back[name] || s.OnFailure == ContinueOnFailure {
			continue
		}
		if pl.hasFailed(s) {
			return name
		}
	}
	for i := range pl.list.Steps {
		s := &pl.list.Steps[i]
		if pl.of(s.Name).lost && !pl.back[s.Name] && s.OnFailure != ContinueOnFailure {
			return s.Name
		}
	}
	return ""
}

// hasFailed reports whether a step has ended, is not done, and isn't begun again.
func (pl *plan) hasFailed(s *Step) bool {
	st := pl.of(s.Name)
	return pl.isOver(s) && st.status != done && st.status != skipped
}

// isOver reports whether nothing more comes of a step.
func (pl *plan) isOver(s *Step) bool {
	st := pl.of(s.Name)
	return st.status != notBegun && st.status != running && !pl.triesAgain(s)
}

// triesAgain reports whether a step that has ended is begun again.
func (pl *plan) triesAgain(s *Step) bool {
	st := pl.of(s.Name)
	switch st.status {
	case failed, timedOut, expired:
		return s.Retry != nil && st.tries <= s.Retry.Times
	}
	return false
}

// forward begins what may begin, and waits.
func (pl *plan) forward() error {
	pl.skip()
	var begin, open []string
	var delays []delay
	for i := range pl.list.Steps {
		s := &pl.list.Steps[i]
		switch st := pl.of(s.Name); {
		case pl.back[s.Name]:
		case st.status == running:
			open = append(open, s.Name)
		case pl.triesAgain(s):
			if d := pl.delayOf(s); d != nil {
				delays = append(delays, *d)
			} else {
				begin = append(begin, s.Name)
			}
		case st.status == notBegun && pl.ready(s):
			begin = append(begin, s.Name)
		}
	}
	if len(begin)+len(open)+len(delays) == 0 {
		return pl.end()
	}
	some := begin[:min(len(begin), maxBegun)]
	for _, name := range some {
		if err := pl.begins(name); err != nil {
			return err
		}
	}
	if len(some) < len(begin) { // the others come in the next turn, which is at once
		return nil
	}
	pl.waits(waitCall{Steps: append(open, some...), Delays: delays})
	return nil
}

// skip marks the steps that can't begin since what they refer to won't be there.
func (pl *plan) skip() {
	for again := true; again; {
		again = false
		for i := range pl.list.Steps {
			s := &pl.list.Steps[i]
			if pl.of(s.Name).status != notBegun || pl.back[s.Name] {
				continue
			}
			for _, name := range pl.needs[s.Name].done {
				if of := pl.list.step(name); pl.isOver(of) && pl.of(name).status != done {
					pl.of(s.Name).status, again = skipped, true
				}
			}
		}
	}
}

// ready reports whether all that a step needs is there.
func (pl *plan) ready(s *Step) bool {
	n := pl.needs[s.Name]
	return !slices.ContainsFunc(n.done, func(name string) bool { return pl.of(name).status != done }) &&
		!slices.ContainsFunc(n.over, func(name string) bool { return !pl.isOver(pl.list.step(name)) })
}

// delayOf returns how long to wait before the next try; nil: no longer.
func (pl *plan) delayOf(s *Step) *delay {
	st := pl.of(s.Name)
	ms := s.Retry.delay(st.tries)
	if st.due || ms == 0 {
		return nil
	}
	return &delay{s.Name, ms}
}

// begins has a step begun.
func (pl *plan) begins(name string) error {
	args := pl.needs[name].args
	values, err := pl.values(args)
	if err != nil {
		return fmt.Errorf("step %q: %w", name, err)
	}
	pl.calls = append(pl.calls, plannedCall{stepTool, &stepCall{
		Step: name, Tool: pl.list.step(name).Tool, Arguments: jsontree.Text(args), Inputs: values,
	}})
	return nil
}

func (pl *plan) waits(w waitCall) { pl.calls = append(pl.calls, plannedCall{waitTool, &w}) }

// end ends a workflow that has not failed. A reference of the output to a step
// that has failed, or was skipped, becomes null.
func (pl *plan) end() error {
	c := &endCall{}
	if len(pl.list.Output) > 0 {
		v, err := tree(pl.list.Output)
		if err == nil {
			c.Inputs, err = pl.values(v)
		}
		if err != nil {
			return fmt.Errorf("output: %w", err)
		}
		v, err = fill(v, func(pointer string) (any, error) {
			if name, _, _ := stepOf(pointer); name != "" && pl.of(name).status != done {
				return json.RawMessage("null"), nil
			}
			return keep(pointer), nil
		})
		if err != nil {
			return err
		}
		c.Output = jsontree.Text(v)
	} else {
		for i := range pl.list.Steps {
			if s := &pl.list.Steps[i]; !pl.back[s.Name] {
				st := pl.of(s.Name)
				c.Steps = append(c.Steps, endStep{s.Name, st.status, st.why})
			}
		}
	}
	pl.calls = append(pl.calls, plannedCall{endTool, c})
	return nil
}

// encode returns a call's arguments.
func (c *plannedCall) encode() (json.RawMessage, error) { return strictjson.Append(nil, c.args) }
