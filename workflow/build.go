package workflow

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// Builder puts a workflow together. Its methods return it. What is wrong is
// Build's error.
type Builder struct {
	list  List
	tools []tool.Tool
	err   error
}

// New begins a workflow. The name is its agent's: it is stored with each session
// that carries the workflow out, and stays as long as there are some.
func New(name string) *Builder { return &Builder{list: List{Name: name}} }

// Version notes a version in the lists that are stored.
func (b *Builder) Version(v string) *Builder {
	b.list.Version = v
	return b
}

// StepOptions are what becomes of a step beside its call. Nil means the defaults.
// The fields are those of [Step].
type StepOptions struct {
	After      []string
	OnFailure  OnFailure
	Retry      *Retry
	Compensate string
}

// Step adds a step: a call of a tool, which may be a Go function by tool.Func.
// Steps may share a tool. The arguments are anything that is JSON as an object;
// [From] and [Input] stand in it for what isn't there yet:
//
//	map[string]any{"parcel": workflow.From("pack", "/id"), "express": true}
func (b *Builder) Step(name string, t tool.Tool, arguments any, o *StepOptions) *Builder {
	if o == nil {
		o = &StepOptions{}
	}
	s := Step{Name: name, After: slices.Clone(o.After), OnFailure: o.OnFailure,
		Compensate: o.Compensate}
	if o.Retry != nil {
		own := *o.Retry
		s.Retry = &own
	}
	if t == nil {
		b.fail(fmt.Errorf("step %q: its tool is nil", name))
		return b
	}
	s.Tool = t.Spec().Name
	if err := b.addTool(s.Tool, t); err != nil {
		b.fail(fmt.Errorf("step %q: %w", name, err))
	}
	if arguments != nil {
		var err error
		if s.Arguments, err = json.Marshal(arguments); err != nil {
			b.fail(fmt.Errorf("step %q: its arguments: %w", name, err))
		}
	}
	b.list.Steps = append(b.list.Steps, s)
	return b
}

// Output sets what the workflow comes to: anything that is JSON, with references
// as in the arguments of steps.
func (b *Builder) Output(v any) *Builder {
	raw, err := json.Marshal(v)
	if err != nil {
		b.fail(fmt.Errorf("output: %w", err))
	}
	b.list.Output = raw
	return b
}

func (b *Builder) addTool(name string, t tool.Tool) error {
	for _, known := range b.tools {
		if known.Spec().Name != name {
			continue
		}
		if known != t {
			return fmt.Errorf("its tool %q is another one than that of a step before", name)
		}
		return nil
	}
	b.tools = append(b.tools, t)
	return nil
}

func (b *Builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// Build checks the workflow, as [Set.Check] does.
func (b *Builder) Build(o *Options) (*Workflow, error) {
	if b.err != nil {
		return nil, fmt.Errorf("workflow %q: %w", b.list.Name, b.err)
	}
	if len(b.list.Steps) == 0 {
		return nil, fmt.Errorf("workflow %q has no steps: Step adds one", b.list.Name)
	}
	list := b.list.clone()
	w := &Workflow{list: list}
	set, err := newSet(list.Name, b.tools, o, &w.list)
	if err == nil {
		err = set.Check(&w.list)
	}
	if err != nil {
		return nil, err
	}
	w.agent = set.agent
	return w, nil
}

// Workflow is a list of steps that a program is made with. It does not change.
type Workflow struct {
	list  List
	agent *agent.Agent
}

// Agent returns the agent that carries the workflow out, for
// runner.Options.Agents. It carries out nothing else: the first message of its
// session is the input.
func (w *Workflow) Agent() *agent.Agent { return w.agent }

// List returns the workflow's list, as it is stored with a session when it
// begins.
func (w *Workflow) List() List { return w.list.clone() }

// Message returns the message with which a session of the workflow's agent
// begins it: the input as JSON. It is refused if a step refers to what it
// doesn't have.
func (w *Workflow) Message(input any) (llm.Message, error) {
	raw, err := json.Marshal(input)
	if err == nil {
		_, err = next(&progress{list: &w.list, steps: map[string]*stepState{}}, raw)
	}
	if err != nil {
		return llm.Message{}, fmt.Errorf("workflow %q: its input: %w", w.list.Name, err)
	}
	return llm.UserText(string(raw)), nil
}

// clone returns a list that shares nothing with l that can be changed.
func (l *List) clone() List {
	own := *l
	own.Output = slices.Clone(l.Output)
	own.Steps = slices.Clone(l.Steps)
	for i := range own.Steps {
		s := &own.Steps[i]
		s.Arguments, s.After = slices.Clone(s.Arguments), slices.Clone(s.After)
		if s.Retry != nil {
			r := *s.Retry
			s.Retry = &r
		}
	}
	return own
}
