package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// Options configure a Set, or a Workflow. Nil means the defaults.
type Options struct {
	// Interceptors are layers around the steps' tools, as of any agent.
	Interceptors interceptor.Chain
	// ToolLimits bound the arguments and the result of a step, and of the
	// workflow.
	ToolLimits tool.Limits
}

// Set is tools of which lists from outside may be made: a model's, say. Its agent
// carries them out.
//
// Who may send messages to that agent may call its tools with any arguments,
// within its layers. So a Set has tools for that, and httpapi shows its agent to
// those alone who may do so.
type Set struct {
	name  string
	box   *tool.Registry
	names []string
	agent *agent.Agent
}

// NewSet returns a set of tools. Its agent's name is stored with each session
// that it works in.
func NewSet(name string, tools []tool.Tool, o *Options) (*Set, error) {
	return newSet(name, tools, o, nil)
}

// mostTurns is how many model calls the longest list needs at most. A call begins
// a try of a step, or has seen that one ended, or that its delay is over; or it
// ends the workflow. It isn't worked out of the agent's own list: a session may
// have begun with a longer one, before a deploy.
const mostTurns = 3*MaxSteps*(1+MaxRetries) + 10

func newSet(name string, tools []tool.Tool, o *Options, list *List) (*Set, error) {
	if o == nil {
		o = &Options{}
	}
	s := &Set{name: name}
	if len(tools) == 0 {
		return nil, errors.New("workflow: a set needs tools")
	}
	var err error
	if s.box, err = tool.NewRegistry(tools, &o.ToolLimits); err != nil {
		return nil, fmt.Errorf("workflow: %w", err)
	}
	for _, d := range s.box.Defs() {
		if isReserved(d.Name) {
			return nil, fmt.Errorf("workflow: a tool is named %q, which is a name of the runtime's", d.Name)
		}
		s.names = append(s.names, d.Name)
	}
	s.agent, err = agent.New(agent.Config{
		Name: name, Model: &model{list, s.check}, Interceptors: o.Interceptors, ToolLimits: o.ToolLimits,
		Tools:  append(slices.Clip(slices.Clone(tools)), stepping{}, waiting{}, ending{}),
		Limits: agent.Limits{Turns: mostTurns}, OneMessage: true,
	})
	if err != nil {
		return nil, fmt.Errorf("workflow: %w", err)
	}
	return s, nil
}

// Agent returns the agent that carries lists out, for runner.Options.Agents.
func (s *Set) Agent() *agent.Agent { return s.agent }

// Tools returns what is told of the tools of which lists are made: a copy.
func (s *Set) Tools() []llm.ToolDef { return s.box.Defs() }

// Check returns what is wrong with a list: a reference to a step that isn't
// there, or to what its tool never comes to; steps that wait for each other; a
// tool that the set doesn't have; arguments that never fit.
func (s *Set) Check(l *List) error {
	if err := s.check(l); err != nil {
		return fmt.Errorf("workflow %q: %w", l.Name, err)
	}
	return nil
}

func (s *Set) check(l *List) error {
	all, err := l.check()
	if err == nil {
		err = s.checkTools(l, all)
	}
	return err
}

// Message checks a list, and returns the message with which a session of the
// set's agent begins it. Input may be empty.
func (s *Set) Message(l *List, input json.RawMessage) (llm.Message, error) {
	if err := s.Check(l); err != nil {
		return llm.Message{}, err
	}
	p := &progress{list: l, steps: map[string]*stepState{}}
	if len(input) == 0 {
		input = json.RawMessage("null")
	}
	if _, err := next(p, input); err != nil {
		return llm.Message{}, fmt.Errorf("workflow %q: %w", l.Name, err)
	}
	text, err := strictjson.Append(nil, &started{*l, input})
	if err != nil {
		return llm.Message{}, fmt.Errorf("workflow %q: %w", l.Name, err)
	}
	return llm.UserText(string(text)), nil
}
