package schedule_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/schedule"
	"github.com/fermata-ai/fermata/session"
)

// sends sends the session of a schedule the message that Calendar.Create would,
// without its checks.
func sends(t *testing.T, r *rig, user, session string, s schedule.Schedule) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"schedule": s, "state": struct{}{}})
	must(t, err)
	_, err = r.rn.Send(t.Context(), user, session, llm.UserText(string(text)), &runner.SendOptions{
		Agent: schedule.AgentName, MessageID: "create", Hidden: true})
	must(t, err)
}

// A machine may not know the zone of a schedule that another one has taken. It
// waits then, and fires once its times are known.
func TestAZoneThatIsUnknownHere(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var log bytes.Buffer
		must(t, r.rn.Close())
		r.log = slog.New(slog.NewTextHandler(&log, nil))
		r.open()
		s := nightly()
		s.Zone = "Mars/Olympus"
		sends(t, r, "ada", schedule.SessionID(s.ID), s)
		r.works()
		time.Sleep(time.Hour)
		if is := r.stands(s.ID); is.Over || is.Fired != 0 {
			t.Errorf("it stands so: %+v", is)
		}
		s.Zone = "Europe/Berlin"
		must(t, r.Change(t.Context(), s, "ada"))
		time.Sleep(24 * time.Hour)
		r.has("nightly@2000-01-01T01:30:00Z")
		r.rest()
		if !bytes.Contains(log.Bytes(), []byte("Mars/Olympus")) {
			t.Error("nothing is logged")
		}
	})
}

// A user who may send to the schedules' agent, or deliver to their own schedule,
// can't make it work in another user's sessions.
func TestASchedulesUserIsItsSessions(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		victim := nightly()
		victim.Do.Session = "diary"
		sends(t, r, "mallory", schedule.SessionID(victim.ID), victim)

		namesake := nightly() // its firings would have the names of another one's
		namesake.User = "mallory"
		sends(t, r, "mallory", "a session", namesake)

		own := nightly()
		own.ID, own.User = "own", "mallory"
		must(t, r.Create(t.Context(), own))
		r.works()
		forged := victim
		forged.ID = "own"
		deliverChange(t, r, "own", forged)
		time.Sleep(48 * time.Hour)
		r.has("own@2000-01-01T02:30:00Z", "own@2000-01-02T02:30:00Z")
		for _, id := range r.sessions() {
			info, err := r.rn.Session(t.Context(), id, "test")
			must(t, err)
			if info.User != "mallory" {
				t.Errorf("%s is of %q", id, info.User)
			}
		}
	})
}

// deliverChange delivers a change to the call of a schedule, without the checks
// of Calendar.Change.
func deliverChange(t *testing.T, r *rig, id string, to schedule.Schedule) {
	t.Helper()
	synctest.Wait()
	payload, err := json.Marshal(map[string]any{"schedule": to})
	must(t, err)
	for p, err := range r.rn.Pending(t.Context(), session.PauseFilter{}, "test") {
		must(t, err)
		if p.Session == schedule.SessionID(id) {
			_, err := r.rn.Deliver(t.Context(), p.Session, runner.Mail{Call: p.Call, Name: "change",
				ID: fmt.Sprint("forged ", id), Payload: payload, Actor: "mallory"})
			must(t, err)
			return
		}
	}
	t.Fatal("the schedule has no call")
}
