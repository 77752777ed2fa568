package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

type script []llm.Message

func (s script) Generate(_ context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		n := 0
		for _, m := range r.Messages {
			if m.Role == llm.RoleAssistant {
				n++
			}
		}
		for _, p := range s[n].Parts {
			if !yield(llm.PartDone{Part: p}, nil) {
				return
			}
		}
		yield(llm.Finish{Reason: llm.StopEnd}, nil)
	}
}

type In struct {
	S string `json:"s"`
}
type Out struct {
	T string `json:"t"`
}

func TestSmoke(t *testing.T) {
	deploy := tool.Must(tool.Func(tool.Spec{Name: "deploy", Description: "d", Effect: tool.Idempotent, MayPause: true},
		func(ctx context.Context, in In) (tool.Result[Out], error) {
			fmt.Println("deploy body", tool.CallFrom(ctx).Token(), tool.CallFrom(ctx).IdempotencyKey())
			return tool.Pending[Out](tool.Await{Key: "job-1", Timeout: time.Hour}), nil
		}))
	weather := tool.Must(tool.Func(tool.Spec{Name: "weather", Description: "w"},
		func(ctx context.Context, in In) (tool.Result[Out], error) { return tool.Done(Out{T: in.S + " is 3C <&>"}), nil }))
	ag, err := agent.New(agent.Config{Name: "ops", Tools: []tool.Tool{deploy, weather}, Model: script{
		{Role: "assistant", Parts: []llm.Part{llm.ToolCall{Name: "deploy", Arguments: json.RawMessage(`{"s":"x"}`)}, llm.ToolCall{Name: "weather", Arguments: json.RawMessage(`{"s":"Oslo"}`)}, llm.ToolCall{Name: "nope"}}},
		llm.AssistantText("done."),
	}, Interceptors: interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"deploy"}})}})
	if err != nil {
		t.Fatal(err)
	}
	kv := kvstore.NewMemory()
	rn, err := runner.New(ag, session.NewStore(kv, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	show := func(seq iter.Seq2[event.Event, error]) (p tool.Pause) {
		for ev, err := range seq {
			b, _ := json.Marshal(ev)
			fmt.Printf("  %T %s %v\n", ev, b, err)
			if e, ok := ev.(event.Pause); ok {
				p = e.Pause
			}
		}
		return p
	}
	p := show(rn.Run(ctx, "ada", "chat-1", llm.UserText("hi"), nil))
	res, err := rn.Resume(ctx, "chat-1", runner.Approve(p.ID, "bob", "ok"))
	fmt.Println(res, err)
	p = show(res.Events(ctx))
	for i := 0; i < 2; i++ {
		res, err = rn.Resume(ctx, "chat-1", runner.Complete(p.ID, json.RawMessage(`{"t": "v5"}`), "ci"))
		fmt.Println(res.Receipts, err)
	}
	_, err = rn.Resume(ctx, "chat-1", runner.Complete(p.ID, json.RawMessage(`{"t": 5}`), "ci"))
	fmt.Println(err)
	fmt.Println(rn.Progress(ctx, "chat-1", p.Call, tool.Progress{Message: "x"}))
	show(res.Events(ctx))
	fmt.Println(rn.Progress(ctx, "chat-1", p.Call, tool.Progress{Message: "x"}))
	tr, err := rn.Show(ctx, "chat-1")
	b, _ := json.MarshalIndent(tr, "", " ")
	fmt.Println(string(b), err)
	st, err := rn.Call(ctx, "chat-1", p.Call)
	b, _ = json.MarshalIndent(st, "", " ")
	fmt.Println(string(b), err)
	page, _ := kv.Scan(ctx, kvstore.Range{})
	for _, e := range page.Entries {
		fmt.Printf("%q = %s\n", e.Key, e.Value)
	}
	fmt.Println(rn.Close())
}
