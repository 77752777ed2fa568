package wait_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool/wait"
)

// A short sleep that a close cuts off is slept to its end by the next process.
func TestASleepOutlivesItsProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := wait.New(wait.Config{})
		must(t, err)
		db := kvstore.NewMemory()
		open := func() *runner.Runner {
			a, err := agent.New(agent.Config{Name: "ops", Tools: s.Tools(), Model: fakellm.New(
				fakellm.Calls("sleep", `{"durationMs":1900}`), fakellm.Says("Done."))})
			must(t, err)
			rn, err := runner.New(a, session.NewStore(db, nil), nil)
			must(t, err)
			return rn
		}
		rn, closed := open(), make(chan error, 1)
		time.AfterFunc(500*time.Millisecond, func() { closed <- rn.Close() })
		for range rn.Run(t.Context(), "ada", "chat", llm.UserText("Go."), nil) {
		}
		must(t, <-closed)
		db = db.Reopen()
		d := &desk{T: t, Runner: open()}
		time.Sleep(time.Second)
		d.work()
		has(t, d.replies()[0], `"success":true`, `"requestedDurationMs":1900,"actualDurationMs":1900`)
		must(t, d.Close())
	})
}
