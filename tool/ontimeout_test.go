package tool_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/tool"
)

// How long a pause may last is said once, in a form that can be stored; and
// what comes then only where there is an end.
func TestHowLongAPauseMayLast(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	west := time.FixedZone("west", -3600)
	last := time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC)
	inWest := time.Date(9999, 12, 31, 23, 30, 0, 0, west)
	const hour, reenter, timer = time.Hour, tool.ReenterOnTimeout, tool.ReasonTimer
	for name, c := range map[string]struct {
		await tool.Await
		ok    bool
	}{
		"for ever":                 {tool.Await{}, true},
		"a timeout":                {tool.Await{Timeout: hour}, true},
		"a deadline":               {tool.Await{Deadline: at}, true},
		"a timer's deadline":       {tool.Await{Reason: timer, Deadline: at}, true},
		"a layer's deadline":       {tool.Await{Gate: "g", Deadline: at}, true},
		"both":                     {tool.Await{Timeout: hour, Deadline: at}, false},
		"both, of a timer":         {tool.Await{Reason: timer, Timeout: -1, Deadline: at}, false},
		"a negative timeout":       {tool.Await{Timeout: -1}, false},
		"the last year":            {tool.Await{Deadline: last}, true},
		"a year too late":          {tool.Await{Deadline: last.Add(hour)}, false},
		"a year too late, in UTC":  {tool.Await{Deadline: inWest}, false},
		"told of a timeout":        {tool.Await{Timeout: hour, OnTimeout: reenter}, true},
		"told of a deadline":       {tool.Await{Deadline: at, OnTimeout: reenter}, true},
		"told of no end":           {tool.Await{OnTimeout: reenter}, false},
		"told in words of its own": {tool.Await{Timeout: hour, OnTimeout: "retry"}, false},
		"a layer that is told":     {tool.Await{Gate: "g", Timeout: hour, OnTimeout: reenter}, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.await.Normalize()
			if (err == nil) != c.ok || err != nil && !errors.Is(err, tool.ErrInvalidAwait) {
				t.Errorf("it is told %v", err)
			}
		})
	}
	// Of which reasons a tool is told that no answer came.
	for reason, modes := range modesOf {
		told := reason == tool.ReasonExternal || reason == tool.ReasonInput ||
			reason == tool.ReasonAgent || reason == tool.ReasonAssistant ||
			reason == tool.ReasonHandles
		for _, mode := range modes {
			a := tool.Await{Reason: reason, Mode: mode, Timeout: hour, OnTimeout: reenter}
			if reason == tool.ReasonHandles {
				a.Handles = &tool.HandleWait{Any: []string{"build"}}
			}
			_, err := a.Normalize()
			if (err == nil) != told {
				t.Errorf("reason %q, mode %q: %v", reason, mode, err)
			}
		}
	}
}
