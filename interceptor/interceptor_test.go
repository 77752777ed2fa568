package interceptor_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/tool"
)

// layer returns a layer around tool calls.
func layer(name string, f func(context.Context, tool.Call, interceptor.ToolHandler) (tool.Execution, error), tools ...string) interceptor.Layer {
	return interceptor.Layer{Name: name, Tools: tools, Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
		return func(ctx context.Context, c tool.Call) (tool.Execution, error) { return f(ctx, c, next) }
	}}
}

// asking returns a layer that pauses every call, and never lets one through.
func asking(name string) interceptor.Layer {
	return layer(name, func(context.Context, tool.Call, interceptor.ToolHandler) (tool.Execution, error) {
		return tool.Execution{Await: &tool.Await{Prompt: "May it?"}}, nil
	})
}

// output returns a body that returns its arguments.
func output(_ context.Context, c tool.Call) (tool.Execution, error) {
	return tool.Execution{Output: c.Arguments}, nil
}

func call(args string) tool.Call {
	return tool.Call{ID: "c1", Tool: "refund", Arguments: json.RawMessage(args)}
}

func TestChainCheck(t *testing.T) {
	pass := func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
		return next(ctx, c)
	}
	tools := []string{"refund", "deploy"}
	for name, test := range map[string]struct {
		chain interceptor.Chain
		want  string // in the error; empty: there is none
	}{
		"empty":             {},
		"for all tools":     {chain: interceptor.Chain{layer("a", pass), layer("b", pass)}},
		"for some tools":    {chain: interceptor.Chain{layer("a", pass, "deploy", "refund")}},
		"without a name":    {interceptor.Chain{layer("a", pass), layer("", pass)}, "layer 1 has no name"},
		"of a long name":    {interceptor.Chain{layer(strings.Repeat("a", 201), pass)}, "201 bytes"},
		"of a name no text": {interceptor.Chain{layer("a\xff", pass)}, "not valid UTF-8"},
		"of one name":       {interceptor.Chain{layer("a", pass), layer("b", pass), layer("a", pass)}, `two layers are named "a"`},
		"for a typo":        {interceptor.Chain{layer("a", pass, "refund", "delpoy")}, `"delpoy", which the agent does not have; it has: refund, deploy`},
		"case of the names": {interceptor.Chain{layer("a", pass, "Refund")}, `"Refund"`},
	} {
		err := test.chain.Check(tools)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: the error is %v, not with %q", name, err, test.want)
		}
	}
}

// TestLayersAreInOrder: the first is outermost, and a layer for some tools sees
// their calls only.
func TestLayersAreInOrder(t *testing.T) {
	var order []string
	note := func(name string, tools ...string) interceptor.Layer {
		return layer(name, func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
			order = append(order, name)
			exec, err := next(ctx, c)
			order = append(order, name+" again")
			return exec, err
		}, tools...)
	}
	chain := interceptor.Chain{note("outer"), {Name: "nothing at all"}, note("refunds", "refund"), note("deploys", "deploy"), note("inner")}
	exec, err := chain.WrapTool("refund", output)(t.Context(), call(`{"n":1}`))
	if err != nil || string(exec.Output) != `{"n":1}` {
		t.Fatalf("%s, %v", exec.Output, err)
	}
	if want := []string{"outer", "refunds", "inner", "inner again", "refunds again", "outer again"}; !cmp.Equal(order, want) {
		t.Errorf("the layers came as %q, not %q", order, want)
	}
}

// TestPausesAreSigned: a layer's pause carries the layer's name and the
// arguments that the layer saw, whatever it says itself.
func TestPausesAreSigned(t *testing.T) {
	edit := layer("edit", func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
		c.Arguments = json.RawMessage(`{"cents":1}`)
		return next(ctx, c)
	})
	forged := &tool.Await{Prompt: "May it?", Gate: "somebody else", Arguments: json.RawMessage(`{"cents":9}`), Timeout: time.Hour}
	gate := layer("gate", func(context.Context, tool.Call, interceptor.ToolHandler) (tool.Execution, error) {
		return tool.Execution{Await: forged}, nil
	})
	seen := layer("seen", func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
		return next(ctx, c)
	})
	exec, err := interceptor.Chain{seen, edit, gate, asking("never reached")}.WrapTool("refund", output)(t.Context(), call(`{"cents":5}`))
	if err != nil {
		t.Fatal(err)
	}
	want := tool.Await{Prompt: "May it?", Gate: "gate", Arguments: json.RawMessage(`{"cents":1}`), Timeout: time.Hour}
	if diff := cmp.Diff(want, *exec.Await); diff != "" {
		t.Errorf("the pause differs (-want +got):\n%s", diff)
	}
	if forged.Gate != "somebody else" {
		t.Error("the layer's own Await was written to")
	}
}

// TestTheToolsPauseIsNotALayers: what the body asks for goes out unsigned
// through any layers.
func TestTheToolsPauseIsNotALayers(t *testing.T) {
	body := func(context.Context, tool.Call) (tool.Execution, error) {
		return tool.Execution{Await: &tool.Await{Key: "job-1"}}, nil
	}
	wrap := layer("adds", func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
		exec, err := next(ctx, c)
		exec.Actions = append(exec.Actions, tool.Action{Artifact: &tool.Artifact{Name: "log"}})
		return exec, err
	})
	exec, err := interceptor.Chain{wrap, wrap}.WrapTool("refund", body)(t.Context(), call(`{}`))
	if err != nil || exec.Await == nil || exec.Await.Gate != "" || exec.Await.Key != "job-1" || len(exec.Actions) != 2 {
		t.Errorf("%+v, %v", exec, err)
	}
}

// TestPausingTooLate: once next was called the body may have run, and the layer
// can't ask any more.
func TestPausingTooLate(t *testing.T) {
	for name, next := range map[string]interceptor.ToolHandler{
		"after a result": output,
		"after an error": func(context.Context, tool.Call) (tool.Execution, error) { return tool.Execution{}, errors.New("no") },
		"in place of the tool's own pause": func(context.Context, tool.Call) (tool.Execution, error) {
			return tool.Execution{Await: &tool.Await{Key: "job-1"}}, nil
		},
	} {
		late := layer("late", func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
			_, _ = next(ctx, c)
			return tool.Execution{Await: &tool.Await{Prompt: "Was that right?"}}, nil
		})
		exec, err := interceptor.Chain{late}.WrapTool("refund", next)(t.Context(), call(`{}`))
		if err == nil || !strings.Contains(err.Error(), `layer "late" asked for a pause after the tool had been entered`) || exec.Await != nil {
			t.Errorf("%s: %+v, %v", name, exec, err)
		}
	}
}

// TestErrorsBeatPauses: a layer that returns both has failed.
func TestErrorsBeatPauses(t *testing.T) {
	both := layer("both", func(context.Context, tool.Call, interceptor.ToolHandler) (tool.Execution, error) {
		return tool.Execution{Await: &tool.Await{Prompt: "May it?"}}, errors.New("no database")
	})
	_, err := interceptor.Chain{both}.WrapTool("refund", output)(t.Context(), call(`{}`))
	if err == nil || err.Error() != "no database" {
		t.Errorf("the error is %v", err)
	}
}

// TestALayerMayLeaveNextBehind: a layer that gives up on what it wraps doesn't
// race with it.
func TestALayerMayLeaveNextBehind(t *testing.T) {
	release, over := make(chan struct{}), make(chan struct{})
	impatient := layer("impatient", func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
		go func() {
			defer close(over)
			_, _ = next(ctx, c)
		}()
		<-release
		return tool.Execution{Await: &tool.Await{Prompt: "Wait longer?"}}, nil
	})
	body := func(context.Context, tool.Call) (tool.Execution, error) {
		close(release)
		return tool.Execution{Await: &tool.Await{Key: "job-1"}}, nil
	}
	exec, err := interceptor.Chain{impatient}.WrapTool("refund", body)(t.Context(), call(`{}`))
	if err == nil || exec.Await != nil {
		t.Errorf("%+v, %v", exec, err)
	}
	<-over
}
