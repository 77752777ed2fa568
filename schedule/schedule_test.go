package schedule_test

import (
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/schedule"
)

func TestACronScheduleBeginsASessionEachTime(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		must(t, r.Create(t.Context(), nightly()))
		must(t, r.Create(t.Context(), nightly())) // it is safe to repeat
		r.works()
		time.Sleep(2*time.Hour + 30*time.Minute - time.Second)
		r.has()
		time.Sleep(2 * time.Second)
		r.has("nightly@2000-01-01T02:30:00Z")
		time.Sleep(48 * time.Hour)
		r.has("nightly@2000-01-01T02:30:00Z", "nightly@2000-01-02T02:30:00Z",
			"nightly@2000-01-03T02:30:00Z")
		is := r.stands("nightly")
		if is.Fired != 3 || !is.Next.Equal(at("2000-01-04T02:30:00Z")) ||
			is.Last.Session != "nightly@2000-01-03T02:30:00Z" {
			t.Errorf("it stands so: %+v, last %+v", is, is.Last)
		}
	})
}

func TestAMessageComesOnceAtItsTime(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.works()
		s := nightly()
		s.Cron, s.At, s.Do.Session = "", at("2000-01-01T12:00:00.2Z"), "chat-1"
		must(t, r.Create(t.Context(), s))
		time.Sleep(12 * time.Hour)
		r.has()
		time.Sleep(2 * time.Second)
		r.has("chat-1")
		time.Sleep(100 * time.Hour)
		if said := r.said("chat-1"); len(said) != 1 {
			t.Errorf("the session was told %q", said)
		}
		if is := r.stands("nightly"); !is.Over || is.Fired != 1 ||
			is.Last.ID != schedule.FiringID("nightly", s.At) {
			t.Errorf("it stands so: %+v, last %+v", is, is.Last)
		}
		if err := r.RunNow(t.Context(), "nightly", "ada", nil); !errors.Is(err, schedule.ErrOver) {
			t.Errorf("to run what is over is %v", err)
		}
	})
}

func TestMissedFiringsByPolicy(t *testing.T) {
	for name, test := range map[string]struct {
		missed  schedule.Missed
		want    []string
		skipped int
	}{
		"once": {schedule.MissedOnce, []string{"nightly@2000-01-05T02:30:00Z"}, 0},
		"skip": {schedule.MissedSkip, nil, 1},
		"all": {schedule.MissedAll, []string{"nightly@2000-01-02T02:30:00Z",
			"nightly@2000-01-03T02:30:00Z", "nightly@2000-01-04T02:30:00Z",
			"nightly@2000-01-05T02:30:00Z"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				s := nightly()
				s.Missed = test.missed
				must(t, r.Create(t.Context(), s))
				r.works()
				time.Sleep(24 * time.Hour)
				r.restart(4 * 24 * time.Hour)
				want := append([]string{"nightly@2000-01-01T02:30:00Z"}, test.want...)
				r.has(want...)
				is := r.stands("nightly")
				if is.Skipped != test.skipped || is.Fired != len(want) ||
					!is.Next.Equal(at("2000-01-06T02:30:00Z")) {
					t.Errorf("it stands so: %+v", is)
				}
				time.Sleep(3 * time.Hour)
				r.has(append(want, "nightly@2000-01-06T02:30:00Z")...)
			})
		})
	}
}

// A firing that is late, but within the grace, isn't missed.
func TestALateFiringWithinItsGrace(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := nightly()
		s.Missed, s.Grace = schedule.MissedSkip, time.Hour
		must(t, r.Create(t.Context(), s))
		r.works()
		time.Sleep(2 * time.Hour)
		r.restart(90 * time.Minute)
		r.has("nightly@2000-01-01T02:30:00Z")
	})
}

func TestOverlapByPolicy(t *testing.T) {
	const first, second, third = "nightly@2000-01-01T02:30:00Z", "nightly@2000-01-02T02:30:00Z",
		"nightly@2000-01-03T02:30:00Z"
	for name, test := range map[string]struct {
		overlap schedule.Overlap
		want    []string
		open    int
	}{
		"wait":    {schedule.OverlapWait, []string{first, second}, 1},
		"skip":    {schedule.OverlapSkip, []string{first}, 1},
		"allow":   {schedule.OverlapAllow, []string{first, second, third}, 3},
		"replace": {schedule.OverlapReplace, []string{first, second, third}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.close()
				r.clerk = held()
				r.open()
				s := nightly()
				s.Overlap = test.overlap
				must(t, r.Create(t.Context(), s))
				r.works()
				time.Sleep(72 * time.Hour)
				if test.overlap == schedule.OverlapWait {
					r.has(first)
					if is := r.stands("nightly"); len(is.Due) != 1 || is.Skipped != 1 {
						t.Errorf("it stands so: %+v", is)
					}
					answer(t, r, first)
				}
				r.has(test.want...)
				open := 0
				for _, id := range test.want {
					s, err := r.rn.Show(t.Context(), id, "test")
					must(t, err)
					open += len(s.Pending)
				}
				if open != test.open {
					t.Errorf("%d of the runs go on; want %d", open, test.open)
				}
			})
		})
	}
}

// answer answers what the run of a held session waits for.
func answer(t *testing.T, r *rig, id string) {
	t.Helper()
	shown, err := r.rn.Show(t.Context(), id, "test")
	must(t, err)
	_, err = r.rn.Resume(t.Context(), id,
		runner.Complete(shown.Pending[0].ID, "test", json.RawMessage(`"ok"`)))
	must(t, err)
}

func TestPauseAndResume(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		must(t, r.Create(t.Context(), nightly()))
		must(t, r.Pause(t.Context(), "nightly", "ada")) // before any worker has seen it
		r.works()
		time.Sleep(30 * time.Hour)
		r.has()
		if is := r.stands("nightly"); !is.Paused {
			t.Errorf("it stands so: %+v", is)
		}
		must(t, r.RunNow(t.Context(), "nightly", "ada", &schedule.RunOptions{Once: "a"}))
		must(t, r.RunNow(t.Context(), "nightly", "ada", &schedule.RunOptions{Once: "a"}))
		r.has("nightly@run-a")
		must(t, r.Resume(t.Context(), "nightly", "ada"))
		time.Sleep(time.Hour)
		r.has("nightly@run-a")
		time.Sleep(24 * time.Hour)
		r.has("nightly@2000-01-03T02:30:00Z", "nightly@run-a")
	})
}

func TestChangeAndDelete(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		must(t, r.Create(t.Context(), nightly()))
		r.works()
		time.Sleep(time.Hour)
		other := nightly()
		other.Cron, other.Do.Message = "0 12 * * *", llm.UserText("At noon.")
		if err := r.Create(t.Context(), other); !errors.Is(err, schedule.ErrExists) {
			t.Errorf("to create another one of the ID is %v", err)
		}
		must(t, r.Change(t.Context(), other, "ada"))
		if is := r.stands("nightly"); is.Schedule.Cron != other.Cron {
			t.Errorf("it stands so: %+v", is)
		}
		time.Sleep(24 * time.Hour)
		r.has("nightly@2000-01-01T12:00:00Z")
		if said := r.said("nightly@2000-01-01T12:00:00Z"); len(said) != 1 || said[0] != "At noon." {
			t.Errorf("the session was told %q", said)
		}
		must(t, r.Delete(t.Context(), "nightly", "ada"))
		time.Sleep(24 * time.Hour)
		r.has("nightly@2000-01-01T12:00:00Z")
		if _, err := r.Show(t.Context(), "nightly", "ada"); !errors.Is(err, schedule.ErrUnknown) {
			t.Errorf("to show what was deleted is %v", err)
		}
	})
}

func TestList(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for _, id := range []string{"c", "a", "b", "d"} {
			s := nightly()
			if s.ID = id; id == "d" {
				s.User = "bob"
			}
			must(t, r.Create(t.Context(), s))
		}
		_, err := r.rn.Send(t.Context(), "ada", "zzz", llm.UserText("Hello."), nil)
		must(t, err)
		list := func(f schedule.Filter) (ids string) {
			for is, err := range r.List(t.Context(), f, "ada") {
				must(t, err)
				if is.Next.IsZero() {
					t.Errorf("of %s it isn't known when it fires next", is.Schedule.ID)
				}
				ids += is.Schedule.ID
			}
			return ids
		}
		for _, worked := range []bool{false, true} {
			if worked {
				r.works()
				synctest.Wait()
			}
			if got := list(schedule.Filter{User: "ada"}); got != "abc" {
				t.Errorf("Ada's schedules are %q", got)
			}
			if got := list(schedule.Filter{Limit: 2}) + "|" +
				list(schedule.Filter{After: "b"}); got != "ab|cd" {
				t.Errorf("the pages are %q", got)
			}
		}
	})
}
