package handle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/handles"
	"github.com/fermata-ai/fermata/tool"
)

// Options configure a tool of Stateful. Nil means the defaults.
type Options struct {
	// Exact tells the schema by oneOf at its root, for a provider that takes it;
	// Anthropic and OpenAI don't. Otherwise it is flat. Either way a call is
	// checked exactly.
	Exact bool
	// Asks: the tool asks questions that are the model's to answer, by pauses
	// of tool.ReasonAssistant. A tool whose Mailbox has tool.InputEvent takes
	// input in any case.
	Asks bool
	// Moment is how long spawn waits for the handle to stop, or to have content,
	// before it replies; zero: not at all.
	Moment time.Duration
	// Whole has each reply hold all content that is kept, and not what is new.
	Whole bool
	// Content bounds the content of a reply, in bytes; zero: 16 KiB.
	Content int
	// HandlePolicy is what becomes of a handle that no call fetches or awaits.
	tool.HandlePolicy
}

// stateful is a tool whose calls may be actions.
type stateful struct {
	inner *tool.Registry
	spec  tool.Spec // the inner tool's, with the actions' Input
	own   tool.Tool
	form  *handles.Form
	o     Options
}

// Stateful returns a tool of which a model may begin calls, and go on with
// something else. Beside t's parameters a call has action: "spawn" begins a
// handle under an id that the model chooses, and returns at once; "fetch"
// returns what is new of it; "apply" gives it input, or answers its question,
// if that is the model's to answer; "abort" ends it. Without an action it is a
// call as any other.
//
// A handle is a session below the caller's, of that one call. It goes through
// the agent's layers by itself, once, with t's own arguments. The four actions
// don't, unless a layer asks for them: interceptor.Layer.Actions.
func Stateful(t tool.Tool, o *Options) (tool.Tool, error) {
	if t == nil {
		return nil, errors.New("handle: Stateful needs a tool")
	}
	s := &stateful{own: t, spec: t.Spec()}
	if o != nil {
		s.o = *o
	}
	if s.o.Content == 0 {
		s.o.Content = 16 << 10
	}
	if s.o.Content < 0 || s.o.Moment < 0 {
		return nil, fmt.Errorf("handle: tool %q: Content %d and Moment %v must not be negative",
			s.spec.Name, s.o.Content, s.o.Moment)
	}
	if err := s.o.Check(); err != nil {
		return nil, fmt.Errorf("handle: tool %q: %w", s.spec.Name, err)
	}
	var err error
	if s.inner, err = tool.NewRegistry([]tool.Tool{t}, nil); err != nil {
		return nil, err
	}
	exact, _ := s.inner.Spec(s.spec.Name)
	config := handles.Config{Tool: s.spec.Name, Input: exact.Input, Asks: s.o.Asks,
		Exact: s.o.Exact}
	for _, e := range s.spec.Mailbox {
		if e.Name == tool.InputEvent {
			config.Takes, config.ApplyInput = true, e.Schema
		}
	}
	if p, ok := tool.As[interface{ InputSchema() json.RawMessage }](t); ok && config.Takes {
		config.ApplyInput = p.InputSchema()
	}
	if s.form, err = handles.NewForm(config); err != nil {
		return nil, fmt.Errorf("handle: %w", err)
	}
	s.spec.Input, s.spec.Output, s.spec.MayPause = s.form.Schema(), nil, true
	return s, nil
}

func (s *stateful) Spec() tool.Spec { return s.spec }

// Unwrap returns the tool that is begun.
func (s *stateful) Unwrap() tool.Tool { return s.own }

// Policy tells the runner how handles are treated.
func (s *stateful) Policy() tool.HandlePolicy { return s.o.HandlePolicy }

// OwnInput returns the schema of the tool's own arguments, for who edits those
// of a call that is no action.
func (s *stateful) OwnInput() json.RawMessage {
	spec, _ := s.inner.Spec(s.spec.Name)
	return spec.Input
}

// Acts tells the runner what a call does. One whose arguments are wrong is an
// action if it means to be one: its error comes before any layer is asked.
func (s *stateful) Acts(arguments json.RawMessage) (action, id string) {
	r, err := s.form.Parse(arguments)
	if err == nil {
		return string(r.Action), r.ID
	}
	var given struct {
		Action any `json:"action"`
	}
	if json.Unmarshal(arguments, &given) == nil && given.Action != nil {
		return "invalid", ""
	}
	return "", ""
}

// Execute does what the call asks for.
func (s *stateful) Execute(ctx context.Context, c tool.Call) (tool.Execution, error) {
	r, err := s.form.Parse(c.Arguments)
	if err != nil {
		return tool.Execution{}, err
	}
	if r.Action == handles.OneShot {
		c.Arguments = r.Own
		return s.oneShot(ctx, c)
	}
	host, err := c.Handles()
	if err != nil {
		return tool.Execution{}, err
	}
	switch a := (action{s, host, c, r}); r.Action {
	case handles.Spawn:
		return a.spawn(ctx)
	case handles.Apply:
		return a.apply(ctx)
	case handles.Abort:
		return a.abort(ctx)
	}
	a := action{s, host, c, r}
	return a.standing(ctx)
}

// oneShot runs the tool itself.
func (s *stateful) oneShot(ctx context.Context, c tool.Call) (tool.Execution, error) {
	exec, err := s.inner.Run(ctx, c)
	if a := exec.Await; err == nil && a != nil && len(a.Schema) == 0 && a.Mode == tool.ModeOutput {
		spec, _ := s.inner.Spec(c.Tool)
		a.Schema = spec.Output // which this tool's own Output is not
	}
	return exec, err
}
