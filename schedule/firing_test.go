package schedule_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/schedule"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/workflow"
)

// holds has the sessions of a rig wait until they are answered.
func (r *rig) holds() {
	r.close()
	r.clerk = held()
	r.open()
}

// A run that is deleted is over, for what waits for it.
func TestADeletedRunIsOver(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.holds()
		must(t, r.Create(t.Context(), nightly()))
		r.works()
		time.Sleep(48 * time.Hour)
		r.has("nightly@2000-01-01T02:30:00Z")
		must(t, r.rn.Delete(t.Context(), "nightly@2000-01-01T02:30:00Z", "ada"))
		r.has("nightly@2000-01-02T02:30:00Z")
	})
}

// With MissedAll what waits isn't skipped, however long.
func TestAllWaitInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.holds()
		s := nightly()
		s.Missed = schedule.MissedAll
		must(t, r.Create(t.Context(), s))
		r.works()
		time.Sleep(25 * 24 * time.Hour)
		var all []string
		for day := range 25 {
			id := fmt.Sprintf("nightly@2000-01-%02dT02:30:00Z", day+1)
			all = append(all, id)
			r.has(all...)
			answer(t, r, id)
		}
		synctest.Wait()
		if is := r.stands("nightly"); is.Fired != 25 || is.Skipped != 0 {
			t.Errorf("it stands so: %+v", is)
		}
	})
}

// A session whose queue is full is tried again, and then left out.
func TestAMessageThatCannotBeSentIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.queue = 1
		r.holds()
		s := nightly()
		s.Cron, s.Do.Session = "0 * * * *", "chat-1"
		must(t, r.Create(t.Context(), s))
		r.works()
		time.Sleep(3*time.Hour + 10*time.Minute)
		if is := r.stands("nightly"); is.Fired != 2 || len(is.Due) != 1 || is.Failed != 0 {
			t.Errorf("it stands so: %+v", is)
		}
		answer(t, r, "chat-1")
		time.Sleep(30 * time.Minute)
		if is := r.stands("nightly"); is.Fired != 3 || len(is.Due) != 0 || is.Failed != 0 {
			t.Errorf("it stands so: %+v", is)
		}
		time.Sleep(2 * time.Hour)
		is := r.stands("nightly")
		if is.Fired != 3 || is.Failed != 1 || is.Last.Error == "" ||
			is.Last.ID != "nightly@2000-01-01T04:00:00Z" {
			t.Errorf("it stands so: %+v, last %+v", is, is.Last)
		}
	})
}

// A message to a session that a newer program has written waits for a worker
// that can read it, however long that takes, and is soon sent then.
func TestAMessageToASessionOfANewerProgram(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		_, err := r.rn.Send(t.Context(), "ada", "chat-1", llm.UserText("Hello."), nil)
		must(t, err)
		head := kvstore.Key("h", "chat-1")
		is, err := r.engine.Get(t.Context(), head)
		must(t, err)
		put := func(value []byte) {
			_, err := r.engine.Apply(t.Context(), kvstore.Batch{Puts: []kvstore.Put{{Key: head, Value: value}}})
			must(t, err)
		}
		put(bytes.Replace(is.Value, []byte(`"v":1`), []byte(`"v":99`), 1))
		s := nightly()
		s.Cron, s.Do.Session = "30 * * * *", "chat-1"
		must(t, r.Create(t.Context(), s))
		r.works()
		time.Sleep(115 * time.Minute) // longer than one is tried that can't be sent
		put(is.Value)
		time.Sleep(time.Minute)
		if is := r.stands("nightly"); is.Failed != 0 || is.Fired != 2 {
			t.Errorf("it stands so: %+v", is)
		}
	})
}

// A firing that the ends of processes cut off, however many, hasn't failed.
func TestAFiringThatIsCutOff(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		must(t, r.Create(t.Context(), nightly()))
		r.asks = func(ctx context.Context, op runner.Operation) error {
			if op.Kind != runner.OpSend {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
		for range 11 {
			r.restart(0)
			time.Sleep(2 * time.Hour)
		}
		if is := r.stands("nightly"); len(is.Due) != 1 || is.Due[0].Error == "" || is.Failed != 0 {
			t.Errorf("it stands so: %+v", is)
		}
		r.asks = nil
		r.restart(0)
		time.Sleep(time.Minute)
		r.has("nightly@2000-01-01T02:30:00Z")
	})
}

// What is refused for good is not tried again, and the schedule goes on.
func TestAMessageThatIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		_, err := r.rn.Send(t.Context(), "bob", "chat-1", llm.UserText("Mine."), nil)
		must(t, err)
		s := nightly()
		s.Do.Session = "chat-1"
		must(t, r.Create(t.Context(), s))
		r.works()
		time.Sleep(48 * time.Hour)
		is := r.stands("nightly")
		if is.Failed != 2 || is.Fired != 0 || is.Last.Error == "" || len(r.said("chat-1")) != 1 {
			t.Errorf("it stands so: %+v, last %+v", is, is.Last)
		}
	})
}

// A call is followed by another one, again and again, and nothing is lost or
// comes twice at the seam.
func TestManyCallsOfOneSchedule(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := nightly()
		s.Cron, s.Do.Session = "* * * * *", "chat-1"
		must(t, r.Create(t.Context(), s))
		r.works()
		time.Sleep(3*time.Hour + time.Second)
		for i := range 70 { // more events than one call takes
			must(t, r.RunNow(t.Context(), "nightly", "ada", &schedule.RunOptions{Once: fmt.Sprint(i)}))
		}
		time.Sleep(30 * time.Second) // the session's queue was full
		if is := r.stands("nightly"); is.Fired != 250 || len(r.said("chat-1")) != 250 {
			t.Errorf("%d were said; it stands so: %+v", len(r.said("chat-1")), is)
		}
		shown, err := r.rn.Session(t.Context(), schedule.SessionID("nightly"), "ada")
		must(t, err)
		if shown.Turn < 3 {
			t.Errorf("there were %d calls; the test has tested nothing", shown.Turn)
		}
	})
}

// A workflow is an agent, whose message is its input.
func TestAWorkflowEachNight(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		type in struct {
			Day string `json:"day"`
		}
		count := tool.Must(tool.Func(tool.Spec{Name: "count", Effect: tool.ReadOnly},
			func(_ context.Context, in in) (tool.Result[string], error) {
				return tool.Done("counted " + in.Day), nil
			}))
		w, err := workflow.New("counting").
			Step("count", count, map[string]any{"day": workflow.Input("/day")}, nil).Build(nil)
		must(t, err)
		r.close()
		r.others = []*agent.Agent{w.Agent()}
		r.open()
		s := nightly()
		s.Do.Agent = "counting"
		s.Do.Message, err = w.Message(in{"monday"})
		must(t, err)
		must(t, r.Create(t.Context(), s))
		r.works()
		time.Sleep(48 * time.Hour)
		for _, id := range []string{"nightly@2000-01-01T02:30:00Z", "nightly@2000-01-02T02:30:00Z"} {
			shown, err := r.rn.Show(t.Context(), id, "ada")
			must(t, err)
			if last := shown.History[len(shown.History)-1].Text(); shown.Finish != "stop" {
				t.Errorf("%s has ended so: %q, %s", id, shown.Finish, last)
			}
		}
	})
}

// What a schedule has done is shown also while it has work that no worker has
// come to.
func TestAScheduleThatHasWorkIsShown(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		must(t, r.Create(t.Context(), nightly()))
		r.works()
		time.Sleep(72 * time.Hour)
		synctest.Wait()
		r.rest()
		must(t, r.RunNow(t.Context(), "nightly", "ada", &schedule.RunOptions{Once: "a"}))
		if is := r.stands("nightly"); is.Fired != 3 || !is.Next.Equal(at("2000-01-04T02:30:00Z")) {
			t.Errorf("it stands so: %+v", is)
		}
	})
}

// A firing waits for any run of the session before, also for one that its user
// has begun there, and comes when that is over, whichever way it ends.
func TestAFiringWaitsForARunOfTheUser(t *testing.T) {
	const first, second = "nightly@2000-01-01T02:30:00Z", "nightly@2000-01-02T02:30:00Z"
	for name, end := range map[string]func(*testing.T, *rig){
		"answered": func(t *testing.T, r *rig) { answer(t, r, first) },
		"cancelled": func(t *testing.T, r *rig) {
			must(t, r.rn.CancelSession(t.Context(), first, "ada", ""))
		},
		"deleted": func(t *testing.T, r *rig) {
			must(t, r.rn.Delete(t.Context(), first, "ada"))
		},
		"followed by another one": func(t *testing.T, r *rig) {
			_, err := r.rn.Send(t.Context(), "ada", first, llm.UserText("And more."), nil)
			must(t, err)
			answer(t, r, first)
			synctest.Wait()
			answer(t, r, first)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.holds()
				s := nightly()
				s.Until = at("2000-01-02T12:00:00Z") // so that no later time has it look
				must(t, r.Create(t.Context(), s))
				r.works()
				time.Sleep(3 * time.Hour)
				answer(t, r, first)
				synctest.Wait()
				_, err := r.rn.Send(t.Context(), "ada", first, llm.UserText("More."), nil)
				must(t, err)
				time.Sleep(24 * time.Hour)
				if is := r.stands("nightly"); is.Fired != 1 || len(is.Due) != 1 {
					t.Errorf("it stands so: %+v", is)
				}
				r.restart(time.Hour)
				end(t, r)
				time.Sleep(time.Minute)
				if is := r.stands("nightly"); is.Fired != 2 || !is.Over || is.Last.ID != second {
					t.Errorf("it stands so: %+v", is)
				}
			})
		})
	}
}
