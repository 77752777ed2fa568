package fermatatest

import (
	"context"

	"github.com/fermata-ai/fermata/internal/hold"
	core "github.com/fermata-ai/fermata/internal/session"
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
}

func (w watched) Unwrap() tool.Tool { return w.Tool }

func (w watched) Execute(ctx context.Context, call tool.Call) (tool.Execution, error) {
	if w.life.dead() {
		return tool.Execution{}, faultkv.ErrDead // the dead enter nothing
	}
	w.life.entered(ctx, call)
	if w.life.dead() {
		return tool.Execution{}, faultkv.ErrDead
	}
	return w.Tool.Execute(ctx, call)
}

// entered counts an entry, and delivers what is to come during it.
func (l *life) entered(ctx context.Context, call tool.Call) {
	l.mu.Lock()
	l.entries = append(l.entries, entry{call.Tool, call.ID, call.IdempotencyKey(), call.Effect})
	if spec, _ := hold.Of(l.agent).Tools.Spec(call.Tool); spec.MayPause {
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
