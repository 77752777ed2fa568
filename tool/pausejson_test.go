package tool_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/tool"
)

// A pause in JSON can be read back, its timeout from its deadline.
func TestPausesAsJSON(t *testing.T) {
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for want, p := range map[string]tool.Pause{
		`{"id":"call_x.2","call":"call_x","session":"chat-1","user":"ada","tool":"refund",` +
			`"number":2,"arguments":{"cents":9007199254740993},` +
			`"await":{"reason":"approval","mode":"reenter","prompt":"Refund?",` +
			`"schema":{"type":"object"},"gate":"approval"},` +
			`"since":"2026-03-01T12:00:00Z","deadline":"2026-03-08T12:00:00Z"}`: {
			ID: "call_x.2", Call: "call_x", Session: "chat-1", User: "ada",
			Tool: "refund", Number: 2,
			Arguments: json.RawMessage(`{"cents":9007199254740993}`), Since: since,
			Deadline: since.Add(tool.DefaultApprovalTimeout),
			Await: tool.Await{
				Reason: tool.ReasonApproval, Mode: tool.ModeReenter, Prompt: "Refund?",
				Schema:  json.RawMessage(`{"type":"object"}`),
				Timeout: tool.DefaultApprovalTimeout, Gate: "approval",
			},
		},
		`{"id":"call_x.1","call":"call_x","session":"chat-1","tool":"deploy","number":1,` +
			`"await":{"reason":"external","mode":"output","key":"job-1","data":[1]},` +
			`"since":"2026-03-01T12:00:00Z",` +
			`"progress":{"message":"half","fraction":0.5,"data":{"a":1},` +
			`"at":"2026-03-01T12:00:00Z"}}`: {
			ID: "call_x.1", Call: "call_x", Session: "chat-1", Tool: "deploy",
			Number: 1, Since: since,
			Await: tool.Await{Reason: tool.ReasonExternal, Mode: tool.ModeOutput, Key: "job-1",
				Data: json.RawMessage("[1]")},
			Progress: &tool.Progress{Message: "half", Fraction: 0.5,
				Data: json.RawMessage(`{"a":1}`), At: since},
		},
		`{"id":"call_x.1","call":"call_x","session":"chat-1","tool":"deploy","number":1,` +
			`"await":{"reason":"external","mode":"output","on_timeout":"reenter"},` +
			`"since":"2026-03-01T12:00:00Z","deadline":"2026-03-01T13:00:00Z"}`: {
			ID: "call_x.1", Call: "call_x", Session: "chat-1", Tool: "deploy",
			Number: 1, Since: since, Deadline: since.Add(time.Hour),
			Await: tool.Await{Reason: tool.ReasonExternal, Mode: tool.ModeOutput,
				Timeout: time.Hour, OnTimeout: tool.ReenterOnTimeout},
		},
		// One that is over.
		`{"id":"call_x.1","call":"call_x","session":"chat-1","tool":"deploy","number":1}`: {
			ID: "call_x.1", Call: "call_x", Session: "chat-1", Tool: "deploy", Number: 1,
		},
	} {
		got, err := json.Marshal(p)
		if err != nil || string(got) != want {
			t.Errorf("it is\n%s, %v, not\n%s", got, err, want)
		}
		var again tool.Pause
		if err := json.Unmarshal(got, &again); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, again); diff != "" {
			t.Errorf("read again it differs (-want +got):\n%s", diff)
		}
	}
}
