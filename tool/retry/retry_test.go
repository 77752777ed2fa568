package retry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/retry"
)

// fails is a tool whose function returns the error.
func fails(effect tool.Effect, err error) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: "fetch", Effect: effect},
		func(context.Context, struct{}) (tool.Result[string], error) { return nil, err }))
}

// tried runs a tool once that has failed so often before.
func tried(t *testing.T, tl tool.Tool, failed tool.Tried) (*tool.Await, error) {
	t.Helper()
	exec, err := tool.Run(t.Context(), tl, json.RawMessage(`{}`), &tool.Call{Tried: failed})
	if err == nil && exec.Await == nil {
		t.Fatalf("it came to %+v", exec)
	}
	return exec.Await, err
}

func count(n int) tool.Tried {
	if n == 0 {
		return tool.Tried{}
	}
	now := time.Now()
	return tool.Tried{Count: n, Since: now.Add(-time.Minute), At: now}
}

var errDown = errors.New("the network is down")

func TestWaitsGrowUntilTheLastTry(t *testing.T) {
	tl := tool.Must(retry.Tool(fails(tool.Idempotent, errDown), &retry.Policy{
		Tries: 7, Initial: time.Second, Multiplier: 3, Max: time.Minute, Jitter: -1}))
	for i, want := range []time.Duration{time.Second, 3 * time.Second, 9 * time.Second,
		27 * time.Second, time.Minute, time.Minute} {
		a, err := tried(t, tl, count(i))
		if err != nil || a.Timeout != want || a.Reason != tool.ReasonRetry {
			t.Fatalf("after try %d: %+v, %v; want a wait of %v", i+1, a, err, want)
		}
		if said := fmt.Sprintf("Try %d of 7 failed", i+1); !strings.Contains(a.Prompt, said) ||
			!strings.Contains(a.Prompt, errDown.Error()) {
			t.Errorf("its prompt is %q", a.Prompt)
		}
	}
	_, err := tried(t, tl, count(6))
	if !errors.Is(err, errDown) || err.Error() != "the network is down (it was tried 7 times)" {
		t.Errorf("after the last try: %v", err)
	}
}

func TestJitterStaysInItsBounds(t *testing.T) {
	tl := tool.Must(retry.Tool(fails(tool.ReadOnly, errDown),
		&retry.Policy{Initial: time.Second, Jitter: .2}))
	least, most := time.Hour, time.Duration(0)
	for range 400 {
		a, err := tried(t, tl, count(2))
		if err != nil {
			t.Fatal(err)
		}
		least, most = min(least, a.Timeout), max(most, a.Timeout)
	}
	if least < 3200*time.Millisecond || most > 4801*time.Millisecond ||
		most-least < 800*time.Millisecond {
		t.Errorf("waits of 4 s, by a fifth longer or shorter, are from %v to %v", least, most)
	}
}

func TestWhichErrorsAreTriedAgain(t *testing.T) {
	asked := &retry.Policy{If: func(err error) bool { return errors.Is(err, errDown) }}
	other := errors.New("no such page")
	for name, test := range map[string]struct {
		effect tool.Effect
		err    error
		policy *retry.Policy
		again  bool
	}{
		"read-only":               {tool.ReadOnly, errDown, nil, true},
		"idempotent":              {tool.Idempotent, errDown, nil, true},
		"once":                    {tool.Once, errDown, nil, false},
		"once, without effect":    {tool.Once, retry.Transient(errDown), nil, true},
		"once, and wrapped":       {tool.Once, fmt.Errorf("fetch: %w", retry.Transient(errDown)), nil, true},
		"once, later":             {tool.Once, retry.After(time.Minute, errDown), nil, true},
		"once, by the policy":     {tool.Once, errDown, asked, true},
		"not by the policy":       {tool.ReadOnly, other, asked, false},
		"marked, not asked about": {tool.ReadOnly, retry.Transient(other), asked, true},
		"permanent":               {tool.ReadOnly, retry.Permanent(errDown), asked, false},
		"permanent after all": {tool.ReadOnly,
			retry.Permanent(retry.Transient(errDown)), nil, false},
		"the run's end":       {tool.ReadOnly, tool.Fatal(errDown), asked, false},
		"a refusal":           {tool.ReadOnly, tool.Denied("no"), nil, false},
		"a transient refusal": {tool.ReadOnly, retry.Transient(tool.Denied("no")), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			tl := tool.Must(retry.Tool(fails(test.effect, test.err), test.policy))
			if !tl.Spec().MayPause {
				t.Error("it doesn't declare that it may pause")
			}
			_, err := tried(t, tl, tool.Tried{})
			if again := err == nil; again != test.again {
				t.Errorf("it is tried again: %v (%v)", again, err)
			}
			if err != nil && !errors.Is(err, errDown) && !errors.Is(err, other) && !tool.IsDenied(err) {
				t.Errorf("its error is %v", err)
			}
		})
	}
}

func TestASuccessAndAPauseAreTheTools(t *testing.T) {
	waits := tool.Must(tool.Func(tool.Spec{Name: "w", MayPause: true, Effect: tool.Idempotent},
		func(ctx context.Context, _ struct{}) (tool.Result[string], error) {
			if tool.CallFrom(ctx).Tried.Count > 0 {
				return tool.Done("done"), nil
			}
			return tool.Pending[string](tool.Await{Key: "job-1"}), nil
		}))
	tl := tool.Must(retry.Tool(waits, nil))
	if a, err := tried(t, tl, tool.Tried{}); err != nil || a.Key != "job-1" ||
		a.Reason != tool.ReasonExternal {
		t.Errorf("its own pause is %+v, %v", a, err)
	}
	exec, err := tool.Run(t.Context(), tl, json.RawMessage(`{}`), &tool.Call{Tried: count(1)})
	if err != nil || string(exec.Output) != `"done"` {
		t.Errorf("it came to %s, %v", exec.Output, err)
	}
	// A mistake in the tool isn't tried again.
	panics := tool.Must(tool.Func(tool.Spec{Name: "p", Effect: tool.ReadOnly},
		func(context.Context, struct{}) (tool.Result[string], error) { panic("ouch") }))
	_, err = tried(t, tool.Must(retry.Tool(panics, nil)), tool.Tried{})
	if _, ok := errors.AsType[*tool.PanicError](err); !ok {
		t.Errorf("a panic comes to %v", err)
	}
}

func TestAServiceNamesTheWait(t *testing.T) {
	tl := tool.Must(retry.Tool(fails(tool.ReadOnly, retry.After(time.Hour, errDown)),
		&retry.Policy{Within: 2 * time.Hour}))
	if a, err := tried(t, tl, tool.Tried{}); err != nil || a.Timeout != time.Hour {
		t.Errorf("it waits %+v, %v", a, err)
	}
	short := tool.Must(retry.Tool(fails(tool.ReadOnly, retry.After(time.Millisecond, errDown)),
		&retry.Policy{Jitter: -1}))
	if a, err := tried(t, short, tool.Tried{}); err != nil || a.Timeout != time.Second {
		t.Errorf("it waits %+v, %v", a, err)
	}
}

// However a policy or a service puts it, a wait is neither nothing nor for ever.
func TestTheLongestWait(t *testing.T) {
	longest := &retry.Policy{Initial: time.Hour, Max: retry.MaxWait, Multiplier: 1e300, Tries: 50}
	for failed, want := range map[int]time.Duration{1: retry.MaxWait, 48: retry.MaxWait} {
		for range 100 {
			a, err := tried(t, tool.Must(retry.Tool(fails(tool.ReadOnly, errDown), longest)), count(failed))
			if err != nil || a.Timeout < want/2 || a.Timeout > want*3/2+1 {
				t.Fatalf("after %d tries it waits %+v, %v", failed+1, a, err)
			}
		}
	}
	never := fails(tool.ReadOnly, retry.After(math.MaxInt64, errDown))
	if a, err := tried(t, tool.Must(retry.Tool(never, nil)), tool.Tried{}); err != nil ||
		a.Timeout != retry.MaxWait {
		t.Errorf("for a service that names no end it waits %+v, %v", a, err)
	}
	bounded := tool.Must(retry.Tool(never, &retry.Policy{Within: 24 * time.Hour}))
	if a, err := tried(t, bounded, tool.Tried{}); err == nil {
		t.Errorf("within a day it waits %+v", a)
	}
}

// Within counts by the times that the call has, and by how long this try took.
func TestNoTryBeginsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := tool.Must(tool.Func(tool.Spec{Name: "slow", Effect: tool.ReadOnly},
			func(context.Context, struct{}) (tool.Result[string], error) {
				time.Sleep(10 * time.Second)
				return nil, errDown
			}))
		tl := tool.Must(retry.Tool(slow,
			&retry.Policy{Initial: 20 * time.Second, Jitter: -1, Multiplier: 1, Within: time.Minute}))
		longAgo := time.Now().AddDate(-1, 0, 0) // the store's clock is another
		for passed, again := range map[time.Duration]bool{30 * time.Second: true,
			31 * time.Second: false} {
			_, err := tried(t, tl, tool.Tried{Count: 1, Since: longAgo, At: longAgo.Add(passed)})
			if (err == nil) != again {
				t.Errorf("%v after the first try: %v", passed, err)
			}
		}
	})
}

func TestATryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := tool.Must(tool.Func(tool.Spec{Name: "hangs", Effect: tool.ReadOnly},
			func(ctx context.Context, _ struct{}) (tool.Result[string], error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}))
		tl := tool.Must(retry.Tool(hangs, &retry.Policy{TryTimeout: time.Minute}))
		began := time.Now()
		if a, err := tried(t, tl, tool.Tried{}); err != nil || a == nil ||
			time.Since(began) != time.Minute {
			t.Errorf("it comes to %v, %v after %v", a, err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := tool.Run(ctx, tl, json.RawMessage(`{}`), nil)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("its caller ended it, and it comes to %v", err)
		}
	})
}

func TestPoliciesThatCannotBe(t *testing.T) {
	for name, p := range map[string]*retry.Policy{
		"too many tries":    {Tries: retry.MaxTries + 1},
		"negative tries":    {Tries: -1},
		"a negative wait":   {Initial: -1},
		"a negative bound":  {Within: -1},
		"a negative time":   {TryTimeout: -1},
		"an early maximum":  {Initial: time.Minute, Max: time.Second},
		"waits that shrink": {Multiplier: .5},
		"no multiplier":     {Multiplier: math.NaN()},
		"too much jitter":   {Jitter: 1},
		"no jitter":         {Jitter: math.NaN()},
		"too long a wait":   {Max: math.MaxInt64},
		"too late a try":    {Initial: retry.MaxWait + 1},
	} {
		if _, err := retry.Tool(fails(tool.ReadOnly, errDown), p); err == nil ||
			!strings.Contains(err.Error(), `"fetch"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := retry.Tool(nil, nil); err == nil {
		t.Error("no tool is taken")
	}
	once := tool.Must(retry.Tool(fails(tool.ReadOnly, errDown), nil))
	if _, err := retry.Tool(once, nil); err == nil {
		t.Error("it is tried again twice over")
	}
	if retry.Permanent(nil) != nil || retry.Transient(nil) != nil || retry.After(1, nil) != nil {
		t.Error("no error is made one")
	}
}
