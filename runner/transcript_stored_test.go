package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// modelFunc is a model that does what a test needs and fakellm would refuse to.
type modelFunc func(llm.Request) []llm.Event

func (f modelFunc) Generate(_ context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		for _, ev := range f(r) {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// messages is a model that says one list of parts after the other, by the number of its messages in the history.
func messages(turns ...[]llm.Part) modelFunc {
	return func(r llm.Request) []llm.Event {
		n := 0
		for _, m := range r.Messages {
			if m.Role == llm.RoleAssistant {
				n++
			}
		}
		var events []llm.Event
		for _, p := range turns[n] {
			events = append(events, llm.PartDone{Part: p})
		}
		return append(events, llm.Finish{Reason: llm.StopEnd})
	}
}

func calls(parts ...string) (out []llm.Part) {
	for i := 0; i < len(parts); i += 2 {
		out = append(out, llm.ToolCall{Name: parts[i], Arguments: json.RawMessage(parts[i+1])})
	}
	return out
}

func says(s string) []llm.Part { return []llm.Part{llm.Text{Text: s}} }

func TestStoredTranscriptIsAcceptable(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("deploy", tool.Idempotent, &n), instant("look", tool.ReadOnly, &n)},
		Model: fakellm.New(fakellm.Calls("look", `{"text":"a"}`).And("nosuch", `{}`).And("deploy", `{"text":"j"}`), fakellm.Says("Done.")),
	}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("deploy")
	history := r.transcript().History
	if last := history[len(history)-1]; last.Role != llm.RoleAssistant {
		t.Errorf("while the turn is open, a message of %s is stored behind the one that asked", last.Role)
	}
	// Up to the last closed turn it is what a provider takes.
	must(t, fakellm.Check(llm.Request{Messages: history[:len(history)-1]}))
	r.restart()
	r.answer(runner.Complete(p.ID, "ci", text("v"))).finished(event.FinishStop)
	r.acceptable()
	before, _ := json.Marshal(r.transcript().History)
	r.restart()
	if after, _ := json.Marshal(r.transcript().History); string(before) != string(after) {
		t.Errorf("the history changed by being loaded: %s, then %s", before, after)
	}
}

func TestResultsAreInCallOrder(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("job", tool.Idempotent, &n), instant("look", tool.ReadOnly, &n)},
		Model: messages(calls("job", `{"text":"a"}`, "look", `{"text":"b"}`, "job", `{"text":"c"}`, "nosuch", `{}`), says("Done.")),
	}, nil)
	pending := r.say("Go.").finished(event.FinishPaused).end.Pending
	r.answer(runner.Complete(pending[1].ID, "ci", text("third"))).finished(event.FinishPaused)
	r.answer(runner.Complete(pending[0].ID, "ci", text("first"))).finished(event.FinishStop)
	want := []string{"job " + string(text("first")), "look " + string(text("b")), "job " + string(text("third")), "nosuch "}
	for i, p := range r.transcript().History[2].Parts {
		res := p.(llm.ToolResult)
		if got := res.Name + " " + string(res.Output); !strings.HasPrefix(got, want[i]) {
			t.Errorf("result %d is %s, not %s", i, got, want[i])
		}
	}
	r.acceptable()
}

// A provider numbers its calls in each request anew, or not at all. An answer to an earlier call of the same number does not
// count for a later one.
func TestProviderIDsDoNoHarm(t *testing.T) {
	var n counter
	call := func(id string) []llm.Part {
		return []llm.Part{
			llm.ToolCall{ProviderID: id, Name: "job", Arguments: json.RawMessage(`{"text":"a"}`)},
			llm.ToolCall{ProviderID: id, Name: "job", Arguments: json.RawMessage(`{"text":"a"}`)},
		}
	}
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("job", tool.Idempotent, &n)},
		Model: messages(call("call_0"), call("call_0"), call(""), says("Done.")),
	}, nil)
	seen := map[string]bool{}
	run := r.say("Go.")
	var first runner.Resumption
	for range 3 {
		pending := run.finished(event.FinishPaused).end.Pending
		if len(pending) != 2 {
			t.Fatalf("%d calls wait", len(pending))
		}
		for i, p := range pending {
			if seen[p.Call] {
				t.Fatalf("the id %s comes twice", p.Call)
			}
			seen[p.Call] = true
			in := runner.Complete(p.ID, "ci", text(fmt.Sprint(len(seen))))
			if first.Pause == "" {
				first = in
			}
			run = r.answer(in)
			if i == 0 {
				run.finished(event.FinishPaused)
			}
		}
		if len(seen) == 4 { // the third turn waits: what answered the first is a duplicate of that
			res, err := r.Resume(t.Context(), chat, first)
			must(t, err)
			if !res.Receipts[0].Duplicate || res.Receipts[0].Call != first.Pause[:strings.IndexByte(first.Pause, '.')] {
				t.Errorf("the old answer got %+v", res.Receipts[0])
			}
		}
	}
	run.finished(event.FinishStop)
	r.acceptable()
}

func TestBytesArriveUnchanged(t *testing.T) {
	type in struct {
		ID   int64  `json:"id"`
		Big  uint64 `json:"big"`
		Text string `json:"text"`
	}
	const args = `{"id":9007199254740993,"big":18446744073709551615,"text":"<a href=\"x\">&amp;</a>"}`
	var got []in
	echo := tool.Must(tool.Func(tool.Spec{Name: "echo", Description: "e", Effect: tool.Idempotent, MayPause: true},
		func(_ context.Context, v in) (tool.Result[in], error) {
			got = append(got, v)
			if len(got) == 1 {
				return tool.Done(v), nil
			}
			return tool.Pending[in](tool.Await{}), nil
		}))
	var sent []string
	script := messages(calls("echo", args), calls("echo", args), says("Done."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{echo}, Model: modelFunc(func(req llm.Request) []llm.Event {
		b, _ := req.Messages[len(req.Messages)-1].AppendJSON(nil)
		sent = append(sent, string(b))
		return script(req)
	})}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("echo")
	r.restart()
	if string(p.Arguments) != args {
		t.Errorf("a person is shown %s", p.Arguments)
	}
	r.answer(runner.Complete(p.ID, "ci", json.RawMessage(args))).finished(event.FinishStop)
	want := in{9007199254740993, 18446744073709551615, `<a href="x">&amp;</a>`}
	for i, v := range got {
		if v != want {
			t.Errorf("body %d got %+v", i, v)
		}
	}
	for i, s := range sent[1:] {
		if !strings.Contains(s, `"output":`+args) {
			t.Errorf("request %d sent %s", i+1, s)
		}
	}
}

func TestWhatNoProviderParsesIsReplaced(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("job", tool.Idempotent, &n), instant("look", tool.ReadOnly, &n)},
		Model: messages(append(calls("look", `{"text":"\ud800 and \\ud800"}`, "job", `{"text":"j"}`), llm.Text{Text: "a\xffb"}), says("Done.")),
	}, nil)
	p := r.say("Go \xff.").finished(event.FinishPaused).pause("job")
	r.answer(runner.Complete(p.ID, "ci", json.RawMessage("{\"text\":\"\\udfff\xff\"}"))).finished(event.FinishStop)
	b, err := json.Marshal(r.transcript().History)
	must(t, err)
	var stored []llm.Message
	must(t, json.Unmarshal(b, &stored))
	if got := stored[0].Text(); got != "Go \uFFFD." {
		t.Errorf("the user said %q", got)
	}
	if got := stored[1].Text(); got != "a\uFFFDb" {
		t.Errorf("the model said %q", got)
	}
	if got := string(stored[1].ToolCalls()[0].Arguments); got != `{"text":"\ufffd and \\ud800"}` && got != "{\"text\":\"\uFFFD and \\\\ud800\"}" {
		t.Errorf("the arguments are %s", got)
	}
	r.acceptable()
}

func TestArgumentsAreStrict(t *testing.T) {
	for args, word := range map[string]string{
		`{"text":"a","text":"b"}`:      "text",
		`{"text":"a","TEXT":"b"}`:      "TEXT",
		`{"text":"a"} done.`:           "done",
		`{"text":"a"}{"text":"b"}`:     "",
		`{"text":"a"`:                  "",
		`{'text':'a'}`:                 "",
		`{"text":NaN}`:                 "",
		`[1]`:                          "object",
		`{"text":1}`:                   "text",
		`{"text":"a","more":"b"}`:      "more",
		`{}`:                           "text",
		`{"text":null}`:                "text",
		"```json\n{\"text\":1}\n```":   "text",
		"```json\n{\"text\":\"a\" ```": "",
	} {
		var n counter
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{instant("look", tool.Once, &n)},
			Model: messages(calls("look", args, "look", `{"text":"ok"}`), says("Done.")),
		}, &rigOptions{memory: true})
		r.say("Go.").finished(event.FinishStop)
		refused := r.transcript().History[2].Parts[0].(llm.ToolResult)
		if !refused.Error || !strings.Contains(string(refused.Output), word) {
			t.Errorf("%s: %s", args, refused.Output)
		}
		if n.get("look") != 1 {
			t.Errorf("%s: the body was entered %d times, not once, by the sibling", args, n.get("look"))
		}
		r.acceptable()
	}
}

func TestNoArguments(t *testing.T) {
	var n counter
	none := tool.Must(tool.Func(tool.Spec{Name: "now", Description: "n"},
		func(context.Context, struct{}) (tool.Result[string], error) {
			n.add("now")
			return tool.Done("12:00"), nil
		}))
	for _, args := range []string{"", `""`, "null", `"null"`, " ", "{}", "\uFEFF{}", "```\n{}\n```"} {
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{none, instant("look", tool.ReadOnly, &n)},
			Model: messages(calls("now", args, "look", args), says("Done.")),
		}, &rigOptions{memory: true})
		results := of[event.Result](r.say("Go.").finished(event.FinishStop))
		for _, res := range results {
			switch {
			case res.Result.Name == "now" && res.Status != event.Done:
				t.Errorf("%q: %s", args, res.Result.Output)
			case res.Result.Name == "look" && (res.Status != event.Failed || !strings.Contains(string(res.Result.Output), "text")):
				t.Errorf("%q: a tool that requires text settled as %s with %s", args, res.Status, res.Result.Output)
			}
		}
		if got := string(r.transcript().History[1].ToolCalls()[0].Arguments); got != "{}" {
			t.Errorf("%q: stored as %s", args, got)
		}
		r.acceptable()
	}
	if n.get("look") != 0 {
		t.Errorf("a tool was run with arguments that were guessed")
	}
}

// A tool name that no provider would take back, or that the model misspelt, is an error result that lists the names. It ends in
// a limit, if the model does not stop.
func TestUnknownNamesDoNotLoop(t *testing.T) {
	var n counter
	for _, name := range []string{"reed", "", "Look", strings.Repeat("x", 300), "look.er/s", "look\n"} {
		r := newRig(t, agent.Config{
			Limits: agent.Limits{Turns: 5},
			Tools:  []tool.Tool{instant("look", tool.ReadOnly, &n)},
			Model: modelFunc(func(llm.Request) []llm.Event {
				return append([]llm.Event{llm.PartDone{Part: calls(name, `{}`)[0]}}, llm.Finish{})
			}),
		}, &rigOptions{memory: true})
		run := r.say("Go.").finished(event.FinishMaxTurns)
		for _, res := range of[event.Result](run) {
			if res.Status != event.Failed || !strings.Contains(string(res.Result.Output), "look") {
				t.Errorf("%.20q: %s with %s", name, res.Status, res.Result.Output)
			}
		}
		if got := len(of[event.Result](run)); got != 5 {
			t.Errorf("%.20q: %d results", name, got)
		}
		r.acceptable()
	}
	if n.get("look") != 0 {
		t.Error("a misspelt name ran a tool")
	}
}

func TestConcurrencyLeavesNoTrace(t *testing.T) {
	transcript := func(concurrency int) string {
		var n counter
		ids := 0
		r := newRig(t, agent.Config{
			Concurrency: concurrency,
			Tools:       []tool.Tool{instant("look", tool.ReadOnly, &n), instant("write", tool.Once, &n)},
			Model: messages(calls("look", `{"text":"a"}`, "write", `{"text":"b"}`, "look", `{"text":"c"}`, "nosuch", `{}`, "write", `{}`),
				calls("write", `{"text":"d"}`, "look", `{"text":"e"}`), says("Done.")),
		}, &rigOptions{memory: true, session: deterministic(&ids)})
		r.say("Go.").finished(event.FinishStop)
		b, err := json.Marshal(r.transcript().History)
		must(t, err)
		return string(b)
	}
	one := transcript(1)
	for range 20 {
		if eight := transcript(8); eight != one {
			t.Fatalf("one at once: %s\neight: %s", one, eight)
		}
	}
}

// deterministic gives ids in their order, at one time.
func deterministic(n *int) *session.Options {
	return &session.Options{
		Now:   func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
		NewID: func(kind string) string { *n++; return fmt.Sprintf("%s_%d", kind, *n) },
	}
}
