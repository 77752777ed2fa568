package interceptor_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/tool"
)

// through takes a call through an approval. Entered reports whether it came to the
// body, and with which arguments.
func through(t *testing.T, o *interceptor.ApprovalOptions, c tool.Call) (exec tool.Execution, entered []string, err error) {
	t.Helper()
	body := func(ctx context.Context, c tool.Call) (tool.Execution, error) {
		entered = append(entered, string(c.Arguments))
		return output(ctx, c)
	}
	exec, err = interceptor.Chain{interceptor.Approval(o)}.WrapTool(c.Tool, body)(t.Context(), c)
	return exec, entered, err
}

// TestPolicy: only a clear yes lets a call through, only a clear no refuses it;
// everything else asks a person.
func TestPolicy(t *testing.T) {
	type V = interceptor.Verdict
	for name, test := range map[string]struct {
		policy func() (V, error)
		want   string // entered, denied, or the prompt
	}{
		"allow":                 {func() (V, error) { return V{Ruling: interceptor.Allow}, nil }, "entered"},
		"deny":                  {func() (V, error) { return V{Ruling: interceptor.Deny, Reason: "not on Fridays"}, nil }, "denied"},
		"ask":                   {func() (V, error) { return V{Ruling: interceptor.Ask, Reason: "large sum"}, nil }, "Run refund? (large sum)"},
		"nothing":               {func() (V, error) { return V{}, nil }, "Run refund?"},
		"an unknown ruling":     {func() (V, error) { return V{Ruling: "yes"}, nil }, "Run refund?"},
		"an error":              {func() (V, error) { return V{}, errors.New("no database at db:5432") }, "Run refund? (the policy failed)"},
		"allow and an error":    {func() (V, error) { return V{Ruling: interceptor.Allow}, errors.New("?") }, "Run refund? (the policy failed)"},
		"deny and an error":     {func() (V, error) { return V{Ruling: interceptor.Deny}, errors.New("?") }, "Run refund? (the policy failed)"},
		"a panic":               {func() (V, error) { panic("oops") }, "Run refund? (the policy failed)"},
		"a panic with an error": {func() (V, error) { panic(errors.New("oops")) }, "Run refund? (the policy failed)"},
		//lint:ignore SA5000 it is to panic, as a policy would
		"a panic without a word": {func() (V, error) { var m map[string]int; m["a"] = 1; return V{Ruling: interceptor.Allow}, nil }, "Run refund? (the policy failed)"},
	} {
		o := &interceptor.ApprovalOptions{Policy: func(context.Context, tool.Call) (V, error) { return test.policy() }}
		exec, entered, err := through(t, o, call(`{}`))
		got := ""
		switch {
		case tool.IsDenied(err):
			got = "denied"
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case exec.Await != nil:
			got = exec.Await.Prompt
		default:
			got = "entered"
		}
		if got != test.want || (len(entered) > 0) != (test.want == "entered") {
			t.Errorf("%s: %q, entered with %q; want %q", name, got, entered, test.want)
		}
	}
}

// TestDefaultPolicy: read-only tools are let through, unless they were named.
func TestDefaultPolicy(t *testing.T) {
	for effect, asksUnnamed := range map[tool.Effect]bool{tool.Once: true, tool.Idempotent: true, tool.ReadOnly: false} {
		c := call(`{}`)
		c.Effect = effect
		exec, _, err := through(t, nil, c)
		if err != nil || (exec.Await != nil) != asksUnnamed {
			t.Errorf("effect %q: asks: %v, %v", effect, exec.Await != nil, err)
		}
		exec, _, err = through(t, &interceptor.ApprovalOptions{Tools: []string{"refund"}}, c)
		if err != nil || exec.Await == nil {
			t.Errorf("effect %q of a named tool: asks: %v, %v", effect, exec.Await != nil, err)
		}
	}
}

// TestApprovalDecides: once there is a decision, the policy is not asked, and
// neither is a person.
func TestApprovalDecides(t *testing.T) {
	asked := 0
	o := &interceptor.ApprovalOptions{Name: "money", Policy: func(context.Context, tool.Call) (interceptor.Verdict, error) {
		asked++
		return interceptor.Verdict{}, nil
	}}
	decided := func(d tool.Decision) tool.Call {
		c := call(`{"cents":500}`)
		c.Decisions = []tool.Decision{{Gate: "another", Approved: !d.Approved, Arguments: json.RawMessage(`{"cents":1}`)}, d}
		return c
	}
	if _, entered, err := through(t, o, decided(tool.Decision{Gate: "money", Approved: true})); err != nil || len(entered) != 1 || entered[0] != `{"cents":500}` {
		t.Errorf("approved: %v, entered with %q", err, entered)
	}
	edited := decided(tool.Decision{Gate: "money", Approved: true, Arguments: json.RawMessage(`{"cents":250}`)})
	if _, entered, err := through(t, o, edited); err != nil || len(entered) != 1 || entered[0] != `{"cents":250}` {
		t.Errorf("edited: %v, entered with %q", err, entered)
	}
	if string(edited.Arguments) != `{"cents":500}` {
		t.Error("the caller's call was changed")
	}
	_, entered, err := through(t, o, decided(tool.Decision{Gate: "money", Reason: "wrong customer"}))
	if want := "The call was refused, and the tool was not run. Do not try again unless you are told to. Reason: wrong customer"; !tool.IsDenied(err) || err.Error() != want || len(entered) != 0 {
		t.Errorf("denied: %v, entered with %q", err, entered)
	}
	if asked != 0 {
		t.Errorf("the policy was asked %d times", asked)
	}
	// A decision that another gate was given is none of this one's.
	c := call(`{}`)
	c.Decisions = []tool.Decision{{Gate: "another", Approved: true}}
	if exec, entered, err := through(t, o, c); err != nil || exec.Await == nil || len(entered) != 0 || asked != 1 {
		t.Errorf("another gate's decision: %+v, %v, entered with %q", exec, err, entered)
	}
}

func TestApprovalOptions(t *testing.T) {
	o := &interceptor.ApprovalOptions{
		Name: "money", Timeout: time.Hour, Prompt: func(c tool.Call) string { return "Pay " + string(c.Arguments) + "?" },
	}
	exec, _, err := through(t, o, call(`{"cents":500}`))
	if err != nil {
		t.Fatal(err)
	}
	a, err := exec.Await.Normalize()
	if err != nil || a.Reason != tool.ReasonApproval || a.Mode != tool.ModeReenter || a.Gate != "money" || a.Timeout != time.Hour ||
		a.Prompt != `Pay {"cents":500}?` {
		t.Errorf("it asks with %+v, %v", a, err)
	}
	exec, _, _ = through(t, nil, call(`{}`))
	if a, err = exec.Await.Normalize(); err != nil || a.Gate != "approval" || a.Timeout != tool.DefaultApprovalTimeout {
		t.Errorf("by default it asks with %+v, %v", a, err)
	}
}
