package runner_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

func TestZZ(t *testing.T) {
	model := fakellm.New(
		fakellm.Calls("build", `{"action":"spawn","id":"a","target":"x"}`),
		fakellm.Calls("await", `{"all":["a"]}`), fakellm.Says("Both."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{builds(t)}, Model: model}, nil)
	ctx, c := context.WithTimeout(t.Context(), 3*time.Second)
	defer c()
	for ev, err := range r.Run(ctx, user, chat, llm.UserText("go"), nil) {
		fmt.Printf("%T %+v %v\n", ev, ev, err)
	}
	_ = event.FinishStop
	for x, err := range r.Sessions(t.Context(), session.Filter{Children: true}, user) {
		st, err2 := r.store.Load(t.Context(), x.ID)
		fmt.Printf("%+v %v %v\n", st, err, err2)
	}
	_ = runner.Complete
}
