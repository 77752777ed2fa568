package fermatatest

import (
	"context"
	"fmt"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/internal/hold"
	core "github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/toolbox"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/tool"
)

// entry is one entry of a tool's body: what a tool's effect is counted by.
type entry struct {
	tool, call, key string
	effect          tool.Effect
}

// watched is a tool whose entries are counted, and during which inputs are
// delivered.
type watched struct {
	tool.Tool
	life *life
	box  **toolbox.Box // that it is in
}

func (w watched) Unwrap() tool.Tool { return w.Tool }

func (w watched) Execute(ctx context.Context, call tool.Call) (tool.Execution, error) {
	w.life.bodies.Add(1)
	defer w.life.bodies.Add(-1)
	if w.life.dead() {
		return tool.Execution{}, faultkv.ErrDead // the dead enter nothing
	}
	spec, _ := (*w.box).Spec(call.Tool)
	if a, is := tool.As[tool.Acting](w.Tool); is {
		if action, _ := a.Acts(call.Arguments); action != "" {
			w.life.mark(w.life.acted, call.ID)
			return w.Tool.Execute(ctx, call)
		}
	}
	w.life.entered(ctx, call, spec.MayPause)
	if w.life.dead() {
		return tool.Execution{}, faultkv.ErrDead
	}
	x, err := w.Tool.Execute(ctx, call)
	if a := x.Await; a != nil && a.Handles != nil && a.Handles.Permit != nil && call.Answer != nil {
		w.life.mark(w.life.rewaits, call.ID)
	}
	return x, err
}

// crew makes the world's agents, and watches their tools.
func (l *life) crew() (first *agent.Agent, others []*agent.Agent, err error) {
	configs := []agent.Config{l.world.Agent()}
	if l.world.Others != nil {
		configs = append(configs, l.world.Others()...)
	}
	for _, c := range configs {
		box := new(*toolbox.Box)
		if c.Tools, err = l.watchAll(c.Name, c.Tools, box); err != nil {
			return nil, nil, err
		}
		a, err := agent.New(c)
		if err != nil {
			return nil, nil, err
		}
		*box = hold.Of(a).Tools
		l.agents[a.Name()] = a
		others = append(others, a)
	}
	return others[0], others[1:], nil
}

// watchAll returns the tools of an agent as watched ones. Those of the agents
// that are among them are watched, too.
func (l *life) watchAll(name string, tools []tool.Tool, box **toolbox.Box) ([]tool.Tool, error) {
	var all []tool.Tool
	for _, t := range tools {
		if _, again := t.(watched); again {
			return nil, fmt.Errorf("the agent %q was in an earlier life: the World makes it anew",
				name)
		}
		if nests, ok := tool.As[interface{ Nests() *agent.Agent }](t); ok {
			if err := l.takeIn(nests.Nests()); err != nil {
				return nil, err
			}
		}
		if nests, ok := tool.As[interface{ Nested() []*agent.Agent }](t); ok {
			for _, a := range nests.Nested() {
				if err := l.takeIn(a); err != nil {
					return nil, err
				}
			}
		}
		all = append(all, watched{t, l, box})
	}
	return all, nil
}

// takeIn has the tools of an agent watched that is made already. No runner has
// it yet.
func (l *life) takeIn(a *agent.Agent) error {
	if l.agents[a.Name()] != nil {
		return nil // the runner refuses two agents of one name
	}
	l.agents[a.Name()] = a
	inner := hold.Of(a)
	var own []tool.Tool
	for _, name := range inner.Tools.Names() {
		own = append(own, inner.Tools.Tool(name))
	}
	all, err := l.watchAll(a.Name(), own, &inner.Tools)
	if err != nil {
		return err
	}
	limits := inner.Tools.Limits()
	r, err := tool.NewRegistry(all, &limits)
	if err == nil {
		inner.Tools = toolbox.Open(r)
	}
	return err
}

// entered counts an entry, and delivers what is to come during it.
func (l *life) entered(ctx context.Context, call tool.Call, mayPause bool) {
	key := call.IdempotencyKey()
	if n := call.Tried.Count; n > 0 { // a further try of that entry
		key = fmt.Sprintf("%s, try %d", key, n+1)
	}
	l.mu.Lock()
	l.entries = append(l.entries, entry{call.Tool, call.ID, key, call.Effect})
	if mayPause {
		l.tokens[core.PauseID(call.ID, call.Pauses+1)] = call.Token()
	}
	l.mu.Unlock()
	l.note("life %d: the body of %s is entered, call %s, attempt %d",
		l.number, call.Tool, call.ID, call.Attempt)
	for i, in := range l.s.Inputs {
		t := in.target
		if in.moment != duringBody || t.tool != call.Tool || t.pause != call.Pauses+1 ||
			l.call(t) != call.ID {
			continue
		}
		if accepted := l.deliver(i, in); accepted && in.kind == isCancel {
			<-ctx.Done()
		}
	}
}
