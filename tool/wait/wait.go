// Package wait has tools with which a model waits for what happens outside it,
// for days: sleep, wait handles, tasks, and agents that run beside.
//
// A wait handle is a name for something that ends once. A model makes it, hands
// its name or token to others, and waits for one or several. Those that end it
// are other agents, webhooks and operators, or its own time. No wait holds a
// goroutine, and each survives restarts and deploys.
//
// For a tool's own body that runs beside the conversation, see package
// tool/handle.
package wait

// Where things are: wait.go (a set and its tools), sleep.go, create.go, one.go
// (wait_for), several.go, complete.go, list.go, report.go (report_wait_handle),
// agents.go (execute_agent_async), workflows.go (execute_workflow_async), permit.go (tools
// whose calls hold a permit); tasks: task.go (create_task), taskupdate.go,
// tasklist.go.

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/internal/waits"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/workflow"
)

// Config configures a set of tools. The zero value has the defaults.
type Config struct {
	// Scope is who shares the wait handles of the set; default: each session has
	// its own.
	Scope tool.WaitScope
	// MaxSleep bounds how long sleep waits; default a year of 366 days.
	MaxSleep time.Duration
	// InPlace is up to how long sleep waits without a pause: then its call keeps
	// its place among those that run; default 2 s.
	InPlace time.Duration
	// Webhook, if set, makes the address at which an outside system ends a hook,
	// of the hook's token. It depends on the token alone. Without it the model is
	// told the token only.
	Webhook func(token string) string
	// TimeoutEnds has the timeoutMs of wait_for end the handle, for all that wait
	// for it, and what works for it. Without it only the call stops waiting, and
	// so it is where the session may not end the handle.
	TimeoutEnds bool
	// Agents, if there are any, may be begun beside the session, by the tool
	// execute_agent_async. The runner drives them; they need not be among
	// runner.Options.Agents. They go with SessionScope.
	Agents []*agent.Agent
	// Models are those that such a call may name in place of the agent's own. An
	// agent with another model has the name agent@model in its sessions.
	Models map[string]llm.Model
	// Workflows, if set, has the tools of which the model may have lists of steps
	// carried out beside the session, by the tool execute_workflow_async. The
	// runner drives its agent; it need not be among runner.Options.Agents. It
	// goes with SessionScope.
	Workflows *workflow.Set
}

// Set is tools that share wait handles. It doesn't change, and any goroutine
// may use it.
type Set struct {
	config Config
	tools  []tool.Tool
}

// New returns a set.
func New(c Config) (*Set, error) {
	switch c.Scope {
	case tool.SessionScope, tool.UserScope, tool.StoreScope:
	default:
		return nil, fmt.Errorf("wait: Config.Scope is %q, and may be %q, %q or empty", c.Scope,
			tool.UserScope, tool.StoreScope)
	}
	if c.MaxSleep < 0 || c.InPlace < 0 {
		return nil, errors.New("wait: Config.MaxSleep and Config.InPlace must not be negative")
	}
	if c.MaxSleep == 0 {
		c.MaxSleep = 366 * 24 * time.Hour
	}
	if c.InPlace == 0 {
		c.InPlace = 2 * time.Second
	}
	s := &Set{config: c}
	wait := s.base(waits.WaitFor)
	if c.TimeoutEnds {
		wait.spec = waits.EndingWaitFor()
	}
	s.tools = []tool.Tool{
		&sleep{s.base(waits.Sleep)}, &create{s.base(waits.Create)}, &waitFor{wait},
		&waitForSeveral{s.base(waits.WaitMultiple)}, &complete{s.base(waits.Complete)},
		&list{s.base(waits.List)},
	}
	switch {
	case len(c.Agents) > 0 && c.Scope != tool.SessionScope:
		return nil, fmt.Errorf("wait: Config.Agents go with the scope of a session, and not with %q",
			c.Scope)
	case len(c.Agents) > 0:
		t, err := newExecuteAgent(s.base(""), c.Agents, c.Models)
		if err != nil {
			return nil, err
		}
		s.tools = append(s.tools, t)
	case len(c.Models) > 0:
		return nil, errors.New("wait: Config.Models go with Config.Agents, and there are none")
	}
	switch {
	case c.Workflows != nil && c.Scope != tool.SessionScope:
		return nil, fmt.Errorf("wait: Config.Workflows goes with the scope of a session, and not with %q",
			c.Scope)
	case c.Workflows != nil:
		s.tools = append(s.tools, newExecuteWorkflow(s.base(""), c.Workflows))
	}
	return s, nil
}

// Tools returns the tools of the set, for agent.Config.Tools.
func (s *Set) Tools() []tool.Tool { return append([]tool.Tool(nil), s.tools...) }

// base is what the tools of a set have in common.
type base struct {
	config Config
	spec   tool.Spec
}

func (s *Set) base(name string) base { return base{s.config, waits.Spec(name)} }

func (b *base) Spec() tool.Spec { return b.spec }

// WaitHandles marks the tools of this package for the agent: their handles need
// no tool await, and no words about actions.
func (b *base) WaitHandles() {}

// ErrorWords is the form in which a model reads that arguments don't fit.
func (b *base) ErrorWords(text string) string { return waits.Errorf("%s", text).Error() }

// input reads the arguments of a call, which fit the tool's schema.
func input[T any](c tool.Call) (in T, err error) {
	if err = json.Unmarshal(c.Arguments, &in); err != nil {
		err = waits.Errorf("The arguments can't be read: %v", err)
	}
	return in, err
}

// millis is a number of milliseconds as a model writes it: a whole number,
// perhaps as 1e3.
type millis float64

// UnmarshalJSON takes a number of any size. One that no float64 holds is more
// than any bound takes.
func (m *millis) UnmarshalJSON(text []byte) error {
	n, err := strconv.ParseFloat(string(text), 64)
	if errors.Is(err, strconv.ErrRange) {
		err = nil // n is infinite
	}
	*m = millis(n)
	return err
}

// most is the greatest number of milliseconds that a duration holds.
const most = float64(1<<63-1) / float64(time.Millisecond)

func (m millis) duration() time.Duration {
	// Most itself, as a float64, is rounded up to more than a duration holds.
	return time.Duration(max(-most, min(float64(m), most/2))) * time.Millisecond
}

// reply returns what a call tells the model.
func reply(r any) (tool.Execution, error) {
	out, err := waits.JSON(r)
	return tool.Execution{Output: out}, err
}

// worded returns an error of the runtime as the model reads it, if its words are
// for the model.
func worded(err error) error {
	if already, ok := err.(*waits.Error); ok {
		return already
	}
	if !waits.ForModel(err) {
		return err
	}
	return &waits.Error{Text: err.Error(), Err: err}
}

// idOf returns the handle that arguments name, for the runner. Those that can't
// be read name none, and are refused when the call is entered.
func idOf(arguments json.RawMessage) string {
	var in struct {
		ID string `json:"handleId"`
	}
	if json.Unmarshal(arguments, &in) != nil || waits.CheckID(in.ID) != nil {
		return ""
	}
	return in.ID
}
