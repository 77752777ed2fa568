package tool

import (
	"context"
	"errors"
	"time"
)

// TimeLimit is how long a pause may last, and what comes then: see the fields
// of [Await].
type TimeLimit struct {
	Timeout   time.Duration
	Deadline  time.Time
	OnTimeout OnTimeout
}

// Within bounds the wait of a result that pauses, in place of what bounds it
// already. Of any other result it makes an error.
//
//	day := tool.TimeLimit{Timeout: 24 * time.Hour}
//	return tool.Within(tool.NeedInput[Seat]("Which seat?"), day), nil
//
// Without an OnTimeout, the call expires when the time is over, and the model
// reads so. With ReenterOnTimeout, the tool is entered again: a Resumable's
// step has Reply.TimedOut then, and for any other function [TimedOut] reports
// it.
func Within[Out any](r Result[Out], t TimeLimit) Result[Out] {
	if r == nil {
		return nil
	}
	return &within[Out]{r, t}
}

type within[Out any] struct {
	result Result[Out]
	limit  TimeLimit
}

func (w *within[Out]) outcome(zero Out) (Execution, error) {
	exec, err := w.result.outcome(zero)
	switch {
	case err != nil:
		return exec, err
	case exec.Await == nil:
		return Execution{}, errors.New("the tool bounds the wait of a result that doesn't wait")
	}
	a := exec.Await
	a.Timeout, a.Deadline, a.OnTimeout = w.limit.Timeout, w.limit.Deadline, w.limit.OnTimeout
	return exec, nil
}

// TimedOut reports whether the tool whose function has ctx is entered again
// since no answer came in time: see [ReenterOnTimeout].
func TimedOut(ctx context.Context) bool {
	c, ok := ctx.Value(callKey{}).(*Call)
	return ok && c.Answer != nil && c.Answer.TimedOut
}
