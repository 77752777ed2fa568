package interceptor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

const secret = "hunter2"

// logged returns what Log writes while f runs, one line a record, without
// times.
func logged(t *testing.T, f func(interceptor.Chain)) string {
	t.Helper()
	var buf bytes.Buffer
	drop := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "took" {
			return slog.Attr{}
		}
		return a
	}
	f(interceptor.Chain{interceptor.Log(slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{ReplaceAttr: drop})))})
	if strings.Contains(buf.String(), secret) {
		t.Errorf("the log has contents: %s", buf.String())
	}
	return buf.String()
}

func TestLogOfToolCalls(t *testing.T) {
	c := tool.Call{ID: "c1", Session: "chat-1", Tool: "refund", Attempt: 2, Arguments: json.RawMessage(`"` + secret + `"`)}
	for how, body := range map[string]interceptor.ToolHandler{
		"level=INFO outcome=done":   output,
		"level=INFO outcome=denied": func(context.Context, tool.Call) (tool.Execution, error) { return tool.Execution{}, tool.Denied(secret) },
		"level=WARN outcome=failed": func(context.Context, tool.Call) (tool.Execution, error) { return tool.Execution{}, errors.New(secret) },
		"level=INFO outcome=paused": func(context.Context, tool.Call) (tool.Execution, error) {
			return tool.Execution{Await: &tool.Await{Prompt: secret, Key: secret}}, nil
		},
	} {
		got := logged(t, func(chain interceptor.Chain) { _, _ = chain.WrapTool("refund", body)(t.Context(), c) })
		level, outcome, _ := strings.Cut(how, " ")
		if want := level + ` msg="tool call" session=chat-1 tool=refund call=c1 attempt=2 ` + outcome + "\n"; got != want {
			t.Errorf("%s: the log is %s", how, got)
		}
	}
}

// TestLogOfModelCalls: each has one line, however it ends. What a provider's
// error quotes stays out.
func TestLogOfModelCalls(t *testing.T) {
	finish := llm.Finish{Reason: llm.StopEnd, Usage: llm.Usage{Input: 7, Output: 3}}
	text := llm.TextDelta{Text: secret}
	for name, test := range map[string]struct {
		events []llm.Event
		err    error
		take   int // events after which the listener leaves; 0: never
		want   string
	}{
		"done":           {[]llm.Event{text, finish}, nil, 0, "INFO outcome=done stop=end input_tokens=7 output_tokens=3"},
		"left":           {[]llm.Event{text, text, finish}, nil, 1, "INFO outcome=left"},
		"cut off":        {[]llm.Event{text}, nil, 0, `WARN outcome="cut off"`},
		"refused":        {nil, &llm.Error{Kind: llm.ErrInvalid, Provider: "acme", RequestID: "r1", Err: errors.New(secret)}, 0, "ERROR outcome=failed error=invalid_request provider=acme request=r1"},
		"failed":         {[]llm.Event{text}, errors.New(secret), 0, "ERROR outcome=failed error=*errors.errorString"},
		"told to end":    {[]llm.Event{text}, context.Canceled, 0, `ERROR outcome=failed error="the context ended"`},
		"left at an end": {[]llm.Event{text, finish}, nil, 2, "INFO outcome=done stop=end input_tokens=7 output_tokens=3"},
	} {
		model := func(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
			return func(yield func(llm.Event, error) bool) {
				for _, ev := range test.events {
					if !yield(ev, nil) {
						return
					}
				}
				if test.err != nil {
					yield(nil, test.err)
				}
			}
		}
		r := llm.Request{
			System: secret, Messages: []llm.Message{llm.UserText(secret)}, Metadata: map[string]string{"session": "chat-1", "key": secret},
		}
		got := logged(t, func(chain interceptor.Chain) {
			n := 0
			for range chain.WrapModel(model)(t.Context(), r) {
				if n++; n == test.take {
					break
				}
			}
		})
		level, rest, _ := strings.Cut(test.want, " ")
		if want := "level=" + level + ` msg="model call" session=chat-1 messages=1 ` + rest + "\n"; got != want {
			t.Errorf("%s: the log is %s not %s", name, got, want)
		}
	}
}

// TestLogByDefault: without a logger of its own it takes the process's.
func TestLogByDefault(t *testing.T) {
	var buf bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&buf, nil)))
	if _, err := (interceptor.Chain{interceptor.Log(nil)}).WrapTool("refund", output)(t.Context(), call(`{}`)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(buf.String(), "tool=refund") {
		t.Errorf("the log is %s", buf.String())
	}
}
