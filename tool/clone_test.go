package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/internal/scribble"
	"github.com/fermata-ai/fermata/llm"
)

// shared fails the test if a T and its copy share what can be changed.
func shared[T any](t *testing.T, clone func(T) T) {
	t.Helper()
	v := scribble.Filled[T]()
	copied := clone(v)
	show := func(v T) string { return fmt.Sprintf("%T %s", v, jsonOf(v)) }
	if show(copied) != show(v) {
		t.Errorf("the copy is\n%s, not\n%s", show(copied), show(v))
	}
	scribble.Over(copied)
	if show(v) != show(scribble.Filled[T]()) {
		t.Errorf("a write into the copy changes the other: it is\n%s, not\n%s",
			show(v), show(scribble.Filled[T]()))
	}
	copied = clone(v)
	scribble.Over(v)
	if show(copied) != show(scribble.Filled[T]()) {
		t.Errorf("a write into the other changes the copy: it is\n%s, not\n%s",
			show(copied), show(scribble.Filled[T]()))
	}
}

func jsonOf(v any) string {
	if s, ok := v.(Spec); ok {
		s.Reconcile = nil
		return fmt.Sprintf("%+v", s)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestClonesShareNothing(t *testing.T) {
	shared(t, Call.Clone)
	shared(t, Execution.Clone)
	shared(t, Pause.Clone)
	shared(t, Spec.clone)
}

// The mark of checked arguments holds for their bytes: arguments that were
// written into after they were found valid are checked again.
func TestArgumentsThatWereWrittenOverAreCheckedAgain(t *testing.T) {
	typed := Must(Func(Spec{Name: "typed"}, func(_ context.Context, in struct {
		N int `json:"n"`
	}) (Result[int], error) {
		return Done(in.N), nil
	}))
	raw := funcTool{
		Spec{Name: "raw",
			Input: json.RawMessage(
				`{"properties":{"n":{"type":"integer"}},"additionalProperties":false}`)},
		func(_ context.Context, c Call) (Execution, error) {
			return Execution{Output: c.Arguments}, nil
		}}
	r, err := limited(Limits{}, typed, raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range r.Names() {
		for with, want := range map[string]string{`{"n":1}`: "1", `{"n":2}`: "2",
			`{"m":2}`: "do not fit", `{"n":x}`: "do not fit"} {
			args := json.RawMessage(`{"n":1}`)
			p, err := r.Prepare(Call{Tool: name, Arguments: args})
			if err != nil {
				t.Fatal(err)
			}
			copy(args, with)
			exec, err := p.Enter(t.Context(), p.Call)
			got := string(exec.Output)
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, want) {
				t.Errorf("%s with %s in place: %s, not %s", name, with, got, want)
			}
		}
	}
}

type funcTool struct {
	spec Spec
	f    func(context.Context, Call) (Execution, error)
}

func (f funcTool) Spec() Spec                                             { return f.spec }
func (f funcTool) Execute(ctx context.Context, c Call) (Execution, error) { return f.f(ctx, c) }

// The schemas that a registry returns are its caller's own, and those that it
// was given are its own.
func TestARegistrysSchemasAreItsOwn(t *testing.T) {
	spec := Spec{Name: "raw", Input: json.RawMessage(`{"type":"object","properties":{}}`),
		Output: json.RawMessage(`{"type":"string"}`)}
	typed := Must(Func(Spec{Name: "typed"},
		func(context.Context, struct{}) (Result[string], error) { return Done(""), nil }))
	r, err := limited(Limits{}, typed, funcTool{spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	want := r.Defs()
	scribble.Over(spec)
	scribble.Over(typed.Spec())
	scribble.Over(r.Defs())
	for _, name := range r.Names() {
		s, _ := r.Spec(name)
		scribble.Over(s)
	}
	if diff := cmp.Diff(want, r.Defs()); diff != "" {
		t.Errorf("the definitions have changed (-want +got):\n%s", diff)
	}
	again, err := limited(Limits{}, typed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want[:1], again.Defs()); diff != "" {
		t.Errorf("the tool has changed (-want +got):\n%s", diff)
	}
	for i, d := range r.Defs() {
		s, _ := r.Spec(d.Name)
		if diff := cmp.Diff(want[i],
			llm.ToolDef{Name: s.Name, Description: s.Description, Input: s.Input,
				Output: s.Output}); diff != "" {
			t.Errorf("the spec has changed (-want +got):\n%s", diff)
		}
	}
}

// The tool of a lost call is asked with a call of its own, and may keep the
// Execution that it returns.
func TestReconcilersAreGivenCopies(t *testing.T) {
	answer := json.RawMessage(`"paid"`)
	raw := funcTool{
		spec: Spec{Name: "raw", Reconcile: func(_ context.Context, c Call) (Execution, error) {
			scribble.Over(c)
			return Execution{Output: answer}, nil
		}}}
	r, err := limited(Limits{}, raw)
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.Prepare(Call{Tool: "raw", Arguments: json.RawMessage(`{"a":1}`),
		Decisions: []Decision{{Gate: "g"}}})
	if err != nil {
		t.Fatal(err)
	}
	exec, _, err := p.Reconcile(t.Context(), p.Call)
	scribble.Over(answer)
	if err != nil || string(exec.Output) != `"paid"` || string(p.Call.Arguments) != `{"a":1}` ||
		p.Call.Decisions[0].Gate != "g" {
		t.Errorf("%s, %v; the call is %+v", exec.Output, err, p.Call)
	}
}
