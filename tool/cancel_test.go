package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/internal/toolbox"
	"github.com/fermata-ai/fermata/tool"
)

// stops is a tool that can call off what it has begun.
type stops struct{ spec tool.Spec }

func (s stops) Spec() tool.Spec { return s.spec }

func (s stops) Execute(context.Context, tool.Call) (tool.Execution, error) {
	return tool.Execution{}, nil
}

func stopping(c tool.Cancel, change func(*tool.Spec)) stops {
	s := stops{tool.Spec{Name: "build", MayPause: true, Cancel: c}}
	if change != nil {
		change(&s.spec)
	}
	return s
}

// TestCancelThatMakesNoSense is refused when the tool is taken.
func TestCancelThatMakesNoSense(t *testing.T) {
	do := func(context.Context, tool.Cancelled) error { return nil }
	none := func(s *tool.Spec) { s.MayPause = false }
	for name, test := range map[string]struct {
		tool stops
		want string // empty: it is taken
	}{
		"none": {stopping(tool.Cancel{}, none), ""},
		"one":  {stopping(tool.Cancel{Do: do, Tries: 3}, nil), ""},
		"of an operator's": {stopping(tool.Cancel{Do: do}, func(s *tool.Spec) {
			s.MayPause, s.AskOperator = false, true
		}), ""},
		"it never waits": {stopping(tool.Cancel{Do: do}, none), "never waits"},
		"nothing to do":  {stopping(tool.Cancel{Tries: 1}, nil), "nothing to do"},
		"negative tries": {stopping(tool.Cancel{Do: do, Tries: -1}, nil), "negative"},
		"negative time":  {stopping(tool.Cancel{Do: do, Timeout: -1}, nil), "negative"},
		"negative wait":  {stopping(tool.Cancel{Do: do, Wait: -1}, nil), "negative"},
	} {
		_, err := tool.NewRegistry([]tool.Tool{test.tool}, nil)
		if (err == nil) != (test.want == "") ||
			err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWaitsBetweenTriesGrow, to a bound, and the tries come to an end.
func TestWaitsBetweenTriesGrow(t *testing.T) {
	var all time.Duration
	last := time.Duration(0)
	for try := 1; ; try++ {
		wait, again := tool.Cancel{}.After(try)
		if wait < last || wait > 12*time.Hour || try == 1 && wait != 10*time.Second {
			t.Errorf("after try %d it waits %v", try, wait)
		}
		if !again {
			if try != 12 || all < 24*time.Hour {
				t.Errorf("it is given up after %d tries and %v", try, all)
			}
			break
		}
		last, all = wait, all+wait
	}
	own := tool.Cancel{Tries: 2, Wait: time.Minute, Timeout: time.Second}
	if wait, again := own.After(1); wait != time.Minute || !again || own.Bound() != time.Second {
		t.Errorf("its own bounds are %v, %v, %v", wait, again, own.Bound())
	}
	if _, again := own.After(2); again {
		t.Error("it is tried more often than it says")
	}
	if wait, _ := (tool.Cancel{Wait: 24 * time.Hour}).After(1); wait != 12*time.Hour {
		t.Errorf("the longest wait is %v", wait)
	}
}

// tries makes one try of a tool's Cancel.
func tries(t *testing.T, ctx context.Context, c tool.Cancel, in tool.Cancelled) error {
	t.Helper()
	reg, err := tool.NewRegistry([]tool.Tool{stopping(c, nil)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return toolbox.Open(reg).Cancel(ctx, "build", in, nil)
}

// TestCancelThatGoesWrong: errors, panics and a goroutine's end are failures,
// and so is a try that takes too long, or longer than its context.
func TestCancelThatGoesWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		no := errors.New("no")
		var panicked *tool.PanicError
		ctx := t.Context()
		if err := tries(t, ctx, tool.Cancel{Do: func(context.Context, tool.Cancelled) error {
			return no
		}}, tool.Cancelled{}); !errors.Is(err, no) {
			t.Errorf("an error is %v", err)
		}
		if err := tries(t, ctx, tool.Cancel{Do: func(context.Context, tool.Cancelled) error {
			panic("no")
		}}, tool.Cancelled{}); !errors.As(err, &panicked) {
			t.Errorf("a panic is %v", err)
		}
		over := make(chan struct{})
		hangs := tool.Cancel{Do: func(context.Context, tool.Cancelled) error {
			<-over
			return nil
		}}
		if err := tries(t, ctx, hangs, tool.Cancelled{}); !errors.Is(err, tool.ErrTimeout) {
			t.Errorf("a try that takes too long is %v", err)
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if err := tries(t, ended, hangs, tool.Cancelled{}); !errors.Is(err, context.Canceled) {
			t.Errorf("a try whose context has ended is %v", err)
		}
		close(over)
	})
}

// TestWhatCancelIsTold is its own, and of a question its state.
func TestWhatCancelIsTold(t *testing.T) {
	type state struct{ Room int }
	q := tool.NewQuestion[string, state, int]("room")
	args := json.RawMessage(`{"a":1}`)
	err := tries(t, t.Context(), tool.Cancel{
		Do: func(_ context.Context, c tool.Cancelled) error {
			c.Call.Arguments[0] = 'x'
			kept, err := q.Kept(c)
			if err != nil || kept.Room != 7 {
				t.Errorf("the state is %+v, %v", kept, err)
			}
			c.Question = "other"
			if _, err := q.Kept(c); err == nil {
				t.Error("the state is that of another question")
			}
			return nil
		}}, tool.Cancelled{Call: tool.Call{ID: "c", Arguments: args}, Question: "room",
		Data: json.RawMessage(`{"Room":7}`)})
	if err != nil || string(args) != `{"a":1}` {
		t.Errorf("it is told %s, %v", args, err)
	}
}
