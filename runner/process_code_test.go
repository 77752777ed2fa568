package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

type numbers struct {
	ID    int64  `json:"id"`
	Max   uint64 `json:"max,omitempty"`
	Small uint8  `json:"small,omitempty"`
}

// TestNumbers: those that fit arrive exactly, through a gate that edits a neighbour, the store, a restart, and back to the model.
// Those that don't fit are the model's to correct, in words of the schema rather than of a decoder.
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
			echo := tool.Must(tool.Func(tool.Spec{Name: "echo"}, func(_ context.Context, in numbers) (tool.Result[numbers], error) {
				n.add("echo")
				got = in
				return tool.Done(in), nil
			}))
			r := newRig(t, agent.Config{
				Model: fakellm.New(fakellm.Calls("echo", args), fakellm.Says("I see.")), Tools: []tool.Tool{echo},
				Interceptors: interceptor.Chain{interceptor.Approval(nil)},
			}, nil)
			run := r.say("Go.")
			if len(run.end.Pending) == 0 {
				res := of[event.Result](run.finished(event.FinishStop))
				if text := string(res[0].Result.Output); want == "" || want[0] == '{' || res[0].Status != event.Failed || !strings.Contains(text, want) || strings.Contains(text, "json:") {
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
				want = map[int64]string{1: `{"id":1,"small":7}`, 1000: `{"id":1000,"small":7}`}[got.ID]
			}
			if n.get("echo") != 1 || string(res.Output) != want {
				t.Errorf("the body got %+v, and the model reads %s", got, res.Output)
			}
			r.acceptable()
		})
	}
}

// Types that panic when they are read or written.
type (
	panicsOnRead  struct{ Text string }
	panicsOnWrite struct{ Text string }
)

func (*panicsOnRead) UnmarshalJSON([]byte) error       { panic("cannot be read") }
func (panicsOnWrite) MarshalJSON() ([]byte, error)     { panic("cannot be written") }
func (panicsOnRead) MarshalJSON() ([]byte, error)      { return []byte(`"x"`), nil }
func (*panicsOnWrite) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, new(any)) }

// TestCodecsThatPanic: it is the call's result, and nobody else's.
func TestCodecsThatPanic(t *testing.T) {
	var n counter
	var log bytes.Buffer
	var mu sync.Mutex
	read := tool.Must(tool.Func(tool.Spec{Name: "read"}, func(context.Context, struct {
		Value panicsOnRead `json:"value"`
	}) (tool.Result[string], error) {
		n.add("read")
		return tool.Done("never"), nil
	}))
	write := tool.Must(tool.Func(tool.Spec{Name: "write"}, func(context.Context, textIn) (tool.Result[panicsOnWrite], error) {
		n.add("write")
		return tool.Done(panicsOnWrite{}), nil
	}))
	r := newRig(t, agent.Config{
		Model: fakellm.New(fakellm.Calls("read", `{"value":"x"}`).And("write", `{"text":"a"}`).And("ok", `{"text":"b"}`), fakellm.Says("I see.")),
		Tools: []tool.Tool{read, write, instant("ok", tool.Once, &n)}, Concurrency: 1,
	}, &rigOptions{runner: &runner.Options{Logger: slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))}})
	res := of[event.Result](r.say("Go.").finished(event.FinishStop))
	for i, want := range []string{"cannot be read", "cannot be written", `"b"`} {
		text := string(res[i].Result.Output)
		if !strings.Contains(text, want) || res[i].Result.Error != (i < 2) || strings.Contains(text, ".go:") {
			t.Errorf("result %d is %s", i, text)
		}
	}
	if n.get("read") != 0 || n.get("write") != 1 || n.get("ok") != 1 {
		t.Errorf("bodies were entered %v", n.n)
	}
	if !strings.Contains(log.String(), "codec_test.go") {
		t.Errorf("the log has no stack: %s", log.String())
	}
	r.acceptable()
}

// TestUnknownToolPassesNoLayer: nobody is asked to approve what can't be run. Its siblings run.
func TestUnknownToolPassesNoLayer(t *testing.T) {
	var n counter
	var asked []string
	r := newRig(t, agent.Config{
		Model: fakellm.New(fakellm.Calls("nosuch", `{}`).And("ok", `{"text":"a"}`).And("ok", `{`).And("ok", `{"text":"b"}`), fakellm.Says("I see.")),
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
	if res := of[event.Result](run); len(res) != 4 || !strings.Contains(string(res[0].Result.Output), "The tools are: ok.") {
		t.Errorf("the results are %v", res)
	}
	r.acceptable()
}
