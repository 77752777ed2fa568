package schedule_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/schedule"
	"github.com/fermata-ai/fermata/session"
)

// A program puts its schedules at each start: what is equal stays, what is
// another one is changed, and what was deleted stays so.
func TestPutAtEachStart(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		first := nightly()
		for range 3 {
			must(t, r.Put(t.Context(), first, "ada"))
			r.restart(24 * time.Hour)
		}
		if is := r.stands("nightly"); is.Fired != 3 {
			t.Errorf("in three nights it stands so: %+v", is)
		}
		other := nightly()
		other.Cron = "0 12 * * *"
		for range 2 {
			must(t, r.Put(t.Context(), other, "ada"))
			r.restart(24 * time.Hour)
		}
		is := r.stands("nightly")
		if is.Schedule.Cron != other.Cron || is.Fired != 5 {
			t.Errorf("it stands so: %+v", is)
		}
		for name, s := range map[string]schedule.Schedule{"as it is": other, "as it was": first} {
			if err := r.Create(t.Context(), s); err != nil {
				t.Errorf("to create it %s is %v", name, err)
			}
		}
		if is := r.stands("nightly"); is.Schedule.Cron != other.Cron {
			t.Errorf("it stands so: %+v", is)
		}
		third := nightly()
		third.Cron = "0 18 * * *"
		if err := r.Create(t.Context(), third); !errors.Is(err, schedule.ErrExists) {
			t.Errorf("to create another one of the ID is %v", err)
		}
		bobs := nightly()
		bobs.User = "bob"
		if err := r.Put(t.Context(), bobs, "bob"); !errors.Is(err, schedule.ErrExists) ||
			!errors.Is(err, session.ErrWrongUser) {
			t.Errorf("to put it as another user is %v", err)
		}
		must(t, r.Delete(t.Context(), "nightly", "ada"))
		for range 2 {
			err := r.Put(t.Context(), other, "ada")
			if !errors.Is(err, schedule.ErrDeleted) || !errors.Is(err, session.ErrDeleted) {
				t.Errorf("to put what was deleted is %v", err)
			}
			r.restart(24 * time.Hour)
		}
	})
}

// What fires once, and is over, is left so by a program that starts again.
func TestPutOfWhatIsOver(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := nightly()
		s.Cron, s.Zone, s.At = "", "", time.Now().Add(time.Hour)
		for range 3 {
			must(t, r.Put(t.Context(), s, "ada"))
			r.restart(2 * time.Hour)
		}
		if is := r.stands("nightly"); is.Fired != 1 || !is.Over {
			t.Errorf("it stands so: %+v", is)
		}
		s.At = s.At.Add(24 * time.Hour)
		for name, err := range map[string]error{
			"put":    r.Put(t.Context(), s, "ada"),
			"change": r.Change(t.Context(), s, "ada"),
			"run":    r.RunNow(t.Context(), "nightly", "ada", nil),
			"pause":  r.Pause(t.Context(), "nightly", "ada"),
			"resume": r.Resume(t.Context(), "nightly", "ada"),
		} {
			if !errors.Is(err, schedule.ErrOver) || errors.Is(err, schedule.ErrUnknown) {
				t.Errorf("to %s what is over is %v", name, err)
			}
		}
	})
}

// A new schedule that would be over at once is refused. One that has come to its
// Until is put at each start of its program as before, also when it was deleted.
func TestAnUntilThatHasPassed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := nightly()
		for _, until := range []time.Duration{-time.Hour, 0, time.Hour} {
			s.Until = time.Now().Add(until)
			for name, err := range map[string]error{
				"create": r.Create(t.Context(), s), "put": r.Put(t.Context(), s, "ada"),
			} {
				if !errors.Is(err, schedule.ErrInvalid) || !strings.Contains(err.Error(), "Until") {
					t.Errorf("to %s it with an Until in %v is %v", name, until, err)
				}
			}
		}
		s.Until = time.Now().Add(3 * time.Hour)
		for range 2 {
			must(t, r.Put(t.Context(), s, "ada"))
			r.restart(24 * time.Hour)
		}
		if is := r.stands("nightly"); is.Fired != 1 || !is.Over {
			t.Errorf("it stands so: %+v", is)
		}
		must(t, r.Delete(t.Context(), "nightly", "ada"))
		if err := r.Put(t.Context(), s, "ada"); !errors.Is(err, schedule.ErrDeleted) {
			t.Errorf("to put what was deleted is %v", err)
		}
	})
}

// An agent that the runner doesn't have is refused. If a deploy takes it away,
// that is logged, and shown, until a process has the agent.
func TestAnAgentThatIsNotThere(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := nightly()
		s.Do.Agent = "clrk"
		if err := r.Create(t.Context(), s); !errors.Is(err, schedule.ErrInvalid) ||
			!strings.Contains(err.Error(), `did you mean "clerk"?`) {
			t.Errorf("to create it is %v", err)
		}
		if err := r.Put(t.Context(), s, "ada"); !errors.Is(err, schedule.ErrInvalid) {
			t.Errorf("to put it is %v", err)
		}
		must(t, r.Create(t.Context(), nightly()))
		if err := r.Change(t.Context(), s, "ada"); !errors.Is(err, schedule.ErrInvalid) {
			t.Errorf("to change it is %v", err)
		}
		clrk, err := agent.New(agent.Config{Name: "clrk", Model: r.clerk.Model})
		must(t, err)
		r.others = []*agent.Agent{clrk}
		r.restart(0)
		s.ID, s.Cron = "far", "0 * * * *"
		must(t, r.Create(t.Context(), s))
		r.others = nil // a deploy takes the agent away
		var log bytes.Buffer
		r.log = slog.New(slog.NewTextHandler(&log, nil))
		r.restart(0)
		time.Sleep(time.Hour + 50*time.Minute)
		is := r.stands("far")
		if len(is.Due) != 1 || !strings.Contains(is.Due[0].Error, `"clrk"`) || is.Fired != 0 {
			t.Errorf("it stands so: %+v", is)
		}
		r.others = []*agent.Agent{clrk}
		r.restart(0)
		time.Sleep(time.Minute)
		if is := r.stands("far"); is.Fired != 1 || is.Failed != 0 || len(is.Due) != 0 ||
			is.Last.Error != "" {
			t.Errorf("it stands so: %+v, last %+v", is, is.Last)
		}
		if text := log.String(); !strings.Contains(text, "tries again") ||
			!strings.Contains(text, "schedule=far") {
			t.Errorf("the log has %s", text)
		}
	})
}

// A runner without the agent of the package tells what it needs.
func TestARunnerWithoutTheAgent(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		must(t, r.Create(t.Context(), nightly()))
		r.close()
		r.alone = true
		r.open()
		other := nightly()
		other.ID = "other"
		for name, err := range map[string]error{
			"create": r.Create(t.Context(), other), "put": r.Put(t.Context(), other, "ada"),
			"pause": r.Pause(t.Context(), "nightly", "ada"), // which no worker has come to
		} {
			if !errors.Is(err, runner.ErrUnknownAgent) ||
				!strings.Contains(err.Error(), "add schedule.Agent() to runner.Options.Agents") {
				t.Errorf("to %s one is %v", name, err)
			}
		}
	})
}

// A schedule is none of its user's conversations, and takes no message.
func TestASchedulesSessionIsHidden(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		must(t, r.Create(t.Context(), nightly()))
		r.works()
		time.Sleep(24 * time.Hour)
		const fired = "nightly@2000-01-01T02:30:00Z"
		for name, of := range map[string]struct {
			filter session.Filter
			want   string
		}{
			"of the user":      {session.Filter{User: "ada"}, fired},
			"all":              {session.Filter{User: "ada", Hidden: true}, fired + " schedule:nightly"},
			"of the schedules": {session.Filter{Agent: schedule.AgentName}, "schedule:nightly"},
			"the first":        {session.Filter{Limit: 1}, fired},
		} {
			var ids []string
			for s, err := range r.rn.Sessions(t.Context(), of.filter, "ada") {
				must(t, err)
				ids = append(ids, s.ID)
			}
			if got := strings.Join(ids, " "); got != of.want {
				t.Errorf("%s: %s", name, got)
			}
		}
		_, err := r.rn.Send(t.Context(), "ada", schedule.SessionID("nightly"), llm.UserText("Hi."), nil)
		if !errors.Is(err, session.ErrInvalidMessage) {
			t.Errorf("a message is %v", err)
		}
	})
}

func TestTheNextTime(t *testing.T) {
	s := nightly()
	s.Do = schedule.Target{} // that doesn't matter
	at, err := s.Next(time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC))
	if want := time.Date(2026, 3, 29, 2, 30, 0, 0, time.UTC); err != nil || !at.Equal(want) {
		t.Errorf("it is %v, %v", at, err)
	}
	s.Cron = "30 2 30 2 *"
	if _, err := s.Next(at); !errors.Is(err, schedule.ErrInvalid) {
		t.Errorf("of what is no schedule it is %v", err)
	}
}
