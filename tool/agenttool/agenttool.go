// Package agenttool makes an agent a tool of another one. A call of the tool
// begins a session below the caller's, in which the agent works, and waits for
// its end. That session lives as any other: it may pause for a day, and what
// waits in it is answered by its own ids.
//
// It is for work that one agent hands to another and wants a result of. With
// [Handoff] an agent hands the conversation itself over.
package agenttool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/template"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/internal/modeltext"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// Options configure a tool of New. Nil means the defaults.
type Options[In any] struct {
	// Name is the tool's name; default: the agent's.
	Name string
	// Description tells the model what to hand to the agent; default: a
	// sentence with the agent's name.
	Description string
	// Message makes what the agent is told, as the user's message of its
	// session. It may run again after a crash, so it must have no effects.
	Message func(context.Context, In) (llm.Message, error)
	// Template, in place of Message, is a text/template of In that makes that
	// message's text. Without either the agent is told In: as it is, if it is a
	// string or a struct with one string, and otherwise as JSON. A message that
	// says nothing is the call's error.
	Template string
	// History is how many of the last messages of the caller's conversation the
	// agent is shown, as text before what it is told; negative: all; default
	// none. Messages without text, such as results, are left out and don't
	// count.
	History int
	// Timeout is how long the agent may take. Then it is stopped, and the call
	// has expired. Zero: no bound.
	Timeout time.Duration
}

// nested is a tool whose calls an agent works on.
type nested struct {
	tool.Tool
	agent *agent.Agent
}

// Unwrap returns the tool without the agent.
func (n *nested) Unwrap() tool.Tool { return n.Tool }

// Nests returns the agent, for the runner, which drives it.
func (n *nested) Nests() *agent.Agent { return n.agent }

// New returns a tool that has an agent work. In is what the agent is told. Out
// is what comes of it: a string is the agent's last text; a struct is asked for
// in that form, as the provider's structured output. The caller's runner drives
// the agent; it need not be among runner.Options.Agents.
//
// The agent's run gets what the caller's run has left of its limits, and no
// more, and its usage counts as the caller's. If the agent fails, or uses its
// limits up, that is the call's error, and if the call ends before the agent
// does, the agent is stopped. Layers around the tool see the call once on its
// way in, and once with the agent's result. The agent's own tools have the
// layers of the agent.
func New[In, Out any](ag *agent.Agent, o *Options[In]) (tool.Tool, error) {
	if ag == nil {
		return nil, errors.New("agenttool: the agent is nil")
	}
	var own Options[In]
	if o != nil {
		own = *o
	}
	tell, err := own.teller()
	if err == nil && own.Timeout < 0 {
		err = fmt.Errorf("Options.Timeout is %v, which is negative", own.Timeout)
	}
	if err != nil {
		return nil, fmt.Errorf("agenttool: agent %q: %w", ag.Name(), err)
	}
	spec := tool.Spec{
		Name: own.Name, Description: own.Description, MayPause: true, Effect: tool.Idempotent,
	}
	if spec.Name == "" {
		spec.Name = ag.Name()
	}
	if spec.Description == "" {
		spec.Description = fmt.Sprintf("Hands work to the agent %s, and returns its result.",
			ag.Name())
	}
	var schema json.RawMessage // of Out, once the tool is made
	made, err := tool.Func(spec, func(ctx context.Context, in In) (tool.Result[Out], error) {
		m, err := tell(ctx, in)
		if err == nil && saysNothing(m) {
			err = fmt.Errorf("there is nothing to tell the agent %s: say what it is to do", ag.Name())
		}
		if err == nil {
			m, err = own.withHistory(ctx, m)
		}
		if err != nil {
			return nil, err
		}
		return tool.Pending[Out](tool.Await{
			Reason: tool.ReasonAgent, Timeout: own.Timeout,
			Child: &tool.Child{Agent: ag.Name(), Message: m, Schema: schema},
		}), nil
	})
	if err != nil {
		return nil, err
	}
	if schema, err = format(made, reflect.TypeFor[Out]()); err != nil {
		return nil, fmt.Errorf("agenttool: agent %q: %w", ag.Name(), err)
	}
	return &nested{made, ag}, nil
}

// format returns what the agent's last message has to be, by the tool's output:
// the schema of an object, or nil for text. Out is the output's type, for errors.
func format(t tool.Tool, out reflect.Type) (json.RawMessage, error) {
	r, err := tool.NewRegistry([]tool.Tool{t}, nil)
	if err != nil {
		return nil, err
	}
	spec, _ := r.Spec(t.Spec().Name)
	var is struct {
		Type any `json:"type"`
	}
	if len(spec.Output) > 0 {
		if err := json.Unmarshal(spec.Output, &is); err != nil {
			return nil, err
		}
	}
	switch is.Type {
	case "string":
		return nil, nil
	case "object":
		return spec.Output, nil
	}
	hint := ""
	if out.Kind() == reflect.Pointer && out.Elem().Kind() == reflect.Struct {
		hint = ": drop the pointer"
	}
	return nil, fmt.Errorf("an agent's result is a string, or a struct, and not %v%s", out, hint)
}

// teller returns what makes the agent's message.
func (o *Options[In]) teller() (func(context.Context, In) (llm.Message, error), error) {
	switch {
	case o.Message != nil && o.Template != "":
		return nil, errors.New("Options has a Message and a Template, and one of them is used")
	case o.Message != nil:
		return o.Message, nil
	case o.Template == "":
		plain := plainer[In]()
		return func(_ context.Context, in In) (llm.Message, error) {
			text, err := plain(in)
			return llm.UserText(text), err
		}, nil
	}
	t, err := template.New("message").Option("missingkey=error").Parse(o.Template)
	if err != nil {
		return nil, fmt.Errorf("Options.Template: %w", err)
	}
	// A field that In doesn't have would be an error of each call. Other errors
	// of the zero value may be no errors of a call: a nil pointer, say.
	var zero In
	if err := t.Execute(io.Discard, zero); err != nil &&
		strings.Contains(err.Error(), "can't evaluate field") {
		return nil, fmt.Errorf("Options.Template: %w", err)
	}
	return func(_ context.Context, in In) (llm.Message, error) {
		var b strings.Builder
		err := t.Execute(&b, in)
		return llm.UserText(b.String()), err
	}, nil
}

// saysNothing reports whether a message has neither text nor media.
func saysNothing(m llm.Message) bool {
	for _, p := range m.Parts {
		if text, ok := p.(llm.Text); !ok || strings.TrimSpace(text.Text) != "" {
			return false
		}
	}
	return true
}

// plainer returns what makes a text of In. A type has one form of text, however
// much of a value is left out: a string, or the string that is its one field,
// as it is, and everything else as JSON.
func plainer[In any]() func(in any) (string, error) {
	in := reflect.TypeFor[In]()
	for in.Kind() == reflect.Pointer {
		in = in.Elem()
	}
	lone := in.Kind() == reflect.Struct && fields(in) == 1
	return func(in any) (string, error) {
		raw, err := json.Marshal(in)
		if err != nil {
			return "", err
		}
		var text string
		if json.Unmarshal(raw, &text) == nil {
			return text, nil
		}
		var all map[string]json.RawMessage
		if lone && json.Unmarshal(raw, &all) == nil {
			for _, only := range all {
				if json.Unmarshal(only, &text) == nil {
					return text, nil
				}
			}
		}
		return string(modeltext.PlainJSON(raw)), nil
	}
}

// fields returns how many fields of a struct JSON may show.
func fields(in reflect.Type) (n int) {
	for _, f := range reflect.VisibleFields(in) {
		if f.IsExported() && !f.Anonymous && f.Tag.Get("json") != "-" {
			n++
		}
	}
	return n
}

// withHistory puts the caller's last messages before what the agent is told.
func (o *Options[In]) withHistory(ctx context.Context, m llm.Message) (llm.Message, error) {
	if o.History == 0 {
		return m, nil
	}
	history, err := tool.CallFrom(ctx).History(ctx)
	if err != nil {
		return m, err
	}
	var said []string
	for _, h := range history {
		if text := h.Text(); text != "" {
			said = append(said, fmt.Sprintf("%s: %s", h.Role, text))
		}
	}
	if n := len(said); o.History > 0 && n > o.History {
		said = said[n-o.History:]
	}
	if len(said) == 0 {
		return m, nil
	}
	text := "The conversation so far, for your information:\n\n" + strings.Join(said, "\n\n")
	m.Parts = append([]llm.Part{llm.Text{Text: text + "\n\nYour task:\n\n"}}, m.Parts...)
	return m, nil
}
