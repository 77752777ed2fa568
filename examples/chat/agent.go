package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/examples/chat/internal/tools"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

const instructions = `You work at the operations desk of a small shop, and talk with its owner in a
terminal. Answer in plain text, in a few short sentences. Look facts up with the tools, and never
make them up; a tool that fails says why. Deploy only what was asked for. Before you refund, look
the order up, and ask with ask_user why it is refunded unless you were told; never ask for
permission yourself, since the owner is asked to approve each refund anyway. Independent calls
belong in one turn.`

// newAgent returns the agent. Its name is stored with the sessions, and so is
// the same for every model.
func newAgent(m llm.Model, jobs, hooks string) (*agent.Agent, error) {
	return agent.New(agent.Config{
		Name: "desk", Model: m, Instructions: instructions,
		Tools: []tool.Tool{tools.Deploy(jobs, hooks), tools.Where, tools.Weather, getOrder,
			askUser, refund},
		// A refund's body is entered when a person has approved the very
		// arguments that it gets.
		Interceptors: interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{
			Tools: []string{"refund"}, Prompt: mayRefund,
		})},
		// A person waits for the model, and can type /retry.
		Retry: agent.Retry{Failures: 3, First: 500 * time.Millisecond},
	})
}

func mayRefund(c tool.Call) string {
	var in RefundInput
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return "Refund?"
	}
	return fmt.Sprintf("Refund %s for order %s (%s)?", in.Cents, in.Order, in.Reason)
}
