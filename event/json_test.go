package event_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

var update = flag.Bool("update", false, "write what is made into testdata")

const golden = "testdata/events.jsonl"

// The forms of events stay what they are: clients read them, and other
// processes.
func TestEachEventHasItsForm(t *testing.T) {
	var made bytes.Buffer
	for _, ev := range examples() {
		made.Write(marshal(t, ev))
		made.WriteByte('\n')
	}
	if *update {
		if err := os.WriteFile(golden, made.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), made.String()); diff != "" {
		t.Errorf("the forms have changed (-want +got):\n%s", diff)
	}
	seen := map[string]bool{}
	for i, line := range bytes.Split(bytes.TrimSpace(want), []byte("\n")) {
		ev := unmarshal(t, line)
		if diff := cmp.Diff(examples()[i], ev, sameErrors); diff != "" {
			t.Errorf("read from %s (-want +got):\n%s", line, diff)
		}
		seen[fmt.Sprintf("%T", ev)] = true
	}
	for _, name := range types(t) {
		if !seen[name] && name != "event.Other" {
			t.Errorf("%s has no %s", golden, name)
		}
	}
}

// examples has an event of each type, with all that it may hold, and then some
// that hold little.
func examples() []event.Event {
	at := time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	args, out := json.RawMessage(`{"cents":9007199254740993,"to":"<a&b>"}`), json.RawMessage(`{"ok":true}`)
	progress := tool.Progress{Message: "half", Fraction: 0.5, Data: json.RawMessage(`[1,2]`), At: at}
	parked := event.Parked{Call: "c1", Tool: "deploy", Since: at, Until: at.Add(time.Hour),
		Agent: "helper", Session: "child:1"}
	pause := tool.Pause{ID: "c1.2", Call: "c1", Session: "chat-7", User: "ada", Agent: "clerk",
		Tool: "refund", Number: 2, Arguments: args, Since: at, Deadline: at.Add(time.Hour),
		Beat: tool.Beat{EveryMS: 60_000, Due: at.Add(time.Minute)}, Progress: &progress,
		Path: []tool.PathStep{{Session: "root", Agent: "clerk", Call: "c0", Tool: "ask_helper"}},
		Await: tool.Await{Reason: tool.ReasonApproval, Mode: tool.ModeReenter, Prompt: "Refund?",
			Schema: json.RawMessage(`{"type":"object"}`), Timeout: time.Hour,
			Heartbeat: time.Minute, Gate: "approval", Approvers: []string{"bob"}},
	}
	failed := &llm.Error{Kind: llm.ErrOverloaded, Provider: "openai", RequestID: "r1",
		RetryAfter: 1500 * time.Millisecond, Err: errors.New("too busy")}
	return []event.Event{
		event.TextDelta{Delta: "Hel", Start: true},
		event.ReasoningDelta{Delta: "Hm", Start: true},
		event.Message{Number: 3, Message: llm.UserText("<Hello>"), Cursor: "4"},
		event.Call{Call: llm.ToolCall{ID: "c1", Name: "refund", Arguments: args}},
		event.Started{Index: 1, Call: "c1", Tool: "refund", Attempt: 2},
		event.Progress{Call: "c1", Tool: "refund", Progress: progress},
		event.Result{Index: 1, Status: event.Done, Actor: "bob", Cursor: "4.s",
			Duration: 1500250 * time.Microsecond,
			Result:   llm.ToolResult{Call: "c1", Name: "refund", Output: out}},
		event.Artifact{Call: "c1", Tool: "refund", Artifact: tool.Artifact{Name: "r.pdf",
			MediaType: "application/pdf", Data: []byte("%PDF")}},
		event.Pause{Pause: pause, Cursor: "4.p2"},
		event.At(parked, "4.k"),
		event.Nested{Path: pause.Path, Session: "child:1", Agent: "helper",
			Event: event.TextDelta{Delta: "Hm"}},
		event.Handoff{From: "clerk", To: "lawyer"},
		event.Undriven{Agent: "helper", Since: at},
		event.Retry{Failures: 2, At: at, Err: failed},
		event.End{Session: "chat-7", Finish: event.FinishPaused, Why: "why",
			Pending: []tool.Pause{pause}, MorePending: true, Parked: []event.Parked{parked},
			Until: at, Usage: llm.Usage{Input: 1, Output: 2, Cached: 3, Written: 4, Reasoning: 5,
				Predicted: 6}, Cursor: "4~9f3c"},

		event.TextDelta{},
		event.Result{Status: event.TimedOut, Result: llm.ToolResult{Call: "c1", Name: "refund",
			Output: json.RawMessage(`"no"`), Error: true}},
		event.Nested{Path: []tool.PathStep{}, Session: "child:1", Event: event.End{Session: "child:1",
			Finish: event.FinishStop}},
		event.Retry{Failures: 1, At: at, Err: errors.New("broken")},
		event.Retry{Failures: 1, At: at, Err: fmt.Errorf("model: %w", failed)},
		event.Retry{Failures: 1, At: at},
		event.End{Session: "chat-7", Finish: event.FinishStop},
	}
}

// A caller may put an event into a value of its own, and use encoding/json.
func TestAnEventWithinAnotherValue(t *testing.T) {
	for _, ev := range examples() {
		switch ev.(type) {
		case event.Retry, event.Nested: // these have no form but Marshal's
			continue
		}
		b, err := json.Marshal(struct{ Event event.Event }{ev})
		if err != nil {
			t.Fatal(err)
		}
		var within struct{ Event map[string]any }
		var alone map[string]any
		for _, err := range []error{
			json.Unmarshal(b, &within), json.Unmarshal(marshal(t, ev), &alone),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		delete(alone, "type")
		if !reflect.DeepEqual(within.Event, alone) {
			t.Errorf("%T within another value is %v\nand alone %v", ev, within.Event, alone)
		}
	}
	want := event.Result{Status: event.Done, Duration: 1500250 * time.Microsecond,
		Result: llm.ToolResult{Call: "c1", Name: "refund", Output: json.RawMessage(`1`)}}
	b, err := json.Marshal(want)
	var got event.Result
	if err == nil {
		err = json.Unmarshal(b, &got)
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s is read as %+v: %v", b, got, err)
	}
}

// A model chooses the white space in its calls' arguments.
func TestAnEventIsOneLine(t *testing.T) {
	raw := json.RawMessage("{\n\n\"a\"\r:\t\"\\n\u2028\", \"b\":1.0e2}")
	for _, ev := range []event.Event{
		event.Call{Call: llm.ToolCall{ID: "c1", Name: "refund", Arguments: raw}},
		event.Progress{Progress: tool.Progress{Data: raw}},
		event.Nested{Event: event.Pause{Pause: tool.Pause{Arguments: raw}}},
		event.Other{Type: "a", Raw: json.RawMessage("{\n\"type\":\"a\",\"a\":\"\\n\u2028\", \"b\":1.0e2}")},
	} {
		if got := string(marshal(t, ev)); strings.ContainsAny(got, "\n\r\t ") ||
			!strings.Contains(got, `"a":"\n`+"\u2028"+`","b":1.0e2}`) {
			t.Errorf("it is %q", got)
		}
	}
}

// The JSON of a pause in an event is that of the pause.
func TestAPauseInAnEventHasItsOwnForm(t *testing.T) {
	for _, ev := range examples() {
		p, ok := ev.(event.Pause)
		if !ok {
			continue
		}
		var got, want struct{ Pause any }
		alone, err := json.Marshal(map[string]any{"pause": p.Pause})
		if err != nil || json.Unmarshal(alone, &want) != nil ||
			json.Unmarshal(marshal(t, ev), &got) != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-alone +in the event:\n%s", diff)
		}
	}
}

// A program may be older than the server that it reads events of.
func TestEventsOfAnotherVersion(t *testing.T) {
	const newer = `{"z": 1.0e2, "type":"applause", "call":"c1"}`
	ev := unmarshal(t, []byte(" "+newer+"\n"))
	want := event.Event(event.Other{Type: "applause", Raw: json.RawMessage(newer)})
	if diff := cmp.Diff(want, ev); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if got := string(marshal(t, ev)); got != strings.ReplaceAll(newer, " ", "") {
		t.Errorf("it is written as %s", got)
	}
	in := `{"type":"nested","path":[],"session":"s","agent":"a","event":` + strings.ReplaceAll(newer, " ", "") + `}`
	if got := string(marshal(t, unmarshal(t, []byte(in)))); got != in {
		t.Errorf("within another one it is written as %s", got)
	}
	ev = unmarshal(t, []byte(`{"more":null,"delta":"a","type":"text_delta"}`))
	if ev != (event.TextDelta{Delta: "a"}) {
		t.Errorf("with a member more it is %#v", ev)
	}
}

func TestWhatIsNoEventIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		``:                                   "event: the text ends too early (at byte 0)",
		`[]`:                                 "event: a [ stands where a { is expected (at byte 0)",
		`{"delta":"a"}`:                      `event: the member "type" is missing`,
		`{"type":""}`:                        "event: its type is empty",
		`{"Type":"text_delta","delta":"a"}`:  `the member "Type" is not "type"`,
		`{"type":"text_delta"}`:              `event: text_delta: the member "delta" is missing`,
		`{"type":"text_delta","delta":1}`:    "event: text_delta: ",
		`{"type":"text_delta","delta":null}`: "event: text_delta: a value is null",
		`{"type":"text_delta","delta":"","delta":""}`:    `the member "delta" is there twice`,
		`{"type":"text_delta","delta":""} x`:             "after top-level value",
		`{"type":"message","number":0,"message":{}}`:     "event: message: llm: message: role is missing",
		`{"type":"pause","pause":{"id":"c1.1","ID":""}}`: `event: pause: the member "ID" is not "id"`,
		`{"type":"retry","failures":1,"at":"2026-01-02T03:04:05Z",` +
			`"error":{"text":"a","kind":"network","retry_after_ms":1e300}}`: "is too long",
		`{"type":"nested","path":[],"session":"","agent":"","event":{"type":"nested",` +
			`"path":[],"session":"","agent":"","event":{"type":"text_delta","delta":""}}}`: "event: nested: an event of the type \"nested\" can't stand here",
	} {
		ev, err := event.Unmarshal([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || ev != nil {
			t.Errorf("%s\nis %v, %v, not an error with\n%s", text, ev, err, want)
		}
	}
	for want, ev := range map[string]event.Event{
		"event: <nil> can't stand here":            nil,
		"event: *event.TextDelta can't":            &event.TextDelta{},
		"event: nested: event.Nested can't":        event.Nested{Event: event.Nested{}},
		"event: nested: <nil> can't":               event.Nested{},
		"event: progress: progress: data: ":        event.Progress{Progress: tool.Progress{Data: []byte("{")}},
		"event: the Raw of an Other: ":             event.Other{Type: "a", Raw: []byte("{")},
		`is of the type "b", not "a"`:              event.Other{Type: "a", Raw: []byte(`{"type":"b"}`)},
		`event: an Other has the type "nested"`:    event.Other{Type: "nested", Raw: []byte(`{"type":"nested"}`)},
		`an Other has the type "end", which is an`: event.Other{Type: "end", Raw: []byte(`{"type":"end"}`)},
	} {
		if b, err := event.Marshal(ev); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%#v is %s, %v, not an error with %s", ev, b, err, want)
		}
	}
}

// The page shows each form as it is.
func TestThePageOfEvents(t *testing.T) {
	page, err := os.ReadFile("../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, block := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(page, -1) {
		ev := unmarshal(t, block[1])
		shown[fmt.Sprintf("%T", ev)] = true
		var got, want any
		if json.Unmarshal(marshal(t, ev), &got) != nil || json.Unmarshal(block[1], &want) != nil {
			t.Fatalf("%s is no JSON", block[1])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("an example of %T isn't its form (-page +form):\n%s", ev, diff)
		}
	}
	for _, name := range types(t) {
		if !shown[name] && name != "event.Other" {
			t.Errorf("the page has no %s", name)
		}
	}
}

func marshal(t testing.TB, ev event.Event) []byte {
	t.Helper()
	b, err := event.Marshal(ev)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func unmarshal(t testing.TB, b []byte) event.Event {
	t.Helper()
	ev, err := event.Unmarshal(b)
	if err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return ev
}

// sameErrors compares errors by their text, and by the llm.Error in them.
var sameErrors = cmp.FilterValues(func(a, b error) bool { return a != nil && b != nil },
	cmp.Comparer(func(a, b error) bool {
		x, is := errors.AsType[*llm.Error](a)
		y, too := errors.AsType[*llm.Error](b)
		if a.Error() != b.Error() || is != too {
			return false
		}
		return !is || x.Kind == y.Kind && x.Provider == y.Provider &&
			x.RequestID == y.RequestID && x.RetryAfter == y.RetryAfter && x.Error() == y.Error()
	}))
