package fermatatest_test

import (
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/fermatatest"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/wait"
)

// A task is made, worked on and completed, with the handle that waits for it,
// and the process is killed at every write.
func TestKilledAtATask(t *testing.T) {
	t.Parallel()
	killed(t, .1, fermatatest.Options{
		Engines: []fermatatest.Engine{fermatatest.Memory(),
			fermatatest.Shared(fermatatest.Memory())},
	}, fermatatest.Scenario{
		Name: "a task, and what ends with it",
		World: func() fermatatest.World {
			set := tool.Must(wait.New(wait.Config{}))
			var tools []tool.Tool
			for _, t := range append(set.Tools(), set.Tasks()...) {
				tools = append(tools, timeless{t})
			}
			return world(agent.Config{Tools: tools,
				Model: fakellm.New(
					fakellm.Calls("create_wait_handle", `{"handleId":"gate","type":"custom"}`),
					fakellm.Calls("create_task",
						`{"taskId":"paint","title":"Paint","handleIds":["gate"]}`),
					fakellm.Calls("update_task_status",
						`{"taskId":"paint","status":"in_progress","note":"half"}`),
					fakellm.Says("Half."),
					fakellm.Calls("update_task_status", `{"taskId":"paint","status":"completed"}`),
					fakellm.Calls("wait_for", `{"handleId":"gate"}`),
					fakellm.Says("Done."))})()
		},
		Inputs: []fermatatest.Input{hello, thanks},
	})
}
