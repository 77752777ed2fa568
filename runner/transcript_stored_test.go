package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

func TestStoredTranscriptIsAcceptable(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{
			waiting("deploy", tool.Idempotent, &n), instant("look", tool.ReadOnly, &n),
		},
		Model: fakellm.New(fakellm.Calls("look", `{"text":"a"}`).And("nosuch", `{}`).And("deploy",
			`{"text":"j"}`), fakellm.Says("Done.")),
	}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("deploy")
	history := r.transcript().History
	if last := history[len(history)-1]; last.Role != llm.RoleAssistant {
		t.Errorf("while the turn is open, a message of %s is stored behind the one that asked",
			last.Role)
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
		Model: messages(calls("job", `{"text":"a"}`, "look", `{"text":"b"}`, "job", `{"text":"c"}`,
			"nosuch", `{}`), says("Done.")),
	}, nil)
	pending := r.say("Go.").finished(event.FinishPaused).end.Pending
	r.answer(runner.Complete(pending[1].ID, "ci", text("third"))).finished(event.FinishPaused)
	r.answer(runner.Complete(pending[0].ID, "ci", text("first"))).finished(event.FinishStop)
	want := []string{"job " + string(text("first")), "look " + string(text("b")),
		"job " + string(text("third")), "nosuch "}
	for i, p := range r.transcript().History[2].Parts {
		res := p.(llm.ToolResult)
		if got := res.Name + " " + string(res.Output); !strings.HasPrefix(got, want[i]) {
			t.Errorf("result %d is %s, not %s", i, got, want[i])
		}
	}
	r.acceptable()
}

// A provider numbers its calls in each request anew, or not at all. An answer
// to an earlier call of the same number does not count for a later one.
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
			if !res.Receipts[0].Duplicate ||
				res.Receipts[0].Call != first.Pause[:strings.IndexByte(first.Pause, '.')] {
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
	echo := tool.Must(tool.Func(tool.Spec{Name: "echo", Description: "e",
		Effect: tool.Idempotent, MayPause: true},
		func(_ context.Context, v in) (tool.Result[in], error) {
			got = append(got, v)
			if len(got) == 1 {
				return tool.Done(v), nil
			}
			return tool.Pending[in](tool.Await{}), nil
		}))
	var sent []string
	script := messages(calls("echo", args), calls("echo", args), says("Done."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{echo},
		Model: modelFunc(func(req llm.Request) []llm.Event {
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
		Model: messages(append(calls("look", `{"text":"\ud800 and \\ud800"}`,
			"job", `{"text":"j"}`), llm.Text{Text: "a\xffb"}), says("Done.")),
	}, nil)
	p := r.say("Go \xff.").finished(event.FinishPaused).pause("job")
	r.answer(runner.Complete(p.ID, "ci",
		json.RawMessage("{\"text\":\"\\udfff\xff\"}"))).finished(event.FinishStop)
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
	if got := string(stored[1].ToolCalls()[0].Arguments); got != `{"text":"\ufffd and \\ud800"}` &&
		got != "{\"text\":\"\uFFFD and \\\\ud800\"}" {
		t.Errorf("the arguments are %s", got)
	}
	r.acceptable()
}

// A model reads a result as text: what json.Marshal escapes reaches it as
// itself, and is stored as it came.
func TestResultsReachTheModelUnescaped(t *testing.T) {
	var n counter
	r, p := deployed(t, &n)
	const answer = `{"text":"\u003cb\u003e \u0026 \\u003c"}`
	r.answer(runner.Complete(p.ID, "ci", json.RawMessage(answer))).finished(event.FinishStop)
	res := r.result(p.Call)
	if string(res.Output) != answer {
		t.Errorf("%s is stored", res.Output)
	}
	if got := wire.ResultText(res, false); got != `{"text":"<b> & \\u003c"}` {
		t.Errorf("the model reads %s", got)
	}
}

// TestWhatModelsSayIsAcceptable: whatever a model sends, every provider takes
// back what is stored of it. The run ends, and the next message is answered.
func TestWhatModelsSayIsAcceptable(t *testing.T) {
	look := llm.ToolCall{Name: "look", Arguments: text("a")}
	for name, parts := range map[string][]llm.Part{
		"nothing":                {},
		"an empty text":          {llm.Text{}},
		"white space":            {llm.Text{Text: " \n"}},
		"white space and a call": {llm.Text{Text: " \n"}, look},
		"reasoning only":         {llm.Reasoning{Text: "Hm."}},
		"a result of its own":    {llm.ToolResult{Call: "c1", Name: "look", Output: text("a")}},
		"a result and a call":    {llm.ToolResult{Call: "c1", Name: "look", Output: text("a")}, look},
		"a picture":              {llm.Media{MediaType: "image/png", Data: []byte{1}}},
		"a picture without data": {llm.Media{MediaType: "image/png"}},
		"a part without a type":  {llm.Unknown{Type: "", Raw: []byte(`{}`)}},
		"something opaque": {
			llm.Opaque{Native: llm.Native{Provider: "acme", Data: []byte(`{"a":1}`)}},
		},
		"an opaque part without data":  {llm.Opaque{}},
		"an unknown part without data": {llm.Unknown{Type: "new"}},
		"opaque data that is no JSON": {
			llm.Opaque{Native: llm.Native{Provider: "acme", Data: []byte(`{`)}},
		},
		"native data that is no JSON": {
			llm.Text{Text: "a", Native: &llm.Native{Provider: "acme", Data: []byte("\xff")}},
		},
		"two calls with one id":    {look, look},
		"a call without arguments": {llm.ToolCall{Name: "look"}},
		"a call with an id of its own": {
			llm.ToolCall{ID: "mine", Name: "look", Arguments: text("a")},
		},
		"a call without a name": {llm.ToolCall{Arguments: text("a")}},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			r := newRig(t, agent.Config{
				Model: messages(parts, says("Well."), says("Hello."), says("Hello.")),
				Tools: []tool.Tool{instant("look", tool.Once, &n)},
				Retry: agent.Retry{Failures: -1},
			}, nil)
			run := r.say("Go.")
			if (run.end.Finish == event.FinishFailed) != (run.err != nil) || run.err != nil &&
				r.transcript().Finish != event.FinishFailed {
				t.Errorf("the run ended as %q with %v; the session is shown as %q", run.end.Finish,
					run.err, r.transcript().Finish)
			}
			r.acceptable()
			r.restart()
			r.acceptable()
			if run.err == nil {
				// of a message with nothing in it nothing is stored: the model
				// says it again
				r.say("Hello?").finished(run.end.Finish)
				r.acceptable()
			}
		})
	}
}

// TestWhatUsersSayIsAcceptable: a message that providers would refuse is
// refused before it is stored, and leaves no session.
func TestWhatUsersSayIsAcceptable(t *testing.T) {
	for name, parts := range map[string][]llm.Part{
		"nothing": {}, "an empty text": {llm.Text{}}, "white space": {llm.Text{Text: " \n"}},
		"a blank beside a word":    {llm.Text{Text: "Hi."}, llm.Text{}},
		"a picture without data":   {llm.Media{MediaType: "image/png"}},
		"a picture without a type": {llm.Media{Data: []byte{1}}},
		"a call":                   {llm.ToolCall{Name: "look"}},
		"a result":                 {llm.ToolResult{Call: "c1"}},
		"reasoning":                {llm.Reasoning{Text: "Hm."}}, "nil": {nil},
	} {
		r := newRig(t, agent.Config{Model: fakellm.Echo()}, &rigOptions{memory: true})
		run := watch(t, r.Run(t.Context(), user, chat,
			llm.Message{Role: llm.RoleUser, Parts: parts}, nil))
		if !errors.Is(run.err, session.ErrInvalidMessage) {
			t.Errorf("%s: %v", name, run.err)
		}
		if _, err := r.Show(t.Context(), chat, user); !errors.Is(err, session.ErrUnknownSession) {
			t.Errorf("%s: there is a session: %v", name, err)
		}
	}
	for _, extra := range []string{`{"Role":1}`, `{"parts":[]}`, `[`} {
		r := newRig(t, agent.Config{Model: fakellm.Echo()}, &rigOptions{memory: true})
		m := llm.UserText("Hi.")
		m.Extra = json.RawMessage(extra)
		if err := watch(t, r.Run(t.Context(), user, chat, m, nil)).err; !errors.Is(err,
			session.ErrInvalidMessage) {
			t.Errorf("extra members %s: %v", extra, err)
		}
	}
	r := newRig(t, agent.Config{Model: fakellm.Echo()}, &rigOptions{memory: true})
	m := llm.UserText("Hi.")
	m.Extra = json.RawMessage(`{"later":1,"later":2}`) // kept, and read again
	watch(t, r.Run(t.Context(), user, chat, m, nil)).finished(event.FinishStop)
	for _, role := range []llm.Role{"", llm.RoleAssistant, llm.RoleTool, "system"} {
		if err := watch(t, r.Run(t.Context(), user, chat,
			llm.Message{Role: role, Parts: says("Hi.")}, nil)).err; !errors.Is(err,
			session.ErrInvalidMessage) {
			t.Errorf("role %q: %v", role, err)
		}
	}
	watch(t, r.Run(t.Context(), user, chat, llm.Message{Role: llm.RoleUser, Parts: []llm.Part{
		llm.Text{Text: "Look at this."}, llm.Media{MediaType: "image/png", Data: []byte{1}},
		llm.Media{MediaType: "image/png", URL: "https://example.com/a.png"},
	}}, nil)).finished(event.FinishStop)
	r.acceptable()
}
