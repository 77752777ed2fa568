package schedule_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/schedule"
)

// A program of an older version that carries a schedule on, and hands it from
// one call to the next, or puts it at its start, keeps what a later version has
// added to it.
func TestAScheduleOfALaterVersion(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := nightly()
		s.Overlap = schedule.OverlapAllow
		text, err := json.Marshal(map[string]any{"schedule": s, "state": struct{}{}, "later1": 1})
		must(t, err)
		later := string(text)
		for _, add := range [][2]string{
			{`"schedule":{`, `"schedule":{"later2":{"a":2.0},`}, {`"do":{`, `"do":{"later3":3,`},
			{`"state":{`, `"state":{"later4":4`},
		} {
			later = strings.Replace(later, add[0], add[1], 1)
		}
		_, err = r.rn.Send(t.Context(), "ada", schedule.SessionID(s.ID), llm.UserText(later),
			&runner.SendOptions{Agent: schedule.AgentName, MessageID: "create", Hidden: true})
		must(t, err)
		r.works()
		must(t, r.Put(t.Context(), s, "ada"))
		const runs = 70 // more events than one call takes
		for range runs {
			must(t, r.RunNow(t.Context(), s.ID, "ada", nil))
		}
		time.Sleep(time.Minute)
		if is := r.stands(s.ID); is.Fired != runs || is.Over {
			t.Errorf("it stands so: %+v", is)
		}
		calls := r.asked(s.ID)
		if len(calls) < 2 {
			t.Fatalf("there is one call: %s", calls)
		}
		for _, want := range []string{`"later1":1`, `"later2":{"a":2.0}`, `"later3":3`, `"later4":4`} {
			if last := calls[len(calls)-1]; !strings.Contains(last, want) {
				t.Errorf("the last call is asked for %s, and %s is lost", last, want)
			}
		}
	})
}

// asked lists the arguments of a schedule's calls.
func (r *rig) asked(id string) (all []string) {
	r.t.Helper()
	t, err := r.rn.Show(r.t.Context(), schedule.SessionID(id), "test")
	must(r.t, err)
	for _, m := range t.History {
		for _, c := range m.ToolCalls() {
			all = append(all, string(c.Arguments))
		}
	}
	return all
}
