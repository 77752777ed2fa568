package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/fermata-ai/fermata/internal/schema"
)

// rawTool is a tool in its raw form.
type rawTool struct {
	spec Spec
	exec func(context.Context, Call) (Execution, error)
}

func (r *rawTool) Spec() Spec { return r.spec }
func (r *rawTool) Execute(ctx context.Context, c Call) (Execution, error) {
	return r.exec(ctx, c)
}

// returns makes a raw tool that returns exec and err.
func returns(s Spec, exec Execution, err error) *rawTool {
	return &rawTool{s, func(context.Context, Call) (Execution, error) { return exec, err }}
}

// named makes raw tools by names.
func named(names ...string) []Tool {
	tools := make([]Tool, len(names))
	for i, n := range names {
		tools[i] = returns(Spec{Name: n}, Execution{}, nil)
	}
	return tools
}

func TestARegistryKeepsItsToolsInOrder(t *testing.T) {
	tools := named("b", "a", "c")
	r := registry(t, tools...)
	tools[0] = nil
	same(t, strings.Join(r.Names(), " "), "b a c")
	r.Names()[0] = "x"
	r.Defs()[0].Name = "x"
	same(t, r.Names()[0]+r.Defs()[0].Name, "bb")
	if spec, ok := r.Spec("c"); !ok || spec.Name != "c" ||
		string(spec.Input) != `{"type":"object","properties":{}}` {
		t.Error(spec, ok)
	}
	if _, ok := r.Spec("C"); ok {
		t.Error("a name was found in another case")
	}
}

func TestAToolIsAskedForItsSpecOnce(t *testing.T) {
	c := &counted{Tool: returns(Spec{Name: "a"}, Execution{}, nil)}
	r := registry(t, c)
	r.Defs()
	r.Spec("a")
	p, err := r.Prepare(Call{Tool: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Enter(t.Context(), p.Call); err != nil || c.specs != 1 {
		t.Error(c.specs, err)
	}
}

type counted struct {
	Tool
	specs int
}

func (c *counted) Spec() Spec { c.specs++; return c.Tool.Spec() }

func TestWhatCanNotBeInARegistryIsAnError(t *testing.T) {
	var none *rawTool
	for want, tools := range map[string][]Tool{
		"the tool at 1 is nil":                     {named("a")[0], nil},
		"the tool at 0 is nil":                     {none},
		`the tools at 1 and 2 are both called "b"`: named("a", "b", "b"),
		`the name "a b" is not`:                    named("a b"),
		`the tool at 0, "": it has no name`:        named(""),
		`unknown effect "twice"`: {
			returns(Spec{Name: "a", Effect: "twice"}, Execution{}, nil)},
		`the timeout -1ns is negative`: {
			returns(Spec{Name: "a", Timeout: -1}, Execution{}, nil)},
		`"a": input: arguments are an object`: {
			returns(Spec{Name: "a", Input: raw(`{"type":"string"}`)}, Execution{}, nil)},
		`"a": output: the schema is no JSON`: {
			returns(Spec{Name: "a", Output: raw(`{`)}, Execution{}, nil)},
	} {
		r, err := limited(Limits{}, tools...)
		if err == nil || r.box != nil {
			t.Errorf("%s: no error", want)
			continue
		}
		contains(t, err.Error(), want)
	}
}

func TestASchemaThatWasGivenGetsTheFormThatProvidersTake(t *testing.T) {
	for in, want := range map[string]string{
		``:                                      `{"type":"object","properties":{}}`,
		`null`:                                  `{"type":"object","properties":{}}`,
		`{}`:                                    `{"type":"object","properties":{}}`,
		`{"type":"object"}`:                     `{"type":"object","properties":{}}`,
		`{"type":["object"],"properties":null}`: `{"type":"object","properties":{}}`,
		`{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://x.example/s",` +
			`"properties":{"b":true,"a":{"items":true,"$id":"y"},"n":false},` +
			`"additionalProperties":true}`: `{"type":"object","properties":{"b":{},` +
			`"a":{"items":{}},"n":{"not":{}}},"additionalProperties":true}`,
		`{"$ref":"#/$defs/In","$defs":{"In":{"type":"object",` +
			`"properties":{"a":{"$ref":"#/$defs/In"}}}}}`: `{"type":"object",` +
			`"properties":{"a":{"$ref":"#/$defs/In"}},"$defs":{"In":{"type":"object",` +
			`"properties":{"a":{"$ref":"#/$defs/In"}}}}}`,
		`{"anyOf":[{"required":["a"]}],` +
			`"properties":{"a":{"default":true,"enum":[true,1.0]}}}`: `{"type":"object",` +
			`"anyOf":[{"required":["a"]}],` +
			`"properties":{"a":{"default":true,"enum":[true,1.0]}}}`,
	} {
		r := registry(t, returns(Spec{Name: "a", Input: raw(in)}, Execution{}, nil))
		got := string(r.Defs()[0].Input)
		same(t, got, want)
		again, err := schema.GivenInput(raw(got))
		if err != nil || string(again) != got {
			t.Errorf("%s became %s, %v", got, again, err)
		}
	}
	r := registry(t,
		returns(Spec{Name: "a", Output: raw(` {"type": "array", "items": true} `)},
			Execution{}, nil))
	same(t, string(r.Defs()[0].Output), `{"type":"array","items":{}}`)
}

// acting is a tool whose calls may act on handles.
type acting struct{ Tool }

func (acting) Acts(json.RawMessage) (action, handle string) { return "fetch", "a" }

func TestAModelIsToldOnceNotToCallAgain(t *testing.T) {
	plain := returns(Spec{Name: "a", Description: "Does a."}, Execution{}, nil)
	waits := returns(Spec{Name: "b", Description: "Does b.", MayPause: true}, Execution{}, nil)
	told := returns(Spec{Name: "c", Description: "Does c. " + pauseHint, MayPause: true},
		Execution{}, nil)
	bare := returns(Spec{Name: "d", MayPause: true}, Execution{}, nil)
	acts := acting{returns(Spec{Name: "e", Description: "Does e.", MayPause: true}, Execution{}, nil)}
	defs := registry(t, plain, waits, told, bare, acts).Defs()
	same(t, defs[0].Description, "Does a.")
	same(t, defs[1].Description, "Does b. "+pauseHint)
	same(t, defs[2].Description, "Does c. "+pauseHint)
	same(t, defs[3].Description, pauseHint)
	same(t, defs[4].Description, "Does e.") // it is called again to look
	spec, _ := registry(t, waits).Spec("b")
	same(t, spec.Description, "Does b.")
}

func TestAnUnknownToolIsRefusedWithTheNamesThereAre(t *testing.T) {
	r := registry(t, named("read", "write", "list_files")...)
	for name, want := range map[string]string{
		"reed": `There is no tool "reed", and nothing was run. Did you mean ` +
			`read? The tools are: read, write, list_files.`,
		"Read":       `Did you mean read?`,
		"list-files": `Did you mean list_files?`,
		"":           `There is no tool "", and nothing was run. The tools are:`,
		"fs.read/x": `There is no tool "fs.read/x", and nothing was run. The ` +
			`tools are`,
		strings.Repeat("x", 300): `xxx...", and nothing was run. The tools are`,
		"a\xff\n":                `There is no tool "a` + "\ufffd" + `\n"`,
	} {
		_, err := r.Prepare(Call{Tool: name})
		var refused *Refusal
		if !errors.As(err, &refused) || refused.Kind != UnknownTool {
			t.Fatal(err)
		}
		contains(t, refused.Text, want)
		if len(refused.Text) > 400 {
			t.Errorf("the text has %d bytes", len(refused.Text))
		}
	}
	_, err := registry(t).Prepare(Call{Tool: "x"})
	contains(t, err.Error(), "There are no tools.")

	var many []Tool
	for i := range 200 {
		many = append(many, named(fmt.Sprintf("tool_%03d", i))...)
	}
	_, err = registry(t, many...).Prepare(Call{Tool: "x"})
	contains(t, err.Error(), "Some of the 200 tools are: tool_000, ", "tool_049.")
}

func TestArgumentsAreDecodedOnceAndEditedOnesAgain(t *testing.T) {
	checks := 0
	made := make1(t, func(_ context.Context, in countsItself) (Result[int], error) {
		return Done(in.N), nil
	})
	counting = &checks
	defer func() { counting = nil }()
	r := registry(t, made)
	p, err := r.Prepare(call(`{"value":{"N":1}}`))
	if err != nil || checks != 1 {
		t.Fatal(checks, err)
	}
	if !p.Call.isChecked() {
		t.Error("the call is not marked")
	}
	if exec, err := p.Enter(t.Context(), p.Call); err != nil ||
		string(exec.Output) != "1" || checks != 1 {
		t.Errorf("%s %v %d", exec.Output, err, checks)
	}
	if exec, err := p.Enter(t.Context(), p.Call); err != nil ||
		string(exec.Output) != "1" || checks != 2 {
		t.Errorf("once more: %s %v %d", exec.Output, err, checks)
	}
	edited := p.Call
	edited.Arguments = raw(`{"value":{"N":2}}`)
	if exec, err := p.Enter(t.Context(), edited); err != nil ||
		string(exec.Output) != "2" || checks != 3 {
		t.Errorf("%s %v %d", exec.Output, err, checks)
	}
	for _, args := range []string{`{"value":{"N":"x"}}`, `{"Value":{}}`, `{}`} {
		edited.Arguments = raw(args)
		_, err := p.Enter(t.Context(), edited)
		var refused *Refusal
		if !errors.As(err, &refused) || refused.Kind != InvalidArguments {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// Each entry of a body gets a value of its own.
func TestBodiesShareNoArguments(t *testing.T) {
	made := make1(t, func(_ context.Context, in map[string][]int) (Result[int], error) {
		in["n"] = append(in["n"], 1)
		in["n"][0]++
		return Done(in["n"][0]*10 + len(in["n"])), nil
	})
	p, err := registry(t, made).Prepare(call(`{"n":[1]}`))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if exec, err := p.Enter(t.Context(), p.Call); err != nil || string(exec.Output) != "22" {
			t.Errorf("%s %v", exec.Output, err)
		}
	}
}

// Two tools that look alike to a wrapper don't get each other's values.
func TestArgumentsAreDecodedForTheToolThatTakesThem(t *testing.T) {
	one, two := make1(t, func(_ context.Context, in countsItself) (Result[int], error) {
		return Done(in.N), nil
	}),
		make1(t, func(_ context.Context, in countsItself) (Result[int], error) {
			return Done(-in.N), nil
		})
	p, err := registry(t, diverted{one, two}).Prepare(call(`{"value":{"N":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	checks := 0
	counting = &checks
	defer func() { counting = nil }()
	if exec, err := p.Enter(t.Context(), p.Call); err != nil ||
		string(exec.Output) != "-1" || checks != 1 {
		t.Errorf("%s %v %d", exec.Output, err, checks)
	}
}

// diverted wraps one tool and runs another.
type diverted struct {
	Tool
	to Tool
}

func (e diverted) Unwrap() Tool { return e.Tool }

func (e diverted) Execute(ctx context.Context, c Call) (Execution, error) {
	return e.to.Execute(ctx, c)
}

// countsItself counts how often it is decoded.
type countsItself struct{ N int }

var counting *int

func (c *countsItself) UnmarshalJSON(b []byte) error {
	if counting != nil {
		*counting++
	}
	if string(b) == `{"N":"x"}` {
		return errors.New("N is no number")
	}
	c.N = int(b[len(`{"N":`)] - '0')
	return nil
}

func TestArgumentsThatAreTooLongAreRefused(t *testing.T) {
	r, err := limited(Limits{Arguments: 20}, named("a")...)
	if err != nil {
		t.Fatal(err)
	}
	most := raw(`{"a":"` + strings.Repeat("x", 12) + `"}`)
	if _, err := r.Prepare(Call{Tool: "a", Arguments: most}); err != nil {
		t.Error(err)
	}
	_, err = r.Prepare(Call{Tool: "a", Arguments: raw(`{"a":"` + strings.Repeat("x", 13) + `"}`)})
	var refused *Refusal
	if !errors.As(err, &refused) || refused.Kind != ArgumentsTooLarge {
		t.Fatal(err)
	}
	contains(t, refused.Text, "The arguments of a have 21 bytes, at most 20 are taken")
	_, err = registry(t,
		named("a")...).Prepare(
		Call{Tool: "a", Arguments: raw(`"` + strings.Repeat("x", 256<<10) + `"`)})
	if !errors.As(err, &refused) || refused.Kind != ArgumentsTooLarge {
		t.Error(err)
	}
}

func TestAToolThatPanicsWhileItReadsIsRefused(t *testing.T) {
	made := make1(t, nothing[panicky, int])
	_, err := registry(t, made).Prepare(call(`{"value":1}`))
	var refused *Refusal
	var p *PanicError
	if !errors.As(err, &refused) || !errors.As(err, &p) || len(p.Stack()) == 0 {
		t.Fatal(err)
	}
	contains(t, refused.Text, "t panicked: unreadable")
	if strings.Contains(refused.Text, "goroutine") {
		t.Error("the stack is in the text")
	}
}

type panicky struct{}

func (*panicky) UnmarshalJSON([]byte) error { panic("unreadable") }

// renamed gives a tool other arguments, and translates them.
type renamed struct{ Tool }

func (r renamed) Unwrap() Tool { return r.Tool }

func (r renamed) Spec() Spec {
	s := r.Tool.Spec()
	s.Input = raw(`{"properties":{"q":{"type":"string"}},"required":["q"]}`)
	return s
}

func (r renamed) Execute(ctx context.Context, c Call) (Execution, error) {
	c.Arguments = raw(strings.Replace(string(c.Arguments), `"q"`, `"value"`, 1))
	return r.Tool.Execute(ctx, c)
}

func TestAWrapperMayTranslateArguments(t *testing.T) {
	echo := make1(t, func(ctx context.Context, in string) (Result[string], error) {
		return Done(in + string(CallFrom(ctx).Arguments)), nil
	})
	p, err := registry(t, renamed{echo}).Prepare(call(`{"q":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	exec, err := p.Enter(t.Context(), p.Call)
	if err != nil || string(exec.Output) != `"x{\"value\":\"x\"}"` {
		t.Errorf("%s %v", exec.Output, err)
	}
	contains(t, string(registry(t, renamed{echo}).Defs()[0].Input), `"q"`)
}

// loops wraps itself.
type loops struct{ Tool }

func (l *loops) Unwrap() Tool { return l }

func TestAsLooksThroughWrappersAndEndsOnCycles(t *testing.T) {
	inner := returns(Spec{Name: "a", MayPause: true, Effect: ReadOnly}, Execution{}, nil)
	w := renamed{renamed{inner}}
	if got, ok := As[*rawTool](w); !ok || got != inner {
		t.Error(got, ok)
	}
	if _, ok := As[renamed](w); !ok {
		t.Error("the outermost is not found")
	}
	if _, ok := As[fmt.Stringer](&loops{inner}); ok {
		t.Error("something was found in a cycle")
	}
	if s := w.Spec(); !s.MayPause || s.Effect != ReadOnly {
		t.Error("a wrapper lost the hints of its tool")
	}
	if _, ok := As[*rawTool](nil); ok {
		t.Error("something was found in nil")
	}
}

func TestARegistryServesManyAtOnce(t *testing.T) {
	made := make1(t, func(_ context.Context, in fuzzed) (Result[int], error) {
		if in.N%2 == 1 {
			panic("odd")
		}
		return Done(in.N), nil
	})
	r := registry(t, made, booking(t))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				n := i + j
				p, err := r.Prepare(call(fmt.Sprintf(`{"value":null,"n":%d.0}`, n)))
				if err != nil {
					t.Error(err)
					return
				}
				exec, err := p.Enter(t.Context(), p.Call)
				if even := err == nil &&
					string(exec.Output) == strconv.Itoa(n); even != (n%2 == 0) {
					t.Error(n, exec, err)
				}
				if _, err := r.Prepare(Call{Tool: "book", Arguments: raw(`{"To":1}`)}); err == nil {
					t.Error("a number was taken for a string")
				}
			}
		})
	}
	wg.Wait()
}
