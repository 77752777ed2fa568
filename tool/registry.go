package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/llm"
)

// Limits bounds what a Registry lets through, in bytes. Zero values are the defaults.
type Limits struct {
	Arguments int // of a call; 256 KiB
	Result    int // a call's output, its actions together, or all of its Await; 1 MiB
}

func (l Limits) withDefaults() Limits {
	if l.Arguments <= 0 {
		l.Arguments = 256 << 10
	}
	if l.Result <= 0 {
		l.Result = 1 << 20
	}
	return l
}

// Registry holds tools by name, and runs their calls. It does not change once it is made, and is safe for concurrent use.
type Registry struct {
	limits  Limits
	schemas SchemaCache // of what tools ask
	names   []string    // in order
	entries map[string]*entry
	defs    []llm.ToolDef
}

type entry struct {
	tool    Tool
	spec    Spec // as the tool gave it once, its schemas in their normal form
	checks  Checks
	input   *Schema
	output  *Schema // nil: what the tool makes needs no check
	noText  bool    // the tool's output is never a string
	outputs *reader // nil: it isn't known how an output is read
	typed   *typed  // what the tool is, or wraps, if arguments go to it as they are
}

// NewRegistry makes a registry of tools, in the order given, with the default limits. It asks each tool for its Spec once.
func NewRegistry(tools ...Tool) (*Registry, error) { return NewLimitedRegistry(Limits{}, tools...) }

// NewLimitedRegistry is NewRegistry with other limits.
func NewLimitedRegistry(l Limits, tools ...Tool) (*Registry, error) {
	r := &Registry{limits: l.withDefaults(), entries: make(map[string]*entry, len(tools))}
	for i, t := range tools {
		if isNil(t) {
			return nil, fmt.Errorf("tool: registry: the tool at %d is nil", i)
		}
		e, err := newEntry(t)
		if err != nil {
			return nil, fmt.Errorf("tool: registry: the tool at %d, %q: %w", i, e.spec.Name, err)
		}
		name := e.spec.Name
		if r.entries[name] != nil {
			return nil, fmt.Errorf("tool: registry: the tools at %d and %d are both called %q", slices.Index(r.names, name), i, name)
		}
		r.names = append(r.names, name)
		r.entries[name] = e
		r.defs = append(r.defs, e.def())
	}
	return r, nil
}

// Limits are the registry's limits, defaults filled in.
func (r *Registry) Limits() Limits { return r.limits }

func isNil(t Tool) bool {
	if t == nil {
		return true
	}
	v := reflect.ValueOf(t)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// newEntry asks a tool for its spec and checks it. The entry holds the spec, also with an error.
func newEntry(t Tool) (e *entry, err error) {
	e = &entry{tool: t, spec: t.Spec()}
	s := &e.spec
	if err := checkName(s.Name); err != nil {
		return e, err
	}
	if !utf8.ValidString(s.Description) {
		return e, fmt.Errorf("description: %q is not valid UTF-8", clip(s.Description))
	}
	if s.Input, err = givenInput(s.Input); err != nil {
		return e, fmt.Errorf("input: %w", err)
	}
	if e.input, err = compileSchema(s.Input); err != nil {
		return e, fmt.Errorf("input: %w", err)
	}
	if s.Output, err = givenOutput(s.Output); err != nil {
		return e, fmt.Errorf("output: %w", err)
	}
	if e.output, err = compileSchema(s.Output); err != nil {
		return e, fmt.Errorf("output: %w", err)
	}
	e.checks = Checks{Input: s.Input, Output: s.Output}
	if doc, ok := e.output.doc.(map[string]any); ok && doc["type"] != nil {
		e.noText = readKinds(doc["type"])&aString == 0
	}
	own, ok := As[*typed](t)
	if ok && bytes.Equal(own.spec.Input, s.Input) {
		e.typed, e.input, e.checks.Input, e.checks.Answer = own, own.input, own.exact.input, own.exact.answer
	}
	if ok && bytes.Equal(own.spec.Output, s.Output) {
		e.checks.Output, e.outputs = own.exact.output, own.outputs
	}
	if ok && t == Tool(own) && own.total {
		e.output = nil
	}
	switch s.Effect {
	case Once, Idempotent, ReadOnly:
	default:
		return e, fmt.Errorf("unknown effect %q", s.Effect)
	}
	if s.Timeout < 0 {
		return e, fmt.Errorf("the timeout %v is negative", s.Timeout)
	}
	return e, nil
}

var goodName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func checkName(name string) error {
	if name == "" {
		return errors.New("it has no name")
	}
	if !goodName.MatchString(name) {
		return fmt.Errorf("the name %q is not 1 to 64 letters, digits, '_' or '-'", clip(name))
	}
	return nil
}

// pauseHint keeps a model from calling a tool again while it waits for it.
const pauseHint = "This call may take long to finish. Do not call it again meanwhile: its result will come."

func (e *entry) def() llm.ToolDef {
	d := llm.ToolDef{Name: e.spec.Name, Description: e.spec.Description, Input: e.spec.Input, Output: e.spec.Output}
	if e.spec.MayPause && !strings.Contains(d.Description, pauseHint) {
		d.Description = strings.TrimSpace(d.Description + " " + pauseHint)
	}
	return d
}

// Names lists the tools' names in order.
func (r *Registry) Names() []string { return slices.Clone(r.names) }

// Lookup finds a tool, and a copy of the Spec it gave when the registry was
// made, its schemas in the form that models see.
func (r *Registry) Lookup(name string) (Tool, Spec, bool) {
	e, ok := r.entries[name]
	if !ok {
		return nil, Spec{}, false
	}
	return e.tool, e.spec.Clone(), true
}

// Declared is what the tool called name says of its calls, as far as they
// depend on it while they are open. It is Lookup without the schemas, which are
// copied.
func (r *Registry) Declared(name string) (effect Effect, mayPause, known bool) {
	e, ok := r.entries[name]
	if !ok {
		return Once, false, false
	}
	return e.spec.Effect, e.spec.MayPause, true
}

// Checks are the schemas that a tool's arguments, and answers to it, have to
// fit. They are those of its Spec, and say what models aren't told: see [Func].
type Checks struct {
	Input, Output json.RawMessage
	Answer        json.RawMessage // of a Resumable: what its questions are answered by
}

// Checks returns those of the tool called name.
func (r *Registry) Checks(name string) Checks {
	if e, ok := r.entries[name]; ok {
		return e.checks
	}
	return Checks{}
}

// ReadsItself says that code of the tool's own reads its arguments: a method of their type. Prepare runs it, and so may take its time
// then, or end the goroutine.
func (r *Registry) ReadsItself(name string) bool {
	e, ok := r.entries[name]
	return ok && e.typed != nil && e.typed.foreign
}

// Defs is what a model is told of the tools, in order. The descriptions of those that may pause say not to call them again
// while they do. Each list is the caller's own.
func (r *Registry) Defs() []llm.ToolDef { return llm.Request{Tools: r.defs}.Clone().Tools }
