package wait

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/internal/waits"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// executeAgent has agents work beside the session. The handle is a session
// below the caller's, of one call of this same tool, which begins the agent's
// session there, and waits for its end.
type executeAgent struct {
	base
	agents map[string]*agent.Agent            // by name
	models map[string]map[string]*agent.Agent // by the model's name, and theirs
}

type executeInput struct {
	Agent   string  `json:"agentId"`
	Prompt  string  `json:"prompt"`
	Model   string  `json:"model"`
	Timeout *millis `json:"timeoutMs"`
}

// newExecuteAgent returns the tool of the agents and models of a set.
func newExecuteAgent(
	b base, agents []*agent.Agent, models map[string]llm.Model,
) (*executeAgent, error) {
	t := &executeAgent{base: b, agents: map[string]*agent.Agent{},
		models: map[string]map[string]*agent.Agent{}}
	for _, a := range agents {
		switch {
		case a == nil:
			return nil, errors.New("wait: Config.Agents has a nil agent")
		case a.Name() == "":
			return nil, errors.New("wait: Config.Agents has an agent without a name")
		case t.agents[a.Name()] != nil:
			return nil, fmt.Errorf("wait: Config.Agents has two agents named %q", a.Name())
		}
		t.agents[a.Name()] = a
	}
	for name, m := range models {
		t.models[name] = map[string]*agent.Agent{}
		for _, a := range agents {
			with, err := a.With(a.Name()+"@"+name, m)
			if err != nil {
				return nil, fmt.Errorf("wait: the model %q of Config.Models: %w", name, err)
			}
			t.models[name][a.Name()] = with
		}
	}
	t.spec = waits.AgentSpec(slices.Sorted(maps.Keys(t.agents)), slices.Sorted(maps.Keys(models)))
	return t, nil
}

// Acts tells the runner that a call makes a handle. Its name isn't known yet.
func (t *executeAgent) Acts(json.RawMessage) (action, handle string) { return waits.ActionCreate, "" }

// Policy tells the runner that these handles go on when a turn ends.
func (t *executeAgent) Policy() tool.HandlePolicy { return tool.HandlePolicy{AtEnd: tool.KeepAtEnd} }

// Nested returns the agents that may work, for the runner, which drives them.
func (t *executeAgent) Nested() []*agent.Agent {
	all := slices.Collect(maps.Values(t.agents))
	for _, by := range t.models {
		all = slices.AppendSeq(all, maps.Values(by))
	}
	slices.SortFunc(all, func(a, b *agent.Agent) int { return strings.Compare(a.Name(), b.Name()) })
	return all
}

// Execute makes the handle, or, in the handle's own session, has the agent work.
func (t *executeAgent) Execute(ctx context.Context, c tool.Call) (tool.Execution, error) {
	in, err := input[executeInput](c)
	if err != nil {
		return tool.Execution{}, err
	}
	a, err := t.agent(in)
	if err != nil {
		return tool.Execution{}, err
	}
	if begun, err := waits.Begun(ctx, c); err != nil || begun != nil {
		return t.works(a, in, begun), err
	}
	n := waits.New{Scope: t.config.Scope, ID: generated("agent", in.Agent, c.ID), Type: tool.AgentWait}
	if n.Timeout, err = timeout(in.Timeout, &t.config); err != nil {
		return tool.Execution{}, err
	}
	host, err := waits.HostOf(c)
	if err != nil {
		return tool.Execution{}, err
	}
	w, step, err := host.CreateWait(ctx, c, n)
	if err != nil {
		return tool.Execution{}, worded(err)
	}
	exec, err := reply(waits.BegunReply{Async: true, ID: w.ID, Status: tool.WaitPending,
		Message: fmt.Sprintf("The agent %s works. Wait for its result with wait_for.", in.Agent)})
	exec.Handle = step
	return exec, err
}

// agent returns the agent that a call names, with the model that it names.
func (t *executeAgent) agent(in executeInput) (*agent.Agent, error) {
	a := t.agents[in.Agent]
	if a == nil {
		return nil, waits.Errorf("There is no agent %q. There are: %s.", in.Agent,
			strings.Join(slices.Sorted(maps.Keys(t.agents)), ", "))
	}
	if in.Model == "" {
		return a, nil
	}
	by := t.models[in.Model]
	if by == nil {
		return nil, waits.Errorf("There is no model %q. There are: %s.", in.Model,
			strings.Join(slices.Sorted(maps.Keys(t.models)), ", "))
	}
	return by[in.Agent], nil
}

// works returns the pause in which the agent works.
func (t *executeAgent) works(
	a *agent.Agent, in executeInput, begun *tool.WaitStep,
) (exec tool.Execution) {
	if begun == nil {
		return exec
	}
	exec.Await = &tool.Await{Reason: tool.ReasonAgent, Deadline: begun.Deadline,
		Child: &tool.Child{Agent: a.Name(), Message: llm.UserText(in.Prompt)}}
	return exec
}

// generated returns a readable id of a handle, which the call alone has.
func generated(kind, of, call string) string {
	readable := strings.Map(func(r rune) rune {
		if r >= '!' && r <= '~' {
			return r
		}
		return '_'
	}, of)
	sum := sha256.Sum256([]byte(call))
	id := kind + "_" + readable[:min(len(readable), 40)] + "_" + hex.EncodeToString(sum[:4])
	return id
}
