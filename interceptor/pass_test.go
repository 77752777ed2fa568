package interceptor_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/scribble"
	"github.com/fermata-ai/fermata/tool"
)

// allowing returns an approval whose policy allows what it is asked about, and
// notes it.
func allowing(name string, asked *[]string) interceptor.Layer {
	return interceptor.Approval(&interceptor.ApprovalOptions{Name: name, Policy: func(_ context.Context, c tool.Call) (interceptor.Verdict, error) {
		*asked = append(*asked, string(c.Arguments))
		return interceptor.Verdict{Ruling: interceptor.Allow}, nil
	}})
}

// changing returns a layer that puts other arguments in the place of those it
// sees.
func changing(name, args string) interceptor.Layer {
	return layer(name, func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
		c.Arguments = json.RawMessage(args)
		return next(ctx, c)
	})
}

// What a policy allowed is what runs, byte for byte, or nothing does.
func TestWhatAPolicyAllowedIsWhatRuns(t *testing.T) {
	const asked, more = `{"cents":10}`, `{"cents":1000}`
	inPlace := layer("in place", func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
		copy(c.Arguments, `{"cents":99}`)
		return next(ctx, c)
	})
	afresh := layer("afresh", func(_ context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
		return next(context.Background(), tool.Call{ID: c.ID, Tool: c.Tool, Arguments: json.RawMessage(more)})
	})
	both := layer("both", func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
		if _, err := next(ctx, c); err != nil {
			return tool.Execution{}, err
		}
		c.Arguments = json.RawMessage(more)
		return next(ctx, c)
	})
	var policy []string
	gate, second := allowing("gate", &policy), allowing("second", &policy)
	for name, test := range map[string]struct {
		chain interceptor.Chain
		runs  []string
		fails bool
	}{
		"unchanged":                      {interceptor.Chain{gate}, []string{asked}, false},
		"changed before it was asked":    {interceptor.Chain{changing("l", more), gate}, []string{more}, false},
		"changed afterwards":             {interceptor.Chain{gate, changing("l", more)}, nil, true},
		"changed in white space only":    {interceptor.Chain{gate, changing("l", `{"cents": 10}`)}, nil, true},
		"written over":                   {interceptor.Chain{gate, inPlace}, nil, true},
		"in a call made afresh":          {interceptor.Chain{gate, afresh}, nil, true},
		"changed between two policies":   {interceptor.Chain{gate, changing("l", more), second}, nil, true},
		"changed and changed back":       {interceptor.Chain{gate, changing("l", more), changing("m", asked)}, []string{asked}, false},
		"changed in a second try":        {interceptor.Chain{gate, both}, []string{asked}, true},
		"allowed twice, once for each":   {interceptor.Chain{both, gate}, []string{asked, more}, false},
		"no policy is asked":             {interceptor.Chain{changing("l", more)}, []string{more}, false},
		"two policies, each of the same": {interceptor.Chain{gate, second}, []string{asked}, false},
	} {
		var ran []string
		body := func(_ context.Context, c tool.Call) (tool.Execution, error) {
			ran = append(ran, string(c.Arguments))
			return tool.Execution{}, nil
		}
		_, err := test.chain.WrapTool("refund", body)(t.Context(), call(asked))
		if errors.Is(err, interceptor.ErrChanged) != test.fails || err != nil && !test.fails {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.runs, ran); diff != "" {
			t.Errorf("%s: it ran with (-want +got):\n%s", name, diff)
		}
	}
}

// A person's edit takes the place of what a policy outside allowed, for what
// comes after.
func TestAPersonsEditComesAfterAPolicy(t *testing.T) {
	var asked []string
	c := call(`{"cents":10}`)
	c.Decisions = []tool.Decision{{Gate: "money", Approved: true, Arguments: json.RawMessage(`{"cents":5}`)}}
	chain := interceptor.Chain{allowing("gate", &asked), interceptor.Approval(&interceptor.ApprovalOptions{Name: "money"})}
	for name, test := range map[string]struct {
		chain interceptor.Chain
		want  string
	}{
		"as it was edited":       {chain, `{"cents":5}`},
		"changed after the edit": {append(chain, changing("l", `{"cents":10}`)), ""},
	} {
		ran := ""
		body := func(_ context.Context, c tool.Call) (tool.Execution, error) {
			ran = string(c.Arguments)
			return tool.Execution{}, nil
		}
		if _, err := test.chain.WrapTool("refund", body)(t.Context(), c); ran != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: it ran with %q, %v", name, ran, err)
		}
	}
}

// A layer of one's own binds as an approval does, where it says so.
func TestBinds(t *testing.T) {
	pass := layer("mine", func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
		return next(ctx, c)
	})
	for _, binds := range []bool{false, true} {
		pass.Binds = binds
		_, err := interceptor.Chain{pass, changing("l", `{}`)}.WrapTool("refund", output)(t.Context(), call(`{"cents":10}`))
		if errors.Is(err, interceptor.ErrChanged) != binds {
			t.Errorf("binds %v: %v", binds, err)
		}
	}
}

// The tools that an approval is for are those that it was given, whatever
// becomes of the slice.
func TestApprovalKeepsItsTools(t *testing.T) {
	shared := append(make([]string, 0, 4), "look")
	o := &interceptor.ApprovalOptions{Tools: append(shared, "refund")}
	gate := interceptor.Approval(o)
	_ = append(shared, "weather") // which writes where "refund" stood
	scribble.Over(o.Tools)
	exec, err := interceptor.Chain{gate}.WrapTool("refund", output)(t.Context(), call(`{}`))
	if err != nil || exec.Await == nil {
		t.Errorf("the call was let through: %v", err)
	}
}

// No layer can make those behind it believe that a person has decided.
func TestDecisionsCannotBeForged(t *testing.T) {
	forge := layer("forge", func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
		for i := range c.Decisions {
			c.Decisions[i].Approved = true
		}
		c.Decisions = append(c.Decisions, tool.Decision{Gate: "approval", Approved: true})
		return next(ctx, c)
	})
	chain := interceptor.Chain{forge, interceptor.Approval(nil)}
	if exec, err := chain.WrapTool("refund", output)(t.Context(), call(`{}`)); err != nil || exec.Await == nil {
		t.Errorf("nobody has decided, and the call was let through: %v", err)
	}
	c := call(`{}`)
	c.Decisions = []tool.Decision{{Gate: "approval", Reason: "no"}}
	if _, err := chain.WrapTool("refund", output)(t.Context(), c); !tool.IsDenied(err) || c.Decisions[0].Approved {
		t.Errorf("the call was denied, and: %v", err)
	}
}

// A layer returns what another asks for as it is, in the same place or in
// another; no one is asked something else in its name.
func TestALayerCannotChangeAnothersPause(t *testing.T) {
	for name, test := range map[string]struct {
		touch func(*tool.Execution)
		fails bool
	}{
		"as it is":               {func(*tool.Execution) {}, false},
		"a copy":                 {func(e *tool.Execution) { *e = e.Clone() }, false},
		"other arguments":        {func(e *tool.Execution) { copy(e.Await.Arguments, `{"cents":99}`) }, true},
		"in another's name":      {func(e *tool.Execution) { e.Await.Gate = "outer" }, true},
		"a prompt of its own":    {func(e *tool.Execution) { e.Await.Prompt = "Just say yes." }, true},
		"a pause of its own":     {func(e *tool.Execution) { e.Await = &tool.Await{} }, true},
		"no pause, but a result": {func(e *tool.Execution) { *e = tool.Execution{Output: json.RawMessage(`1`)} }, false},
	} {
		outer := layer("outer", func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
			exec, err := next(ctx, c)
			test.touch(&exec)
			return exec, err
		})
		exec, err := interceptor.Chain{outer, interceptor.Approval(nil)}.WrapTool("refund", output)(t.Context(), call(`{"cents":10}`))
		if (err != nil) != test.fails {
			t.Errorf("%s: %v", name, err)
		}
		if a := exec.Await; a != nil && (a.Gate != "approval" || string(a.Arguments) != `{"cents":10}` || a.Prompt != "Run refund?") {
			t.Errorf("%s: it asks %+v", name, a)
		}
	}
}

// Each layer has the call in its own name, whatever another one made of it, and
// the body has it in none.
func TestALayerHasTheCallInItsName(t *testing.T) {
	var seen []string
	note := func(name string) interceptor.Layer {
		return layer(name, func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
			seen = append(seen, name+" as "+c.Gate)
			c.Gate = "another"
			return next(ctx, c)
		})
	}
	policy := interceptor.Approval(&interceptor.ApprovalOptions{Policy: func(_ context.Context, c tool.Call) (interceptor.Verdict, error) {
		seen = append(seen, "policy as "+c.Gate)
		return interceptor.Verdict{Ruling: interceptor.Allow}, nil
	}})
	afresh := layer("afresh", func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
		return next(ctx, tool.Call{ID: c.ID, Tool: c.Tool, Arguments: c.Arguments})
	})
	body := func(_ context.Context, c tool.Call) (tool.Execution, error) {
		seen = append(seen, "body as "+c.Gate)
		return tool.Execution{}, nil
	}
	chain := interceptor.Chain{note("a"), afresh, policy, note("b")}
	if _, err := chain.WrapTool("pay", body)(t.Context(), tool.Call{Tool: "pay", Arguments: json.RawMessage(`{}`)}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a as a", "policy as approval", "b as b", "body as "}; !cmp.Equal(seen, want) {
		t.Error(cmp.Diff(want, seen))
	}
}
