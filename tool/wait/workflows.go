package wait

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/internal/waits"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/workflow"
)

// executeWorkflow has lists of steps carried out beside the session. The handle
// is a session below the caller's, of one call of this same tool, which begins
// the workflow's session there, and waits for its end.
type executeWorkflow struct {
	base
	set *workflow.Set
}

type workflowInput struct {
	Workflow string          `json:"workflowId"`
	Name     string          `json:"name"`
	Steps    []workflow.Step `json:"steps"`
	Input    json.RawMessage `json:"input"`
	Timeout  *millis         `json:"timeoutMs"`
}

func newExecuteWorkflow(b base, set *workflow.Set) *executeWorkflow {
	b.spec = waits.WorkflowSpec(set.Tools(), workflow.MaxSteps)
	return &executeWorkflow{base: b, set: set}
}

// Acts tells the runner that a call makes a handle. Its name isn't known yet.
func (t *executeWorkflow) Acts(json.RawMessage) (action, handle string) {
	return waits.ActionCreate, ""
}

// Policy tells the runner that these handles go on when a turn ends.
func (t *executeWorkflow) Policy() tool.HandlePolicy {
	return tool.HandlePolicy{AtEnd: tool.KeepAtEnd}
}

// Nested returns the agent that carries lists out, for the runner, which drives
// it.
func (t *executeWorkflow) Nested() []*agent.Agent { return []*agent.Agent{t.set.Agent()} }

// Execute makes the handle, or, in the handle's own session, has the workflow
// carried out.
func (t *executeWorkflow) Execute(ctx context.Context, c tool.Call) (tool.Execution, error) {
	in, err := input[workflowInput](c)
	if err != nil {
		return tool.Execution{}, err
	}
	m, err := t.message(&in)
	if err != nil {
		return tool.Execution{}, err
	}
	if begun, err := waits.Begun(ctx, c); err != nil || begun != nil {
		return t.works(m, begun), err
	}
	n := waits.New{Scope: t.config.Scope, ID: generated("workflow", in.Workflow, c.ID),
		Type: tool.WorkflowWait}
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
	count := len(in.Steps)
	exec, err := reply(waits.BegunReply{Async: true, ID: w.ID, Status: tool.WaitPending,
		Message:   fmt.Sprintf("The workflow %q works. Wait for its result with wait_for.", in.Name),
		StepCount: &count})
	exec.Handle = step
	return exec, err
}

// message checks the list of a call, and returns what its session begins with.
func (t *executeWorkflow) message(in *workflowInput) (llm.Message, error) {
	for i := range in.Steps { // an optional parameter may be filled in with null
		s := &in.Steps[i]
		if string(s.Arguments) == "null" {
			s.Arguments = nil
		}
	}
	m, err := t.set.Message(&workflow.List{Name: in.Name, Steps: in.Steps}, in.Input)
	if err != nil {
		return m, waits.Errorf("Nothing was begun: %v", err)
	}
	return m, nil
}

// works returns the pause in which the workflow is carried out.
func (t *executeWorkflow) works(m llm.Message, begun *tool.WaitStep) (exec tool.Execution) {
	if begun == nil {
		return exec
	}
	exec.Await = &tool.Await{Reason: tool.ReasonAgent, Deadline: begun.Deadline,
		Child: &tool.Child{Agent: t.set.Agent().Name(), Message: m, Planned: true,
			Schema: json.RawMessage(`{}`)}} // any JSON
	return exec
}
