package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/tool"
)

// The wait for the next try has a time, and takes nothing.
func TestARetryHasATimeAndTakesNoAnswer(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		await tool.Await
		ok    bool
	}{
		"a length":    {tool.Await{Timeout: time.Hour}, true},
		"a time":      {tool.Await{Deadline: at, Prompt: "down", Data: json.RawMessage("1")}, true},
		"no time":     {tool.Await{}, false},
		"in the past": {tool.Await{Timeout: -1}, false},
		"a key":       {tool.Await{Timeout: time.Hour, Key: "job"}, false},
		"a schema":    {tool.Await{Timeout: time.Hour, Schema: json.RawMessage("{}")}, false},
		"a sender":    {tool.Await{Timeout: time.Hour, Sender: "ci"}, false},
		"an output":   {tool.Await{Timeout: time.Hour, Mode: tool.ModeOutput}, false},
		"a layer's":   {tool.Await{Timeout: time.Hour, Gate: "review"}, false},
		"silence":     {tool.Await{Timeout: time.Hour, OnTimeout: tool.ReenterOnTimeout}, false},
		"events": {tool.Await{Timeout: time.Hour,
			Mail: &tool.MailWait{Names: []string{"x"}}}, false},
	} {
		test.await.Reason = tool.ReasonRetry
		if _, err := test.await.Normalize(); (err == nil) != test.ok ||
			err != nil && !errors.Is(err, tool.ErrInvalidAwait) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A step of a Resumable may ask to be tried again with the answer that it has.
func TestAStepIsTriedAgain(t *testing.T) {
	which := tool.NewQuestion[string, int, string]("which")
	tl := tool.Must(tool.Resumable(tool.Spec{Name: "f"},
		func(context.Context, struct{}) (tool.Result[string], error) {
			return which.Ask("Which?", 1), nil
		},
		tool.On(which, func(ctx context.Context, _ struct{},
			re tool.Reply[int, string]) (tool.Result[string], error) {
			if tool.CallFrom(ctx).Tried.Count == 0 {
				return tool.Pending[string](tool.Await{Reason: tool.ReasonRetry,
					Timeout: time.Minute}), nil
			}
			return tool.Done(re.Answer), nil
		})))
	args := json.RawMessage(`{}`)
	asked, err := tool.Run(t.Context(), tl, args, nil)
	if err != nil {
		t.Fatal(err)
	}
	call := tool.Call{Answer: asked.Await.Answered([]byte(`"red"`))}
	exec, err := tool.Run(t.Context(), tl, args, &call)
	if err != nil || exec.Await.Reason != tool.ReasonRetry {
		t.Fatalf("it came to %+v, %v", exec, err)
	}
	call.Tried.Count = 1
	if exec, err = tool.Run(t.Context(), tl, args, &call); string(exec.Output) != `"red"` {
		t.Errorf("it came to %+v, %v", exec, err)
	}
}
