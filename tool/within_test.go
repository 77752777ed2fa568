package tool

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestWithinBoundsWhatWaits(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	limit := TimeLimit{Deadline: at, OnTimeout: ReenterOnTimeout}
	for name, r := range map[string]Result[string]{
		"a question":    NeedInput[string]("?"),
		"a job":         Pending[string](Await{Timeout: time.Hour}),
		"with pictures": With(Pending[string](Await{})),
		"bounded twice": Within(Pending[string](Await{}), TimeLimit{Timeout: time.Hour}),
	} {
		exec, err := execution(Within(r, limit), nil)
		if a := exec.Await; err != nil || a == nil || a.Timeout != 0 || !a.Deadline.Equal(at) ||
			a.OnTimeout != ReenterOnTimeout {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
	if exec, err := execution(Within(Done("x"), limit), nil); err == nil {
		t.Errorf("what doesn't wait is bounded: %s", exec.Output)
	}
	if Within[string](nil, limit) != nil {
		t.Error("no result became one")
	}
	twice := TimeLimit{Timeout: time.Hour, Deadline: at}
	made := Must(Func(Spec{Name: "t", MayPause: true},
		func(context.Context, struct{}) (Result[string], error) {
			return Within(NeedInput[string]("?"), twice), nil
		}))
	if _, err := Run(t.Context(), made, raw("{}"), nil); !errors.Is(err, ErrInvalidAwait) {
		t.Errorf("two bounds are told %v", err)
	}
}
