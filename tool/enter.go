package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/modeltext"
)

// Enter runs the tool's body once. The call is p.Call, perhaps with other arguments (edited ones, which are checked again),
// an answer, decisions. The body gets a copy of it.
//
// The body gets the call by its context, too. It is bounded by Spec.Timeout; one that ignores its context is left behind then,
// and what it returns is dropped. Without a timeout Enter waits for it, whatever becomes of ctx: whoever calls Enter decides
// about that; and a body that calls runtime.Goexit ends the caller's goroutine. A panic is a *PanicError. What the body returns is checked, bounded by the registry's Limits, and cleaned of what
// no provider can parse; an Await is returned in its normal form. With an error, the Execution is empty.
func (p *Prepared) Enter(ctx context.Context, call Call) (Execution, error) {
	call, err := p.registry.check(p.entry, call)
	if err != nil {
		return Execution{}, err
	}
	if own, ok := p.Tool.(*typed); ok && own == p.entry.typed { // which gives its function the call itself, and returns what is its own
		return p.run(ctx, call, own.Execute)
	}
	return p.run(WithCall(ctx, call), call, apart(p.Tool.Execute))
}

// Reconcile asks Spec.Reconcile what became of a call whose outcome is unknown, bounded and checked as Enter does. ok is false
// if the tool has none.
func (p *Prepared) Reconcile(ctx context.Context, call Call) (exec Execution, ok bool, err error) {
	if p.Spec.Reconcile == nil {
		return Execution{}, false, nil
	}
	exec, err = p.run(WithCall(ctx, call), call, apart(p.Spec.Reconcile))
	return exec, true, err
}

// userCode is a tool's body, or what stands in for it.
type userCode func(context.Context, Call) (Execution, error)

// apart runs code that may keep, and write into, the call that it is given and
// the Execution that it returns: it gets a copy of the one, and a copy is taken
// of the other.
func apart(f userCode) userCode {
	return func(ctx context.Context, call Call) (Execution, error) {
		exec, err := f(ctx, call.Clone())
		return exec.Clone(), err
	}
}

func (p *Prepared) run(ctx context.Context, call Call, body userCode) (Execution, error) {
	made, err := p.bounded(ctx, call, body)
	if err != nil {
		if ran(err) {
			err = p.after(call, err)
		}
		return Execution{}, err
	}
	exec, err := p.checked(made)
	switch {
	case err == nil:
		return exec, nil
	case made.Await.AsksAgain():
		return Execution{}, notAskedAgain(p.Spec.Name, err)
	}
	return Execution{}, p.after(call, err)
}

func (p *Prepared) after(call Call, err error) error {
	return After(p.Spec.Name, min(p.Spec.Effect, call.Effect), err)
}

// bounded runs body until it ends, or, with a timeout, until its time is over.
func (p *Prepared) bounded(ctx context.Context, call Call, body userCode) (Execution, error) {
	if p.Spec.Timeout <= 0 {
		return p.guarded(ctx, call, body)
	}
	return p.inTime(ctx, call, body)
}

// guarded runs body and makes a panic its error.
func (p *Prepared) guarded(ctx context.Context, call Call, body userCode) (exec Execution, err error) {
	defer recovered(p.Spec.Name, &err)
	return body(ctx, call)
}

// inTime runs body in a goroutine of its own, until its time is over.
func (p *Prepared) inTime(ctx context.Context, call Call, body userCode) (Execution, error) {
	late := &TimeoutError{Tool: p.Spec.Name, After: p.Spec.Timeout, Effect: p.Spec.Effect}
	ctx, cancel := context.WithTimeoutCause(ctx, p.Spec.Timeout, late)
	defer cancel()
	over := time.NewTimer(p.Spec.Timeout) // ctx may end for another reason, for which Enter does not leave the body
	defer over.Stop()
	type result struct {
		exec Execution
		err  error
	}
	ended := make(chan result, 1) // with room for a late result, which nobody reads
	go func() {
		var r result
		defer func() { ended <- r }()
		r.err = &PanicError{Tool: p.Spec.Name} // what runtime.Goexit leaves
		r.exec, r.err = p.guarded(ctx, call, body)
	}()
	var r result
	select {
	case r = <-ended:
	case <-over.C:
		select {
		case r = <-ended: // just in time
		default:
			if p.Left != nil {
				p.Left(func() { <-ended })
			}
			return Execution{}, late
		}
	}
	if errors.Is(r.err, context.DeadlineExceeded) && context.Cause(ctx) == error(late) {
		return Execution{}, late // it is the body's way to say so
	}
	return r.exec, r.err
}

// checked is what a body returned, in its normal form, if that is all right.
func (p *Prepared) checked(exec Execution) (Execution, error) {
	if err := p.checkActions(exec.Actions); err != nil {
		return exec, err
	}
	exec.Actions = p.fitting(exec.Actions)
	if exec.Await != nil {
		await, err := p.checkAwait(*exec.Await)
		return Execution{Await: &await, Actions: exec.Actions}, err
	}
	if exec.Output = modeltext.CleanJSON(exec.Output); len(exec.Output) == 0 {
		exec.Output = json.RawMessage("null")
	}
	if n := len(exec.Output); n > p.registry.limits.Result {
		return exec, fmt.Errorf("the result of %s has %d bytes, at most %d are taken", p.Spec.Name, n, p.registry.limits.Result)
	}
	if tooDeep(exec.Output) {
		return exec, fmt.Errorf("the result of %s is nested more than %d deep", p.Spec.Name, maxDepth)
	}
	if p.entry.output != nil {
		if err := p.entry.output.ValidateResult(exec.Output); err != nil {
			return exec, fmt.Errorf("the result of %s does not fit its schema: %w", p.Spec.Name, err)
		}
	}
	return exec, nil
}

func (p *Prepared) checkAwait(a Await) (Await, error) {
	if !p.Spec.MayPause {
		return a, fmt.Errorf("%s %w", p.Spec.Name, ErrMayNotPause)
	}
	if a.Gate != "" {
		return a, fmt.Errorf("%s asked to pause in the name of the layer %q", p.Spec.Name, a.Gate)
	}
	a.Prompt, a.Data, a.Arguments = modeltext.CleanString(a.Prompt), modeltext.CleanJSON(a.Data), nil
	a, err := a.Normalize()
	if err != nil {
		return a, fmt.Errorf("%s asked to pause: %w", p.Spec.Name, err)
	}
	if a.Mode == ModeMessage && len(a.Schema) == 0 && p.entry.noText {
		return a, fmt.Errorf("%s asked to pause: %w: mode %q makes the user's words the output, as a string, and the tool's output is no string",
			p.Spec.Name, ErrInvalidAwait, a.Mode)
	}
	limit := p.registry.limits.Result
	if a.AsksAgain() && a.size() > limit {
		a = a.inFirstWords()
	}
	if n := a.size(); n > limit {
		return a, fmt.Errorf("%s asked to pause with %d bytes of prompt, schema and data, at most %d are taken",
			p.Spec.Name, n, limit)
	}
	if len(a.Schema) > 0 {
		if _, err := p.registry.schemas.compile(a.Schema); err != nil {
			return a, fmt.Errorf("%s asked to pause: the answer's %w", p.Spec.Name, err)
		}
	}
	return a, nil
}

// size is what a pause counts towards the limit, in bytes.
func (a *Await) size() int { return len(a.Prompt) + len(a.Schema) + len(a.Data) }

// Bounds returns exec without the side products that are too large, or the error
// of what else in it is too large, or incomplete. Enter sees to that for what the
// body makes; a layer may make something else of it.
func (p *Prepared) Bounds(exec Execution) (Execution, error) {
	if err := p.checkActions(exec.Actions); err != nil {
		return Execution{}, err
	}
	exec.Actions = p.fitting(exec.Actions)
	if tooDeep(exec.Output) {
		return Execution{}, fmt.Errorf("what a layer made of %s is nested more than %d deep", p.Spec.Name, maxDepth)
	}
	n := len(exec.Output)
	if a := exec.Await; a != nil {
		n = a.size()
	}
	if n > p.registry.limits.Result {
		return Execution{}, fmt.Errorf("what a layer made of %s has %d bytes, at most %d are taken", p.Spec.Name, n, p.registry.limits.Result)
	}
	return exec, nil
}

// tooDeep says that a JSON text is nested more than maxDepth deep, as no argument or answer may be either. A result stands inside a
// message, which encoding/json, and many a provider, reads only to some depth.
func tooDeep(text json.RawMessage) bool {
	if len(text) <= 2*maxDepth {
		return false
	}
	depth, inString := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

func (p *Prepared) checkActions(actions []Action) error {
	for i, a := range actions {
		switch m := a.Media; {
		case a.Artifact != nil && m != nil:
			return fmt.Errorf("action %d of %s is two: one action has one field", i, p.Spec.Name)
		case a.Artifact != nil:
		case m == nil:
			return fmt.Errorf("action %d of %s is empty", i, p.Spec.Name)
		case m.Native != nil:
			return fmt.Errorf("action %d of %s is media in the form of the provider %q: only models make such", i, p.Spec.Name, m.Native.Provider)
		case m.MediaType == "" || len(m.Data) == 0 && m.URL == "":
			return fmt.Errorf("action %d of %s is media of type %q with %d bytes and the URL %q: it needs a type, and bytes or a URL",
				i, p.Spec.Name, m.MediaType, len(m.Data), m.URL)
		}
	}
	return nil
}
