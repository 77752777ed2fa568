package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/internal/hold"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/toolbox"
)

// judge finds out whether one reply can be used, before it is accepted: it has
// to fit the schema that was stored with its pause and, where this runner has
// the session's agent, the Go type that the tool will decode it into.
//
// Outputs and answers to a tool's question are for the tool that asked: where
// the schema was another one, the tool was changed since, and what fits the one
// it has now need not fit the one that those who answer were shown. Such an
// answer is taken by the schema alone, and a tool that can't read it asks
// again.
//
// Where code of the user's reads that type, it is run outside of the
// transition, which stops for it and is run again: that looks for receipts
// first, and applies the verdict if the reply is still for the pause that it
// was given for.
type judge struct {
	verdicts map[session.Asked]error
	tools    *toolbox.Box
	open     session.Asked // what the transition has stopped for
	value    json.RawMessage
}

// errUnjudged stops a transition.
var errUnjudged = errors.New("runner: an answer is to be judged first")

// maxJudged is how often a reply is judged: its pause has changed each time.
// Afterwards the schema alone decides.
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

func (j *judge) decide() {
	if j.value == nil {
		return
	}
	if j.verdicts == nil {
		j.verdicts = map[session.Asked]error{}
	}
	j.verdicts[j.open] = j.tools.Judge(j.open.Tool, j.open.Use, j.value)
	j.value = nil
}

// fits is the judge's word on an answer to a session of that agent.
func (j *judge) fits(ctx context.Context, rn *Runner, agent string) session.Fits {
	stored := rn.store.Fits(ctx)
	a := rn.agents[agent]
	if a == nil {
		return stored
	}
	j.tools = hold.Of(a).Tools
	most := j.tools.Limits().Arguments
	knows := func(asked session.Asked) bool {
		checks := j.tools.Checks(asked.Tool)
		switch asked.Use {
		case toolbox.AsAnswer:
			return session.SchemaHash(checks.Answer) == asked.Schema
		case toolbox.AsOutput:
			return session.SchemaHash(checks.Output) == asked.Schema
		}
		return true
	}
	return func(asked session.Asked, value json.RawMessage) (misfit, err error) {
		if n := len(value); asked.Use == toolbox.AsArguments && n > most {
			return fmt.Errorf("the edited arguments have %d bytes, at most %d are taken", n,
				most), nil
		}
		if misfit, err = stored(asked, value); misfit != nil || err != nil || !knows(asked) {
			return misfit, err
		}
		verdict, known := j.verdicts[asked]
		switch {
		case known:
			return verdict, nil
		case !j.tools.JudgesByMethods(asked.Tool, asked.Use):
			return j.tools.Judge(asked.Tool, asked.Use, value), nil
		case len(j.verdicts) >= maxJudged:
			return nil, nil
		}
		j.open, j.value = asked, value
		return nil, errUnjudged
	}
}
