// Command webhook takes the callbacks of an outside system that knows nothing
// of fermata: it signs its deliveries, and names the job by an id of its own.
// The handler is written by hand. For systems that take a URL from you, package
// webhook has a handler: see examples/deploy.
//
//	go run ./examples/webhook
//
// It prints:
//
//	a forged delivery: 401 Unauthorized
//	a wrong result: 422 Unprocessable Entity
//	accepted; duplicate: false
//	the result: 200 OK
//	accepted; duplicate: true
//	the same once more: 200 OK
//	refused: delivery d-1 came first
//	another result: 409 Conflict
//	model says: The payment has arrived.
package main

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

type PayInput struct {
	Cents int `json:"cents"`
}

type PayOutput struct {
	Paid bool `json:"paid"`
}

// pay gives the outside system's own id of the payment as the pause's key.
var pay = tool.Must(tool.Func(
	tool.Spec{
		Name: "pay", Description: "Collect a payment.",
		Effect: tool.Idempotent, MayPause: true,
	},
	func(context.Context, PayInput) (tool.Result[PayOutput], error) {
		return tool.Pending[PayOutput](tool.Await{Key: "payment-77"}), nil
	}))

// model is a script in place of a model, so that the example needs no key.
var model = fakellm.New(
	fakellm.Calls("pay", `{"cents":500}`),
	fakellm.Says("The payment has arrived."))

var secret = []byte("shared with the payment service")

// delivery is what the payment service sends.
type delivery struct {
	ID      string          `json:"id"`
	Payment string          `json:"payment"`
	Result  json.RawMessage `json:"result"`
}

// receive checks the signature, finds the pause by the service's own id, and
// answers it. Status has the right HTTP status for each refusal.
func receive(rn *runner.Runner) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			w.WriteHeader(webhook.Status(err))
			return
		}
		var d delivery
		signed := hmac.Equal([]byte(r.Header.Get("Signature")), []byte(sign(body)))
		if !signed || json.Unmarshal(body, &d) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		p, err := rn.Find(r.Context(), runner.Ref{Tool: "pay", Key: d.Payment}, "payments")
		if err == nil {
			answer := runner.Complete(p.ID, "payments", d.Result)
			answer.Delivery = d.ID // kept with the receipt
			var res *runner.Resumed
			if res, err = rn.Resume(r.Context(), p.Session, answer); err == nil {
				fmt.Println("accepted; duplicate:", res.Receipts[0].Duplicate)
			}
		}
		var first *session.ConflictError
		if errors.As(err, &first) {
			fmt.Println("refused: delivery", first.Receipt.Delivery, "came first")
		}
		w.WriteHeader(webhook.Status(err))
	}
}

func main() {
	ctx := context.Background()
	ag, err := agent.New(agent.Config{Name: "shop", Model: model, Tools: []tool.Tool{pay}})
	check(err)
	rn, err := runner.New(ag, session.NewStore(kvstore.NewMemory(), nil), nil)
	check(err)
	defer rn.Close()
	server := httptest.NewServer(receive(rn))
	defer server.Close()

	for _, err := range rn.Run(ctx, "ada", "chat-1", llm.UserText("Collect 5 euros."), nil) {
		check(err)
	}
	paid := `{"id":"d-1","payment":"payment-77","result":{"paid":true}}`
	for _, try := range []struct{ what, body, signature string }{
		{"a forged delivery", paid, "forged"},
		{"a wrong result", `{"id":"d-0","payment":"payment-77","result":{"paid":"yes"}}`, ""},
		{"the result", paid, ""},
		{"the same once more", paid, ""},
		{"another result", `{"id":"d-2","payment":"payment-77","result":{"paid":false}}`, ""},
	} {
		req := httptest.NewRequest(http.MethodPost, server.URL, strings.NewReader(try.body))
		req.RequestURI = ""
		req.Header.Set("Signature", cmp.Or(try.signature, sign([]byte(try.body))))
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

func sign(body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
