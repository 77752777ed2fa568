package agui_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/httpapi/internal/agui"
	"github.com/fermata-ai/fermata/internal/property"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// Whatever a session shows, in whatever order, and wherever the client is
// brought up to date, the events keep the protocol's rules and fit its schema.
func TestEventsKeepTheProtocolsRules(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		p := play{t: t, r: newRules(), results: map[string]llm.ToolResult{}}
		history := rapid.SliceOfN(rapid.Custom(message), 0, 4).Draw(t, "history")
		in := input(t, history)
		p.tr = agui.NewTranslator(in, "ada", count())
		p.take(p.tr.Begin(in, fresh(t, in.Said()), agui.Stored{History: history}))
		p.number = len(history)
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			p.take(p.tr.Event(p.event(2)))
			if p.tr.Stale() && rapid.Bool().Draw(t, "restate") {
				p.take(p.tr.Restate(agui.Stored{History: history}))
			}
		}
		if rapid.Bool().Draw(t, "fails") {
			p.take(p.tr.Fail("unavailable", "it could not be taken now"))
		} else {
			p.take(p.tr.Event(p.end()))
		}
		if !p.r.over {
			t.Fatal("the run has no end")
		}
		p.take(p.tr.Event(event.TextDelta{Delta: "late"}))
		p.take(p.tr.Fail("late", "late"))
	})
}

// play is a session that shows something.
type play struct {
	t       *rapid.T
	tr      *agui.Translator
	r       *rules
	number  int
	calls   []llm.ToolCall
	results map[string]llm.ToolResult
}

func (p *play) take(events []agui.Event) {
	for _, e := range events {
		b, err := json.Marshal(e)
		if err != nil {
			p.t.Fatal(err)
		}
		if err := p.r.see(b); err != nil {
			p.t.Fatalf("%s: %v", b, err)
		}
		if err := valid("Event", b); err != nil {
			p.t.Fatalf("%s: %v", b, err)
		}
	}
}

// event draws one; depth is how deep it may be nested.
func (p *play) event(depth int) event.Event {
	t := p.t
	switch rapid.IntRange(0, 13).Draw(t, "kind") {
	case 0, 1, 2:
		return event.TextDelta{Delta: words(t), Start: rapid.IntRange(0, 4).Draw(t, "start") == 0}
	case 3:
		return event.ReasoningDelta{Delta: words(t), Start: rapid.Bool().Draw(t, "start")}
	case 4, 5:
		m := message(t)
		p.calls = append(p.calls, m.ToolCalls()...)
		p.number += rapid.IntRange(0, 1).Draw(t, "new")
		return event.Message{Number: p.number, Message: m}
	case 6:
		return event.Call{Call: p.callOf(t)}
	case 7:
		return event.Result{Status: event.Denied, Result: result(t, p.callOf(t).ID)}
	case 8:
		return event.Retry{Failures: 1, Err: fmt.Errorf("overloaded")}
	case 9:
		return event.Pause{Pause: pause(t)}
	case 10:
		return event.Progress{Call: "c", Tool: "t", Progress: tool.Progress{Message: words(t)}}
	case 11, 12:
		if depth > 0 {
			s := "child-" + strconv.Itoa(rapid.IntRange(0, 2).Draw(t, "child"))
			path := []tool.PathStep{{Session: "root", Call: "c0"}}
			if rapid.Bool().Draw(t, "deep") {
				path = append(path, tool.PathStep{Session: "child-9", Agent: "nine", Call: "c9"})
			}
			return event.Nested{Path: path, Session: s, Agent: s, Event: p.event(depth - 1)}
		}
	case 13:
		if depth < 2 {
			return p.end()
		}
	}
	return event.Handoff{From: "a", To: "b"}
}

func (p *play) end() event.End {
	t := p.t
	return event.End{
		Finish: rapid.SampledFrom(finishes).Draw(t, "finish"),
		Pending: rapid.SliceOfNDistinct(rapid.Custom(pause), 0, 3,
			func(p tool.Pause) string { return p.ID }).Draw(t, "pending"),
	}
}

var finishes = []event.Finish{event.FinishStop, event.FinishPaused, event.FinishPaused,
	event.FinishLength, event.FinishFailed, event.FinishCancelled, event.FinishDelayed, "unheard"}

func (p *play) callOf(t *rapid.T) llm.ToolCall {
	if len(p.calls) > 0 && rapid.Bool().Draw(t, "known") {
		return rapid.SampledFrom(p.calls).Draw(t, "call")
	}
	return call(t)
}

func words(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "a", "ab", "b", "<&>", "\u2028", "😀"}).Draw(t, "words")
}

func call(t *rapid.T) llm.ToolCall {
	return llm.ToolCall{ID: "call-" + strconv.Itoa(rapid.IntRange(0, 9).Draw(t, "id")), Name: "refund",
		Arguments: json.RawMessage(`{"cents":9007199254740993}`)}
}

func result(t *rapid.T, call string) llm.ToolResult {
	r := llm.ToolResult{Call: call, Name: "refund",
		Output: json.RawMessage(rapid.SampledFrom([]string{`"done"`, `{"n":1}`, `null`, `[]`}).
			Draw(t, "output")),
		Error: rapid.Bool().Draw(t, "error")}
	if rapid.IntRange(0, 5).Draw(t, "media") == 0 {
		r.Media = []llm.Media{{MediaType: "image/png", Data: []byte{1}}, {MediaType: "text/csv", URL: "x"}}
	}
	return r
}

func message(t *rapid.T) llm.Message {
	switch rapid.IntRange(0, 3).Draw(t, "role") {
	case 0:
		m := llm.UserText(words(t))
		if rapid.IntRange(0, 3).Draw(t, "picture") == 0 {
			m.Parts = append(m.Parts, llm.Media{MediaType: "image/png", Data: []byte{1}})
		}
		return m
	case 1:
		m := llm.Message{Role: llm.RoleTool}
		for range rapid.IntRange(1, 2).Draw(t, "results") {
			m.Parts = append(m.Parts, result(t, call(t).ID))
		}
		return m
	}
	m := llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Reasoning{Text: words(t)},
		llm.Text{Text: words(t) + words(t)}}}
	for range rapid.IntRange(0, 2).Draw(t, "calls") {
		m.Parts = append(m.Parts, call(t))
	}
	return m
}

func pause(t *rapid.T) tool.Pause {
	p := tool.Pause{Call: call(t).ID, Number: rapid.IntRange(1, 3).Draw(t, "number"), Tool: "refund",
		Session: rapid.SampledFrom([]string{"root", "child-0", "child-9"}).Draw(t, "session"),
		Await: rapid.SampledFrom([]tool.Await{
			{Reason: tool.ReasonExternal}, {Reason: tool.ReasonApproval, Gate: "approval", Prompt: "?"},
			{Reason: tool.ReasonApproval, Gate: "approval", Approvers: []string{"bob"}},
			{Reason: tool.ReasonInput, Schema: json.RawMessage(`true`)},
			{Reason: tool.ReasonInput, Schema: json.RawMessage(`{"type":"string"}`), Mode: tool.ModeMessage},
		}).Draw(t, "await"), Arguments: json.RawMessage(`{}`),
		Deadline: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	p.ID = p.Session + p.Call + "." + strconv.Itoa(p.Number)
	return p
}

// input draws what a client shows: the history, cut off, or something else; and
// what its user says.
func input(t *rapid.T, history []llm.Message) *agui.Input {
	in := &agui.Input{Thread: "root", Run: "run-1"}
	for i := range rapid.IntRange(0, 3).Draw(t, "shown") {
		body := agui.Body{Text: words(t)}
		if i < len(history) {
			body.Text = history[i].Text()
		}
		role := rapid.SampledFrom([]string{"user", "assistant", "tool", "reasoning", "system"}).
			Draw(t, "role")
		in.Messages = append(in.Messages, agui.Message{ID: rapid.SampledFrom([]string{
			"m" + strconv.Itoa(i), "fermata:" + strconv.Itoa(i+1)}).Draw(t, "id"), Role: role, Body: &body})
	}
	if rapid.Bool().Draw(t, "says") {
		body := agui.Body{Text: "more"}
		in.Messages = append(in.Messages, agui.Message{ID: "new", Role: "user", Body: &body})
	}
	return in
}

// count returns ids that are never the same.
func count() func() string {
	n := 0
	return func() string { n++; return "x" + strconv.Itoa(n) }
}

// fresh returns messages as the session has them.
func fresh(t rapid.TB, said []agui.Message) (out []agui.Queued) {
	t.Helper()
	for _, m := range said {
		message, _, err := m.UserMessage(func(string) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, agui.Queued{ID: m.ID, Message: message.Clean()})
	}
	return out
}
