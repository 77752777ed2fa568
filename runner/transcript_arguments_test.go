package runner_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// lister notes what it is run with.
func lister(ran *[]string) tool.Tool {
	type in struct {
		IDs []int `json:"ids"`
	}
	return tool.Must(tool.Func(tool.Spec{Name: "list"},
		func(ctx context.Context, v in) (tool.Result[int], error) {
			*ran = append(*ran, string(tool.CallFrom(ctx).Arguments))
			return tool.Done(len(v.IDs)), nil
		}))
}

// Arguments that a model encoded twice: the approver sees the form that runs,
// before a restart and after it, and the transcript keeps what the model wrote.
func TestArgumentsThatWereEncodedTwice(t *testing.T) {
	for _, asked := range []string{`{"ids":"[1,2]"}`, `"{\"ids\":[1,2]}"`} {
		t.Run(asked, func(t *testing.T) {
			var ran []string
			gates := interceptor.Chain{
				interceptor.Approval(&interceptor.ApprovalOptions{Name: "first"}),
				interceptor.Approval(&interceptor.ApprovalOptions{Name: "second"}),
			}
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{lister(&ran)}, Interceptors: gates,
				Model: fakellm.New(fakellm.Calls("list", asked), fakellm.Says("Done.")),
			}, nil)
			run := r.say("Go.")
			for range gates {
				p := run.finished(event.FinishPaused).pause("list")
				if string(p.Arguments) != `{"ids":[1,2]}` {
					t.Errorf("%s is shown %s", p.Await.Gate, p.Arguments)
				}
				r.restart()
				run = r.answer(runner.Approve(p.ID, "bob", ""))
			}
			run.finished(event.FinishStop)
			if len(ran) != 1 || ran[0] != `{"ids":[1,2]}` {
				t.Errorf("it ran with %q", ran)
			}
			if got := string(r.transcript().History[1].ToolCalls()[0].Arguments); got != asked {
				t.Errorf("the transcript has %s", got)
			}
			r.acceptable()
		})
	}
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
			t.Errorf("%s: the body was entered %d times, not once, by the sibling",
				args, n.get("look"))
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
	for _, args := range []string{"", `""`, "null", `"null"`, " ", "{}",
		"\uFEFF{}", "```\n{}\n```"} {
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{none, instant("look", tool.ReadOnly, &n)},
			Model: messages(calls("now", args, "look", args), says("Done.")),
		}, &rigOptions{memory: true})
		results := of[event.Result](r.say("Go.").finished(event.FinishStop))
		for _, res := range results {
			switch {
			case res.Result.Name == "now" && res.Status != event.Done:
				t.Errorf("%q: %s", args, res.Result.Output)
			case res.Result.Name == "look" && (res.Status != event.Failed ||
				!strings.Contains(string(res.Result.Output), "text")):
				t.Errorf("%q: a tool that requires text settled as %s with %s", args,
					res.Status, res.Result.Output)
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

// A tool name that no provider would take back, or that the model misspelt, is
// an error result that lists the names. It ends in a limit, if the model does
// not stop.
func TestUnknownNamesDoNotLoop(t *testing.T) {
	var n counter
	for _, name := range []string{
		"reed", "", "Look", strings.Repeat("x", 300), "look.er/s", "look\n",
	} {
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

type numbers struct {
	ID    int64  `json:"id"`
	Max   uint64 `json:"max,omitempty"`
	Small uint8  `json:"small,omitempty"`
}

// TestNumbers: those that fit arrive exactly, through a gate that edits a
// neighbour, the store, a restart, and back to the model. Those that don't fit
// are the model's to correct, in words of the schema rather than of a decoder.
func TestNumbers(t *testing.T) {
	for args, want := range map[string]string{
		`{"id":9007199254740993}`:             `{"id":9007199254740993,"small":7}`,
		`{"id":-9223372036854775808}`:         `{"id":-9223372036854775808,"small":7}`,
		`{"id":9223372036854775807}`:          `{"id":9223372036854775807,"small":7}`,
		`{"id":1,"max":18446744073709551615}`: `{"id":1,"max":18446744073709551615,"small":7}`,
		`{"id":1.0}`:                          "",
		`{"id":1e3}`:                          "",
		`{"id":1,"small":300}`:                "300",
		`{"id":1,"small":-1}`:                 "-1",
		`{"id":9223372036854775808}`:          "9223372036854775808",
		`{"id":1,"max":18446744073709551616}`: "18446744073709551616",
		`{"id":1e400}`:                        "at most 9223372036854775807",
		`{"id":1.5}`:                          "1.5",
		`{"id":"1"}`:                          "must be an integer",
		`{"id":1,"max":100000000000000000000000000000000.0}`: "max",
	} {
		t.Run(args, func(t *testing.T) {
			var got numbers
			var n counter
			echo := tool.Must(tool.Func(tool.Spec{Name: "echo"},
				func(_ context.Context, in numbers) (tool.Result[numbers], error) {
					n.add("echo")
					got = in
					return tool.Done(in), nil
				}))
			r := newRig(t, agent.Config{
				Model:        fakellm.New(fakellm.Calls("echo", args), fakellm.Says("I see.")),
				Tools:        []tool.Tool{echo},
				Interceptors: interceptor.Chain{interceptor.Approval(nil)},
			}, nil)
			run := r.say("Go.")
			if len(run.end.Pending) == 0 {
				res := of[event.Result](run.finished(event.FinishStop))
				if text := string(res[0].Result.Output); want == "" || want[0] == '{' ||
					res[0].Status != event.Failed || !strings.Contains(text, want) ||
					strings.Contains(text, "json:") {
					t.Errorf("it was refused: %s", text)
				}
				return
			}
			p := run.pause("echo")
			var edited map[string]json.RawMessage
			must(t, json.Unmarshal(p.Arguments, &edited))
			edited["small"] = json.RawMessage("7")
			r.restart()
			r.answer(runner.ApproveEdited(p.ID, "bob", "", edited)).finished(event.FinishStop)
			res := r.result(p.Call)
			if want == "" { // 1.0 or 1e3: it may be taken for the integer that it is
				want = map[int64]string{1: `{"id":1,"small":7}`,
					1000: `{"id":1000,"small":7}`}[got.ID]
			}
			if n.get("echo") != 1 || string(res.Output) != want {
				t.Errorf("the body got %+v, and the model reads %s", got, res.Output)
			}
			r.acceptable()
		})
	}
}

// TestUnknownToolPassesNoLayer: no approval is asked for what can't be run. Its
// siblings run.
func TestUnknownToolPassesNoLayer(t *testing.T) {
	var n counter
	var asked []string
	r := newRig(t, agent.Config{
		Model: fakellm.New(fakellm.Calls("nosuch", `{}`).And("ok", `{"text":"a"}`).And("ok",
			`{`).And("ok", `{"text":"b"}`), fakellm.Says("I see.")),
		Tools: []tool.Tool{instant("ok", tool.Once, &n)}, Concurrency: 1,
		Interceptors: interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{Policy: func(_ context.Context, c tool.Call) (interceptor.Verdict, error) {
			asked = append(asked, c.Tool+string(c.Arguments))
			return interceptor.Verdict{Ruling: interceptor.Allow}, nil
		}})},
	}, nil)
	run := r.say("Go.").finished(event.FinishStop)
	if got := strings.Join(asked, " "); got != `ok{"text":"a"} ok{"text":"b"}` || n.get("ok") != 2 {
		t.Errorf("the policy was asked about %s; ok was entered %d times", got, n.get("ok"))
	}
	if res := of[event.Result](run); len(res) != 4 ||
		!strings.Contains(string(res[0].Result.Output), "The tools are: ok.") {
		t.Errorf("the results are %v", res)
	}
	r.acceptable()
}
