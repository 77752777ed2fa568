package webhook_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

// An outside job is given a URL to call back, and calls it twice.
func Example() {
	var callback string
	render := tool.Must(
		tool.Func(tool.Spec{Name: "render", Effect: tool.Idempotent, MayPause: true},
			func(ctx context.Context, _ struct{}) (tool.Result[string], error) {
				callback = webhook.URL("/hooks", tool.CallFrom(ctx).Token())
				return tool.Pending[string](tool.Await{}), nil
			}))
	model := fakellm.New(fakellm.Calls("render", `{}`), fakellm.Says("The film is ready."))
	ag, err := agent.New(agent.Config{Name: "studio", Model: model, Tools: []tool.Tool{render}})
	check(err)
	rn, err := runner.New(ag, session.NewStore(kvstore.NewMemory(), nil), nil)
	check(err)
	defer rn.Close()
	hooks, err := webhook.New(rn, webhook.Config{})
	check(err)
	mux := http.NewServeMux()
	mux.Handle("/hooks/", hooks)
	server := httptest.NewServer(mux)
	defer server.Close()

	for _, err := range rn.Run(context.Background(), "ada", "chat-1",
		llm.UserText("Render it."), nil) {
		check(err)
	}
	for range 2 {
		res, err := http.Post(server.URL+callback, "application/json",
			strings.NewReader(`"film.mp4"`))
		check(err)
		var body bytes.Buffer
		_, err = body.ReadFrom(res.Body)
		check(err)
		res.Body.Close()
		fmt.Println(res.StatusCode, "duplicate:",
			strings.Contains(body.String(), `"duplicate":true`))
	}
	for ev, err := range rn.Continue(context.Background(), "chat-1", "ada") {
		check(err)
		if text, ok := ev.(event.TextDelta); ok {
			fmt.Println(text.Delta)
		}
	}
	// Output:
	// 200 duplicate: false
	// 200 duplicate: true
	// The film is ready.
}

// A person decides by a button in a chat, which posts to a URL that was made
// for that one decision and that person.
func Example_decision() {
	refund := tool.Must(tool.Func(tool.Spec{Name: "refund"},
		func(context.Context, struct{}) (tool.Result[string], error) {
			return tool.Done("refunded"), nil
		}))
	ag, err := agent.New(agent.Config{
		Name: "shop", Tools: []tool.Tool{refund},
		Interceptors: interceptor.Chain{interceptor.Approval(nil)},
		Model:        fakellm.New(fakellm.Calls("refund", `{}`), fakellm.Says("You get it back.")),
	})
	check(err)
	rn, err := runner.New(ag, session.NewStore(kvstore.NewMemory(), nil), nil)
	check(err)
	defer rn.Close()
	hooks, err := webhook.New(rn, webhook.Config{})
	check(err)

	ctx := context.Background()
	for _, err := range rn.Run(ctx, "ada", "chat-1", llm.UserText("I want my money back."), nil) {
		check(err)
	}
	for p, err := range rn.Pending(ctx,
		session.PauseFilter{Reason: tool.ReasonApproval}, "chat-bot") {
		check(err)
		yes, err := rn.MintToken(ctx, runner.Grant{
			Session: p.Session, Pause: p.ID, Permits: []tool.Permit{tool.PermitApprove},
			Holder: "grace",
		}, "chat-bot")
		check(err)
		button := httptest.NewRequest(http.MethodPost, webhook.URL("/hooks", yes)+"/approve", nil)
		clicked := httptest.NewRecorder()
		hooks.ServeHTTP(clicked, button)
		fmt.Println(clicked.Code)
	}
	for ev, err := range rn.Continue(ctx, "chat-1", "worker") {
		check(err)
		if text, ok := ev.(event.TextDelta); ok {
			fmt.Println(text.Delta)
		}
	}
	// Output:
	// 200
	// You get it back.
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
