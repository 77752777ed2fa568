// Command editedapproval approves a call with other arguments than the model
// chose. A web form shows the arguments, a person changes them, and the tool
// runs with what the person wrote.
//
//	go run ./examples/editedapproval
//
// It prints:
//
//	approval asks: Run refund? {"order":"7","cents":1000}
//	grace writes: -500
//	handler answers: 422 Unprocessable Entity
//	grace writes: 500
//	handler answers: 200 OK
//	refund pays 500 cents for order 7
//	model reads: "paid 500 cents"
//	model says: Half of it is on its way.
package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/examples/store"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

type RefundInput struct {
	Order string `json:"order"`
	Cents int    `json:"cents" jsonschema:"minimum=1"`
}

var refund = tool.Must(tool.Func(
	tool.Spec{Name: "refund", Description: "Refund an order."},
	func(_ context.Context, in RefundInput) (tool.Result[string], error) {
		fmt.Printf("refund pays %d cents for order %s\n", in.Cents, in.Order)
		return tool.Done(fmt.Sprintf("paid %d cents", in.Cents)), nil
	}))

// model is a script in place of a model, so that the example needs no key.
var model = fakellm.New(
	fakellm.Calls("refund", `{"order":"7","cents":1000}`),
	fakellm.Says("Half of it is on its way."))

func main() {
	ctx := context.Background()
	ag, err := agent.New(agent.Config{
		Name: "shop", Model: model, Tools: []tool.Tool{refund},
		Interceptors: interceptor.Chain{interceptor.Approval(nil)},
	})
	check(err)
	kv, err := store.Open("") // in memory, or what -store names
	check(err)
	defer kv.Close()
	rn, err := runner.New(ag, session.NewStore(kv, nil), nil)
	check(err)
	defer rn.Close()

	// The form's handler. The form has the pause's id, and the new amount.
	// A real handler knows from its login who decides.
	mux := http.NewServeMux()
	mux.HandleFunc("POST /decide", func(w http.ResponseWriter, r *http.Request) {
		cents, err := strconv.Atoi(r.FormValue("cents"))
		if err != nil {
			http.Error(w, "cents is no number", http.StatusBadRequest)
			return
		}
		p, err := rn.Find(r.Context(), runner.Ref{Pause: r.FormValue("pause")}, "grace")
		if err == nil {
			edited := RefundInput{Order: r.FormValue("order"), Cents: cents}
			decision := runner.ApproveEdited(p.ID, "grace", "half of it", edited)
			_, err = rn.Resume(r.Context(), p.Session, decision)
		}
		w.WriteHeader(webhook.Status(err))
		if err != nil {
			fmt.Fprint(w, webhook.Detail(err)) // it names the field, and no people
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()

	var waiting tool.Pause
	for ev, err := range rn.Run(ctx, "bob", "chat-1", llm.UserText("Please refund order 7."), nil) {
		check(err)
		if ev, ok := ev.(event.Pause); ok {
			waiting = ev.Pause
			fmt.Println("approval asks:", ev.Pause.Await.Prompt, string(ev.Pause.Arguments))
		}
	}

	// Edited arguments have to fit the tool's schema. What doesn't fit is
	// refused, and the call waits on.
	for _, cents := range []string{"-500", "500"} {
		fmt.Println("grace writes:", cents)
		form := url.Values{"pause": {waiting.ID}, "order": {"7"}, "cents": {cents}}
		res, err := http.PostForm(server.URL+"/decide", form)
		check(err)
		fmt.Println("handler answers:", res.Status)
		res.Body.Close()
	}

	for ev, err := range rn.Continue(ctx, "chat-1", "bob") {
		check(err)
		switch ev := ev.(type) {
		case event.Result:
			fmt.Println("model reads:", string(ev.Result.Output))
		case event.TextDelta:
			fmt.Println("model says:", ev.Delta)
		}
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
