package runner_test

import (
	"encoding/json"
	"fmt"

	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// What a person types becomes a decision where one is wanted, and otherwise
// what the question's schema takes.
func ExampleFromText() {
	gate := tool.Pause{ID: "call_x.1", Await: tool.Await{Reason: tool.ReasonApproval, Gate: "approval"}}
	for _, typed := range []string{"yes", "no, wrong customer", "yes, but only half of it"} {
		r, err := runner.FromText(gate, "grace", typed)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Printf("approved: %v, %q\n", r.Decision.Approved, r.Decision.Reason)
	}
	seats := json.RawMessage(`{"type":"integer","minimum":1}`)
	question := tool.Pause{ID: "call_y.1", Await: tool.Await{Reason: tool.ReasonInput, Prompt: "How many seats?", Schema: seats}}
	for _, typed := range []string{"2", "two"} {
		r, err := runner.FromText(question, "ada", typed)
		fmt.Printf("payload: %s, %v\n", r.Payload, err)
	}
	// Output:
	// approved: true, ""
	// approved: false, "wrong customer"
	// session: the answer to pause call_x.1 does not fit: neither yes nor no: "yes" alone approves, "yes" and a JSON object approves other arguments, "no" and perhaps a reason denies
	// payload: 2, <nil>
	// payload: , session: the answer to pause call_y.1 does not fit: must be an integer, got "two"
}
