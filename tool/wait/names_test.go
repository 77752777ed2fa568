package wait_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/handle"
)

// building is a tool that is begun beside the session.
func building(t *testing.T) []tool.Tool {
	t.Helper()
	type target struct {
		Target string `json:"target"`
	}
	build := tool.Must(tool.Func(tool.Spec{Name: "build", Effect: tool.Idempotent},
		func(_ context.Context, in target) (tool.Result[string], error) {
			return tool.Done("built " + in.Target), nil
		}))
	return []tool.Tool{tool.Must(handle.Stateful(build, nil))}
}

// The name of a wait handle is its own as long as its end is kept, and the
// actions of other tools do nothing to it. The name of another handle is free
// once that has stopped.
func TestAWaitHandleKeepsItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "", building(t),
			fakellm.Calls("create_wait_handle", `{"handleId":"a","type":"custom"}`),
			fakellm.Calls("build", `{"action":"abort","id":"a"}`),
			fakellm.Calls("complete_wait_handle", `{"handleId":"a","result":{"paid":true}}`),
			fakellm.Calls("build", `{"action":"spawn","id":"a","target":"x"}`),
			fakellm.Calls("wait_for", `{"handleId":"a"}`),
			fakellm.Calls("build", `{"action":"spawn","id":"b","target":"x"}`),
			fakellm.Calls("await", `{"all":["b"]}`), // until it has stopped
			fakellm.Calls("create_wait_handle", `{"handleId":"b","type":"custom"}`),
			fakellm.Calls("complete_wait_handle", `{"handleId":"b","result":2}`),
			fakellm.Calls("wait_for", `{"handleId":"b"}`),
			fakellm.Says("Done."))
		d.say()
		got := d.replies()
		has(t, got[1], `is a wait handle`, "complete_wait_handle")
		has(t, got[2], `"status":"completed","result":{"paid":true}`)
		has(t, got[3], "name is taken", "wait handle", "choose another")
		has(t, got[4], `"status":"completed","result":{"paid":true}`)
		has(t, got[7], `"success":true`)
		has(t, got[9], `"status":"completed","result":2`)
	})
}

// An error is told in the words that it came in, and these alone repeat it.
func TestAnErrorKeepsItsWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "", nil,
			fakellm.Calls("create_wait_handle", `{"handleId":"a","type":"custom"}`).
				And("create_wait_handle", `{"handleId":"b","type":"custom"}`),
			fakellm.Calls("complete_wait_handle", `{"handleId":"a","error":"E42"}`).
				And("complete_wait_handle", `{"handleId":"b","error":"Failed: {\"code\":7}"}`),
			fakellm.Calls("wait_for", `{"handleId":"a"}`).And("wait_for", `{"handleId":"b"}`),
			fakellm.Calls("complete_wait_handle", `{"handleId":"a","error":"E42"}`),
			fakellm.Calls("complete_wait_handle", `{"handleId":"a","error":"E42."}`),
			fakellm.Says("Done."))
		d.say()
		got := d.replies()
		for _, n := range []int{2, 4, 6} {
			has(t, got[n], `"status":"failed","error":"E42"`)
		}
		has(t, got[3], `"error":"Failed: {\"code\":7}"`)
		has(t, got[5], `"error":"Failed: {\"code\":7}"`)
		has(t, got[7], `with the error \"E42\"`)
	})
}

// A turn that would give a name to a wait handle and to another handle gives it to
// neither, in whatever order.
func TestANameIsGivenOnceInATurn(t *testing.T) {
	made, begun := `{"handleId":"a","type":"custom"}`, `{"action":"spawn","id":"a","target":"x"}`
	for _, turn := range []fakellm.Turn{
		fakellm.Calls("create_wait_handle", made).And("build", begun),
		fakellm.Calls("build", begun).And("create_wait_handle", made),
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t, "", building(t), turn.And("wait_for", `{"handleId":"a"}`),
				fakellm.Calls("create_wait_handle", made), fakellm.Says("Done."))
			d.say()
			got := d.replies()
			plain := 0
			for _, reply := range got[:3] {
				has(t, reply, "more than one call of this turn would give that id")
				if !strings.HasSuffix(reply, `"isError":true}`) {
					plain++
				}
			}
			if plain != 1 {
				t.Errorf("%q", got)
			}
			has(t, got[3], `"success":true`)
		})
	}
}
