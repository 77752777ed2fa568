package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/fermata-ai/fermata/internal/hold"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/toolbox"
	"github.com/fermata-ai/fermata/tool"
)

// judge finds out whether one answer can be used, before it is accepted. The
// answer has to fit the schema that was stored with its pause. If this runner
// has the session's agent, it also has to fit the Go type that the tool will
// decode it into.
//
// If the stored schema isn't the tool's own any more, the tool was changed
// since it asked. An answer that fits what its sender was shown need not fit
// the new type. Such an answer is judged by the schema alone, and a tool that
// can't read it asks again.
//
// If the user's own code reads that type, it runs outside of the transition,
// which may run many times. The transition stops for it and runs again. It then
// looks for receipts first, and applies the verdict if the answer is still for
// the pause that the verdict is about.
type judge struct {
	verdicts map[session.Asked]error
	tools    *toolbox.Box
	open     session.Asked // what the transition has stopped for
	value    json.RawMessage
}

// errUnjudged stops a transition until its answer is judged.
var errUnjudged = errors.New("runner: an answer is to be judged first")

// maxJudged is how often an answer is judged, since its pause changed each
// time. After that, the schema alone decides.
const maxJudged = 4

// judged runs update until none of its judges has stopped it.
func judged(judges []judge, update func() error) error {
	for {
		err := update()
		if !errors.Is(err, errUnjudged) {
			return err
		}
		for i := range judges {
			judges[i].decide()
		}
	}
}

// decide runs the user's code on what the transition has stopped for.
func (j *judge) decide() {
	if j.value == nil {
		return
	}
	if j.verdicts == nil {
		j.verdicts = map[session.Asked]error{}
	}
	j.verdicts[j.open] = j.tools.Judge(j.open.Target, j.value)
	j.value = nil
}

// fits returns the check of an answer to a session of that agent.
func (j *judge) fits(ctx context.Context, rn *Runner, agent string) session.Fits {
	return j.fitsIn(ctx, rn, rn.store, agent)
}

// fitsIn is fits by a store, which may be one within a transaction.
func (j *judge) fitsIn(
	ctx context.Context, rn *Runner, store *session.Store, agent string,
) session.Fits {
	stored := store.Fits(ctx)
	a := rn.agents[agent]
	if a == nil {
		return stored
	}
	j.tools = hold.Of(a).Tools
	most := j.tools.Limits().Arguments
	knows := func(asked session.Asked) bool {
		switch asked.Use {
		case toolbox.AsAnswer:
			own := j.tools.AnswerSchema(asked.Tool, asked.Question)
			return session.SchemaHash(own) == asked.Schema
		case toolbox.AsOutput:
			return session.SchemaHash(j.tools.Checks(asked.Tool).Output) == asked.Schema
		case toolbox.AsEvent:
			return slices.ContainsFunc(j.tools.Mailbox(asked.Tool), func(e tool.MailboxEvent) bool {
				return e.Name == asked.Event && session.SchemaHash(e.Schema) == asked.Schema
			})
		}
		return true
	}
	return func(asked session.Asked, value json.RawMessage) (misfit, err error) {
		if n := len(value); asked.Use == toolbox.AsArguments && n > most {
			misfit = fmt.Errorf("the edited arguments have %d bytes, at most %d are taken", n, most)
			return misfit, nil
		}
		if misfit, err = stored(asked, value); misfit != nil || err != nil || !knows(asked) {
			return misfit, err
		}
		if misfit = rn.otherHandle(agent, asked, value); misfit != nil {
			return misfit, nil
		}
		verdict, known := j.verdicts[asked]
		switch {
		case known:
			return verdict, nil
		case !j.tools.JudgesByMethods(asked.Target):
			return j.tools.Judge(asked.Target, value), nil
		case len(j.verdicts) >= maxJudged:
			return nil, nil
		}
		j.open, j.value = asked, value
		return nil, errUnjudged
	}
}

// otherHandle returns what is wrong with edited arguments that would have a call
// act on another handle than the one that it was asked for, or otherwise.
func (rn *Runner) otherHandle(agent string, asked session.Asked, edited json.RawMessage) error {
	t := rn.acting[agent][asked.Tool]
	if t == nil || asked.Use != toolbox.AsArguments {
		return nil
	}
	action, handle := t.Acts(edited)
	switch {
	case action == asked.Action && handle == asked.Handle:
		return nil
	case asked.Handle == "":
		return errors.New("the call names no handle to act on, and edited arguments can't name one")
	}
	return fmt.Errorf("the call is about the handle %q, and edited arguments can't change that: "+
		"deny it, and have another call made", asked.Handle)
}
