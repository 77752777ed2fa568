package interceptor

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fermata-ai/fermata/tool"
)

// ErrChanged is how a call ends whose arguments were changed after a person, or
// a policy, had approved them.
var ErrChanged = errors.New("the arguments were changed after they were approved, and were not run; " +
	"a layer that changes them belongs outside the layers that ask")

// inside returns h inside the chain's layers for the tool called name, for one
// call. Nothing binds the arguments of a call whose answer is its output: they
// were run, and aren't again, whatever a deploy has made of the layers since.
func (c Chain) inside(name string, call tool.Call, h ToolHandler) ToolHandler {
	var layers []wrapper
	var last *bound
	for i := range c {
		if l := &c[i]; l.around(name) {
			w := wrapper{layer: l, decided: call.Decisions, outer: last}
			if l.Binds && !call.Answer.Output() {
				last = &bound{}
				w.binds = last
			}
			layers = append(layers, w)
		}
	}
	next := last.only(h)
	for _, w := range slices.Backward(layers) {
		next = w.around(next)
	}
	return next
}

// wrapper is one layer around what is behind it. What the layer is given is its
// own, with its name, and what it hands on, or returns, is copied: it may keep
// all of that and write into it.
type wrapper struct {
	layer   *Layer
	decided []tool.Decision // which no layer can change for those behind it
	outer   *bound          // by the nearest layer outside that binds
	binds   *bound          // by this one; nil: it doesn't
}

// around returns the layer around next. It signs the layer's pauses with the
// layer's name and the arguments the layer saw, and refuses a pause that comes
// after next was called.
func (w wrapper) around(next ToolHandler) ToolHandler {
	return func(ctx context.Context, call tool.Call) (tool.Execution, error) {
		if w.binds != nil && !w.outer.allows(call) {
			return tool.Execution{}, ErrChanged
		}
		var called atomic.Bool // atomic, since a layer may leave next behind in a goroutine
		var inner atomic.Pointer[tool.Await]
		exec, err := w.layer.Tool(func(ctx context.Context, c tool.Call) (tool.Execution, error) {
			called.Store(true)
			c = c.Clone()
			c.Decisions, c.Gate = w.decided, ""
			w.binds.add(c)
			exec, err := next(ctx, c)
			inner.Store(exec.Await.Clone())
			return exec, err
		})(ctx, w.own(call))
		exec = exec.Clone()
		switch {
		case err != nil || exec.Await == nil || reflect.DeepEqual(exec.Await, inner.Load()):
			return exec, err
		case called.Load():
			return tool.Execution{}, fmt.Errorf("layer %q asked for a pause after the tool had been entered, or changed the one that "+
				"was asked for behind it; it must ask before, and return what others ask for as it is", w.layer.Name)
		}
		exec.Await.Gate, exec.Await.Arguments = w.layer.Name, call.Arguments
		return exec, nil
	}
}

// own returns the call as the layer gets it.
func (w wrapper) own(call tool.Call) tool.Call {
	call = call.Clone()
	call.Gate = w.layer.Name
	return call
}

// bound is what a layer that binds has let through. A layer outside may call
// next more than once, also at the same time.
type bound struct {
	mu     sync.Mutex
	hashes []string // of the arguments
}

func (b *bound) add(c tool.Call) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hashes = append(b.hashes, tool.HashArguments(c.Arguments))
}

func (b *bound) allows(c tool.Call) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Contains(b.hashes, tool.HashArguments(c.Arguments))
}

// only is h for what was let through, and nothing else.
func (b *bound) only(h ToolHandler) ToolHandler {
	if b == nil {
		return h
	}
	return func(ctx context.Context, c tool.Call) (tool.Execution, error) {
		if !b.allows(c) {
			return tool.Execution{}, ErrChanged
		}
		return h(ctx, c)
	}
}
