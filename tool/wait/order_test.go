package wait_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/wait"
)

// desk is a runner whose model waits, with a clock that may be set back.
type desk struct {
	*testing.T
	*runner.Runner
	ahead atomic.Int64
}

// newDesk returns a desk whose model makes these calls, and has these tools
// beside those of a set.
func newDesk(t *testing.T, scope tool.WaitScope, more []tool.Tool, turns ...fakellm.Turn) *desk {
	t.Helper()
	d := &desk{T: t}
	s, err := wait.New(wait.Config{Scope: scope})
	must(t, err)
	a, err := agent.New(agent.Config{Name: "ops", Tools: append(s.Tools(), more...),
		Model: fakellm.New(turns...)})
	must(t, err)
	now := func() time.Time { return time.Now().Add(time.Duration(d.ahead.Load())) }
	d.Runner, err = runner.New(a, session.NewStore(kvstore.NewMemory(), &session.Options{Now: now}), nil)
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

// say has the model go on, to the end of its run or to a wait.
func (d *desk) say() {
	d.Helper()
	last(d.T, d.Runner.Run(d.Context(), "ada", "chat", llm.UserText("Go."), nil))
}

// work has a worker carry on until the run is over.
func (d *desk) work() {
	d.Helper()
	ctx, cancel := context.WithCancel(d.Context())
	defer cancel()
	_ = d.Work(ctx, &runner.WorkOptions{Poll: time.Hour, OnEvent: func(id string, ev event.Event, _ error) {
		if end, ok := ev.(event.End); ok && id == "chat" && end.Finish == event.FinishStop {
			cancel()
		}
	}})
}

// replies returns what the model has read, errors as their text.
func (d *desk) replies() (all []string) {
	d.Helper()
	shown, err := d.Show(d.Context(), "chat", "ada")
	must(d.T, err)
	for _, m := range shown.History {
		for _, p := range m.Parts {
			res, ok := p.(llm.ToolResult)
			if !ok {
				continue
			}
			text := string(res.Output)
			if res.Error {
				must(d.T, json.Unmarshal(res.Output, &text))
			}
			all = append(all, text)
		}
	}
	return all
}

// answer answers the hook whose token reply n has.
func (d *desk) answer(n int, answer func(pause string) runner.Resumption) {
	d.Helper()
	var hook struct{ Token string }
	must(d.T, json.Unmarshal([]byte(d.replies()[n]), &hook))
	token, err := d.ReadToken(d.Context(), hook.Token)
	must(d.T, err)
	_, err = d.Resume(d.Context(), token.Session, answer(token.PauseID()))
	must(d.T, err)
}

func one(pause string) runner.Resumption {
	return runner.Complete(pause, "web", json.RawMessage(`1`))
}

func broken(pause string) runner.Resumption { return runner.Fail(pause, "web", "broken", false) }

// has reports parts that a reply doesn't have.
func has(t *testing.T, reply string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(reply, part) {
			t.Errorf("%s\nhas no %s", reply, part)
		}
	}
}

// Handles end in the order in which their ends came, also where a worker comes
// to them later, and in another order.
func TestTheFirstEndWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "", nil, fakellm.Calls("create_wait_handle", `{"handleId":"a","type":"hook"}`).
			And("create_wait_handle", `{"handleId":"b","type":"hook"}`),
			fakellm.Calls("wait_for_multiple", `{"handleIds":["b","a"],"mode":"race"}`), fakellm.Says("Done."))
		d.say()
		time.Sleep(10 * time.Minute)
		d.answer(0, one)
		time.Sleep(10 * time.Minute)
		d.answer(1, broken)
		time.Sleep(10 * time.Minute)
		d.work()
		has(t, d.replies()[2], `"status":"completed","totalCount":2,"completedCount":1,"failedCount":1`,
			`"result":1,"elapsedMs":600000`, `"broken","elapsedMs":1200000`)
	})
}

// A deadline that has passed is an end of its own time, whenever it is applied.
func TestADeadlineIsAnEndOfItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "", nil, fakellm.Calls("create_wait_handle", `{"handleId":"hook","type":"hook"}`).
			And("create_wait_handle", `{"handleId":"gate","type":"custom","timeoutMs":1000}`),
			fakellm.Calls("wait_for_multiple", `{"handleIds":["hook","gate"],"mode":"race"}`),
			fakellm.Calls("wait_for", `{"handleId":"gate"}`).And("wait_for", `{"handleId":"hook"}`).
				And("create_wait_handle", `{"handleId":"timer","type":"timer","timeoutMs":60000}`).
				And("wait_for", `{"handleId":"timer"}`), fakellm.Says("Done."))
		d.say()
		time.Sleep(30 * time.Minute)
		d.answer(0, one)
		time.Sleep(30 * time.Minute)
		d.work()
		got := d.replies()
		has(t, got[2], `"mode":"race","status":"failed"`, `"Timed out after 1000ms","elapsedMs":1000`,
			`"result":1,"elapsedMs":1800000`)
		has(t, got[3], `"endTime":"2000-01-01T00:00:01.000Z"`)
		has(t, got[4], `"endTime":"2000-01-01T00:30:00.000Z"`)
		has(t, got[6], `"completed"`, `"operationElapsedMs":60000`)
	})
}

// What is overdue is shown as ended, by each tool alike and without a worker.
func TestOverdueHandlesHaveEnded(t *testing.T) {
	for _, scope := range []tool.WaitScope{tool.SessionScope, tool.UserScope} {
		t.Run(string(scope), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { overdue(t, scope) }) })
	}
}

func overdue(t *testing.T, scope tool.WaitScope) {
	d := newDesk(t, scope, nil,
		fakellm.Calls("create_wait_handle", `{"handleId":"gate","type":"custom","timeoutMs":1000}`).
			And("create_wait_handle", `{"handleId":"timer","type":"timer","timeoutMs":1000}`).
			And("create_wait_handle", `{"handleId":"later","type":"custom","timeoutMs":7200000}`),
		fakellm.Says("Well."),
		fakellm.Calls("list_wait_handles", `{"status":"pending"}`).
			And("list_wait_handles", `{"status":"timeout"}`).And("list_wait_handles", `{"limit":1}`),
		fakellm.Calls("complete_wait_handle", `{"handleId":"gate","result":1}`).
			And("wait_for", `{"handleId":"timer","timeoutMs":0}`),
		fakellm.Calls("list_wait_handles", `{"status":"completed"}`), fakellm.Says("Done."))
	d.say()
	time.Sleep(time.Hour)
	d.say()
	got := d.replies()
	counts := `"byStatus":{"pending":1,"completed":1,"failed":0,"timeout":1}`
	has(t, got[3], counts, `"filtered":1`, `"handles":[{"id":"later"`, `"nextCursor":null`)
	has(t, got[4], counts, `"handles":[{"id":"gate"`, `"status":"timeout","elapsedMs":1000`, `"hasError":true`)
	has(t, got[5], counts, `"handles":[{"id":"gate"`)
	has(t, got[6], "has ended already: timeout at 2000-01-01T00:00:01.000Z")
	has(t, got[7], `"status":"completed","result":null,"operationElapsedMs":1000`,
		`"endTime":"2000-01-01T00:00:01.000Z"`)
	has(t, got[8], `"handles":[{"id":"timer"`)
}

// Where the clock is set back, nothing has taken less than no time.
func TestNoTimeIsNegative(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "", nil, fakellm.Calls("create_wait_handle", `{"handleId":"gate","type":"hook"}`),
			fakellm.Calls("wait_for", `{"handleId":"gate"}`).
				And("wait_for_multiple", `{"handleIds":["gate"],"mode":"all"}`), fakellm.Says("Done."))
		d.say()
		d.ahead.Store(-int64(5 * time.Hour))
		d.answer(0, one)
		d.work()
		has(t, d.replies()[1], `"operationElapsedMs":0,`, `"waitedMs":0,"waitedTime":"0ms"`)
		has(t, d.replies()[2], `"elapsedMs":0,`, `"waitedMs":0,"waitedTime":"0ms"`)
	})
}
