package schedule_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/schedule"
)

// An equal change is none, as a program makes it at each start. One that leaves
// the times as they are takes none away.
func TestAChangeThatLeavesTheTimes(t *testing.T) {
	for name, text := range map[string]string{"equal": "Report.", "another message": "Other."} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				s := nightly()
				s.Cron = "@every 24h"
				must(t, r.Create(t.Context(), s))
				r.works()
				s.Do.Message = llm.UserText(text)
				for range 5 {
					time.Sleep(20 * time.Hour)
					must(t, r.Change(t.Context(), s, "ada"))
				}
				r.has("nightly@2000-01-02T00:00:00Z", "nightly@2000-01-03T00:00:00Z",
					"nightly@2000-01-04T00:00:00Z", "nightly@2000-01-05T00:00:00Z")
			})
		})
	}
}

// What is to happen once, and waits for the run before, isn't due again by a
// change, of which the second one takes the first back.
func TestAChangeOfWhatWaitsToHappenOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.holds()
		s := nightly()
		s.Cron, s.At, s.Missed = "", at("2000-01-01T02:30:00Z"), schedule.MissedAll
		must(t, r.Create(t.Context(), s))
		r.works()
		must(t, r.RunNow(t.Context(), "nightly", "ada", &schedule.RunOptions{Once: "x"}))
		time.Sleep(3 * time.Hour)
		must(t, r.Change(t.Context(), s, "ada"))
		other := s
		other.At = at("2000-02-01T00:00:00Z")
		must(t, r.Change(t.Context(), other, "ada"))
		must(t, r.Change(t.Context(), s, "ada"))
		if is := r.stands("nightly"); len(is.Due) != 1 {
			t.Errorf("it stands so: %+v", is)
		}
		answer(t, r, "nightly@run-x")
		time.Sleep(time.Hour)
		answer(t, r, "nightly@2000-01-01T02:30:00Z")
		if is := r.stands("nightly"); is.Fired != 2 || is.Skipped != 0 || !is.Over {
			t.Errorf("it stands so: %+v", is)
		}
	})
}

// To resume what isn't paused leaves out nothing.
func TestResumeOfWhatIsNotPaused(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := nightly()
		s.Cron = "@every 24h"
		must(t, r.Create(t.Context(), s))
		r.works()
		time.Sleep(20 * time.Hour)
		must(t, r.Resume(t.Context(), "nightly", "ada"))
		time.Sleep(5 * time.Hour)
		r.has("nightly@2000-01-02T00:00:00Z")
	})
}

// A run by hand of an id counts once, also when the call that took it has been
// followed by others.
func TestARunByHandCountsOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := nightly()
		s.Overlap = schedule.OverlapAllow
		must(t, r.Create(t.Context(), s))
		r.works()
		const runs = 70 // more events than one call takes
		for range 2 {
			for i := range runs {
				must(t, r.RunNow(t.Context(), "nightly", "ada", &schedule.RunOptions{Once: fmt.Sprint("r", i)}))
			}
			time.Sleep(time.Minute)
			is := r.stands("nightly")
			if is.Fired != runs || is.Last.ID != fmt.Sprint("nightly@run-r", runs-1) {
				t.Errorf("it stands so: %+v, last %+v", is, is.Last)
			}
		}
	})
}

func TestTimesThatAreRefused(t *testing.T) {
	for _, c := range []string{"@every -5m", "@every 1ms", "@every 0s", "@every 1500ms", "@every x"} {
		s := nightly()
		if s.Cron = c; !errors.Is(s.Check(), schedule.ErrInvalid) {
			t.Errorf("%q is %v", c, s.Check())
		}
	}
	s := nightly()
	s.Cron = "@every 1s"
	must(t, s.Check())
	s.Cron, s.At = "", at("9999-12-31T23:59:59Z")
	must(t, s.Check())
	for _, text := range []string{"9999-12-31T23:59:59.5Z", "9999-12-31T23:30:00-01:00"} {
		if s.At = at(text); !errors.Is(s.Check(), schedule.ErrInvalid) {
			t.Errorf("at %s is %v", text, s.Check())
		}
	}
}
