// Command webhook takes the callbacks of an outside system that knows nothing
// of fermata: it signs what it sends, and names the job by an id of its own.
// For systems that take a URL from you, see examples/deploy.
//
//	go run ./examples/webhook
//
// It prints:
//
//	a forged delivery: 401 Unauthorized
//	an event that means nothing: 200 OK
//	a wrong result: 422 Unprocessable Entity
//	the result: 200 OK
//	the same once more: 200 OK
//	another result: 409 Conflict
//	model says: The payment has arrived.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/examples/store"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

// secret is shared with the payment service. Yours comes from the environment.
const secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"

// payments takes what the payment service signs. The member "payment" names the
// call, and those events that say that it is paid complete it. Others mean
// nothing, and are accepted.
func payments(rn *runner.Runner) (http.Handler, error) {
	service, err := webhook.StandardWebhooks(webhook.Secrets{
		Sender: "payments", Current: webhook.Fixed(secret),
	})
	if err != nil {
		return nil, err
	}
	return webhook.ByKey(rn, webhook.KeyConfig{
		Verifier: service, Tool: "pay", Key: "/payment",
		Map: func(e webhook.Event) ([]webhook.Action, error) {
			var in struct{ Result json.RawMessage }
			if err := json.Unmarshal(e.Data, &in); err != nil || in.Result == nil {
				return nil, err
			}
			return []webhook.Action{{Do: tool.PermitComplete, Payload: in.Result}}, nil
		},
	})
}

type PayInput struct {
	Cents int `json:"cents"`
}

type PayOutput struct {
	Paid bool `json:"paid"`
}

// pay gives the outside system's own id of the payment as the pause's key, and
// takes answers of that system alone.
var pay = tool.Must(tool.Func(
	tool.Spec{
		Name: "pay", Description: "Collect a payment.",
		Effect: tool.Idempotent, MayPause: true,
	},
	func(context.Context, PayInput) (tool.Result[PayOutput], error) {
		return tool.Pending[PayOutput](tool.Await{Key: "payment-77", Sender: "payments"}), nil
	}))

// model is a script in place of a model, so that the example needs no key.
var model = fakellm.New(
	fakellm.Calls("pay", `{"cents":500}`),
	fakellm.Says("The payment has arrived."))

func main() {
	ctx := context.Background()
	ag, err := agent.New(agent.Config{Name: "shop", Model: model, Tools: []tool.Tool{pay}})
	check(err)
	kv, err := store.Open("") // in memory, or what -store names
	check(err)
	defer kv.Close()
	rn, err := runner.New(ag, session.NewStore(kv, nil), nil)
	check(err)
	defer rn.Close()
	hook, err := payments(rn)
	check(err)
	server := httptest.NewServer(hook)
	defer server.Close()

	for _, err := range rn.Run(ctx, "ada", "chat-1", llm.UserText("Collect 5 euros."), nil) {
		check(err)
	}
	const forger = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	paid := `{"payment":"payment-77","result":{"paid":true}}`
	for _, try := range []struct{ what, id, body, secret string }{
		{"a forged delivery", "d-1", paid, forger},
		{"an event that means nothing", "d-2", `{"payment":"payment-77","seen":true}`, ""},
		{"a wrong result", "d-3", `{"payment":"payment-77","result":{"paid":"yes"}}`, ""},
		{"the result", "d-4", paid, ""},
		{"the same once more", "d-4", paid, ""},
		{"another result", "d-5", `{"payment":"payment-77","result":{"paid":false}}`, ""},
	} {
		req, err := http.NewRequest(http.MethodPost, server.URL, bytes.NewReader([]byte(try.body)))
		check(err)
		by := cmp.Or(try.secret, secret)
		check(webhook.Sign(req.Header, by, try.id, time.Now(), []byte(try.body)))
		res, err := http.DefaultClient.Do(req)
		check(err)
		res.Body.Close()
		fmt.Printf("%s: %s\n", try.what, res.Status)
	}
	for ev, err := range rn.Continue(ctx, "chat-1", "ada") { // in a service, rn.Work does this
		check(err)
		if ev, ok := ev.(event.TextDelta); ok {
			fmt.Println("model says:", ev.Delta)
		}
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
