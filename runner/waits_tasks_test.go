package runner_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/wait"
)

// taskRig is a rig whose model has a list of tasks, in memory.
func taskRig(t *testing.T, scope tool.WaitScope, turns ...fakellm.Turn) *rig {
	t.Helper()
	s, err := wait.New(wait.Config{Scope: scope})
	must(t, err)
	return newRig(t, agent.Config{Tools: append(s.Tools(), s.Tasks()...),
		Model: fakellm.New(turns...)}, &rigOptions{memory: true})
}

var scopes = []tool.WaitScope{tool.SessionScope, tool.UserScope, tool.StoreScope}

// A task goes through its statuses, across restarts. Its end ends the handles
// that wait for it, each once, and who waits for them and for itself goes on.
func TestATaskEndsWhatWaitsForIt(t *testing.T) {
	for status, want := range map[string]string{
		"completed": `"completed" {"taskId":"paint","status":"completed","note":"red","result":7} `,
		"failed":    `"failed"  "The task paint has failed: red."`,
		"cancelled": `"failed"  "Cancelled: red."`,
	} {
		for _, scope := range scopes {
			t.Run(string(scope)+" "+status, func(t *testing.T) {
				update := `{"taskId":"paint","status":"` + status + `","note":"red"}`
				if status == "completed" {
					update = `{"taskId":"paint","status":"completed","note":"red","result":7}`
				}
				r := taskRig(t, scope,
					fakellm.Calls("create_wait_handle", `{"handleId":"gate","type":"custom"}`).
						And("create_wait_handle", `{"handleId":"gone","type":"custom"}`),
					fakellm.Calls("create_task", `{"taskId":"paint","title":"Paint it",`+
						`"handleIds":["gate","gone","gate"]}`).
						And("update_task_status", `{"taskId":"paint","status":"in_progress","note":"half"}`).
						And("complete_wait_handle", `{"handleId":"gone","error":"no"}`),
					fakellm.Calls("list_tasks", `{"filter":"open"}`), fakellm.Says("Half."),
					fakellm.Calls("update_task_status", update).And("wait_for_multiple",
						`{"handleIds":["gate","paint"],"mode":"all"}`),
					fakellm.Calls("update_task_status", update).
						And("update_task_status", `{"taskId":"paint","status":"blocked"}`).
						And("wait_for", `{"handleId":"gate"}`).And("list_tasks", `{"filter":"`+status+`"}`).
						And("list_tasks", `{"filter":"open"}`),
					fakellm.Says("Done."))
				r.say("Paint.").finished(event.FinishStop)
				if got := fields(t, r.outputs()[3], "success", "status", "note"); got !=
					`true "in_progress" "half"` {
					t.Errorf("it is begun with %s", r.outputs()[3])
				}
				r.restart()
				open := r.outputs()[5]
				if n := strings.Count(open, `"taskId":`); n != 1 ||
					!strings.Contains(open, `"status":"in_progress"`) {
					t.Errorf("open are %s", open)
				}
				if r.say("Go on.").end.Finish != event.FinishStop { // ends of wider scopes are told beside it
					waitFor(t, func() bool { return r.carryOn().end.Finish == event.FinishStop })
				}
				got := r.outputs()[6:]
				if ended := fields(t, got[0], "success", "status", "endedHandles"); !strings.HasPrefix(ended,
					fmt.Sprintf(`true %q [{"handleId":"gate","status":%s}`, status, strings.Fields(want)[0])) ||
					!strings.Contains(ended, `{"handleId":"gone","error":"Wait handle \"gone\" has ended already`) {
					t.Errorf("its end is told as %s", got[0])
				}
				if all := fields(t, got[1], "status", "pendingCount"); all != `"completed" 0` {
					t.Errorf("who waits for both is told %s", got[1])
				}
				if again := fields(t, got[2], "success", "status"); again != fmt.Sprintf("true %q", status) {
					t.Errorf("the same again is told as %s", got[2])
				}
				if !strings.Contains(got[3], "has ended already") || !strings.Contains(got[3], "isError") {
					t.Errorf("another status is told as %s", got[3])
				}
				if gate := fields(t, got[4], "status", "result", "error"); gate != want {
					t.Errorf("who waits for the gate is told %s", gate)
				}
				if !strings.Contains(got[5], `"count":1`) || !strings.Contains(got[6], `"count":0`) {
					t.Errorf("the lists have %s and %s", got[5], got[6])
				}
				must(t, r.Close())
				r.sound()
			})
		}
	}
}

// A list has the tasks and no other handles, by their due times. A due time
// ends nothing.
func TestTasksAreListedByDueTimes(t *testing.T) {
	for _, scope := range scopes {
		synctest.Test(t, func(t *testing.T) {
			due := time.Now().Add(48 * time.Hour).UTC().Format(time.RFC3339)
			r := taskRig(t, scope,
				fakellm.Calls("create_wait_handle", `{"handleId":"h","type":"custom"}`).
					And("create_task", `{"taskId":"a","title":"No hurry"}`).
					And("create_task", `{"taskId":"b","title":"Later","due":"`+due+`"}`).
					And("create_task", `{"taskId":"c","title":"Soon","dueMs":3600000}`).
					And("create_task", `{"title":"Named by itself","due":{"date":"2030-03-31",`+
						`"time":"02:30","zone":"Europe/Berlin"}}`),
				fakellm.Says("Noted."), fakellm.Calls("list_tasks", `{}`).
					And("list_tasks", `{"filter":"overdue"}`).And("list_tasks", `{"limit":2}`),
				fakellm.Says("So."))
			r.say("Note.").finished(event.FinishStop)
			time.Sleep(24 * time.Hour)
			r.say("What is there?").finished(event.FinishStop)
			type list struct {
				Count int
				Tasks []struct {
					TaskID, Status string
					Due            *string
					Overdue        bool
				}
				NextCursor *string
			}
			read := func(i int) (l list, ids string) {
				must(t, json.Unmarshal([]byte(r.outputs()[5+i]), &l))
				for _, task := range l.Tasks {
					id, _, _ := strings.Cut(task.TaskID, "_")
					ids += id + " "
				}
				return l, ids
			}
			all, ids := read(0)
			if ids != "c b task a " || all.Count != 4 || all.NextCursor != nil {
				t.Errorf("all are %s", r.outputs()[5])
			}
			if got := all.Tasks[2].Due; got == nil || *got != "2030-03-31T01:00:00.000Z" {
				t.Errorf("the skipped hour is %s", r.outputs()[5])
			}
			if _, ids := read(1); ids != "c " {
				t.Errorf("overdue are %s", r.outputs()[6])
			}
			if page, ids := read(2); ids != "b a " || page.NextCursor == nil {
				t.Errorf("a page is %s", r.outputs()[7])
			}
			must(t, r.Close())
			r.sound()
		})
	}
}

func TestTasksThatCannotBe(t *testing.T) {
	for _, scope := range scopes {
		r := taskRig(t, scope,
			fakellm.Calls("create_wait_handle", `{"handleId":"h","type":"custom"}`).
				And("create_task", `{"taskId":"a","title":"A"}`),
			fakellm.Calls("create_task", `{"taskId":"a","title":"Again"}`).
				And("create_task", `{"taskId":"b","title":"B","handleIds":["nowhere"]}`).
				And("create_task", `{"taskId":"c","title":"C","handleIds":["c"]}`).
				And("create_task", `{"taskId":"d","title":"D","due":"tomorrow"}`).
				And("create_task", `{"taskId":"e","title":"E","due":"2030-01-01T00:00:00Z","dueMs":1}`).
				And("create_task", `{"taskId":"f g","title":"F"}`).
				And("update_task_status", `{"taskId":"h","status":"completed"}`).
				And("update_task_status", `{"taskId":"z","status":"completed"}`).
				And("update_task_status", `{"taskId":"a","status":"failed","result":1}`),
			fakellm.Calls("list_tasks", `{}`), fakellm.Says("So."))
		r.say("Note.").finished(event.FinishStop)
		got := r.outputs()[2:]
		for i, want := range []string{"exists already", `nowhere`, "the task itself",
			"due: ", "due and dueMs", "taskId: ", "no task", `not found`, "result goes with"} {
			if !strings.Contains(got[i], want) || !strings.Contains(got[i], `isError`) {
				t.Errorf("%d: it is told %s, without %q", i, got[i], want)
			}
		}
		if !strings.Contains(got[9], `"count":1`) {
			t.Errorf("there are %s", got[9])
		}
	}
}
