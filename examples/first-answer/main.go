// Command first-answer has a tool that asks three suppliers, and takes the
// first offer. Each supplier has a URL of its own, to which it posts its offer.
// The session waits meanwhile. What comes when the tool has taken an offer is
// told so.
//
//	go run ./examples/first-answer
//
// It prints:
//
//	-- paused
//	bolts is told: 422 Unprocessable Entity
//	bolts is told: 200 OK
//	the result is "bolts sells it for 4200 cents"
//	the model says: The lamp is bought.
//	-- stop
//	acme is told: 410 Gone
//	corner is told: 410 Gone
//	bolts is told: 200 OK, a duplicate
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
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

type BuyInput struct {
	Item string `json:"item"`
}

type Offer struct {
	Cents int `json:"cents"`
}

// A supplier's offer is an event whose name is the supplier's.
var (
	acme    = tool.Must(tool.NewEvent[Offer]("acme"))
	bolts   = tool.Must(tool.NewEvent[Offer]("bolts"))
	corner  = tool.Must(tool.NewEvent[Offer]("corner"))
	sellers = []*tool.Event[Offer]{acme, bolts, corner}
)

// tokens is what the suppliers are given, each a token for its own event alone.
var tokens = map[string]string{}

// buy asks all suppliers, and is entered again with the first offer.
var buy = tool.Must(tool.Func(
	tool.Spec{
		Name: "buy", Description: "Buy something from the first supplier that offers it.",
		Effect: tool.Idempotent, MayPause: true,
		Mailbox: []tool.MailboxEvent{acme.Spec(), bolts.Spec(), corner.Spec()},
	},
	func(ctx context.Context, in BuyInput) (tool.Result[string], error) {
		call := tool.CallFrom(ctx)
		for _, seller := range sellers {
			offers, err := seller.From(call)
			if err != nil {
				return nil, err
			}
			if len(offers) > 0 && call.Mail[0].Name == seller.Name() { // the first to come
				return tool.Done(fmt.Sprintf("%s sells it for %d cents",
					seller.Name(), offers[0].Value.Cents)), nil
			}
		}
		if call.Answer != nil { // the time is over
			return nil, fmt.Errorf("no supplier has offered %s", in.Item)
		}
		for _, seller := range sellers {
			tokens[seller.Name()] = call.MailToken(seller.Name())
		}
		first := tool.AnyOf() // of all that the tool takes
		first.Timeout, first.OnTimeout = 48*time.Hour, tool.ReenterOnTimeout
		return tool.Pending[string](first), nil
	}))

// model is a script in place of a model, so that the example needs no key.
var model = fakellm.New(
	fakellm.Calls("buy", `{"item":"a lamp"}`),
	fakellm.Says("The lamp is bought."))

func main() {
	ctx := context.Background()
	ag, err := agent.New(agent.Config{Name: "shop", Model: model, Tools: []tool.Tool{buy}})
	check(err)
	kv, err := store.Open("") // in memory, or what -store names
	check(err)
	defer kv.Close()
	rn, err := runner.New(ag, session.NewStore(kv, nil), nil)
	check(err)
	defer rn.Close()
	hooks, err := webhook.New(rn, webhook.Config{})
	check(err)
	server := httptest.NewServer(hooks)
	defer server.Close()

	show(rn.Run(ctx, "ada", "chat-1", llm.UserText("Buy a lamp."), nil))

	offer(server.URL, "bolts", "offer-7", `{"cents":"little"}`)
	offer(server.URL, "bolts", "offer-7", `{"cents":4200}`)
	show(rn.Continue(ctx, "chat-1", "ada")) // in a service, rn.Work does this
	offer(server.URL, "acme", "a-1", `{"cents":3900}`)
	offer(server.URL, "corner", "77", `{"cents":4100}`)
	offer(server.URL, "bolts", "offer-7", `{"cents":4200}`) // senders deliver twice
}

// offer is a supplier that posts its offer. Its id makes that safe to repeat.
func offer(server, seller, id, body string) {
	url := webhook.URL(server+"/hooks", tokens[seller]) + "/event/" + seller
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	check(err)
	req.Header.Set("Webhook-Id", id)
	res, err := http.DefaultClient.Do(req)
	check(err)
	defer res.Body.Close()
	var told struct{ Duplicate bool }
	check(json.NewDecoder(res.Body).Decode(&told))
	if told.Duplicate {
		res.Status += ", a duplicate"
	}
	fmt.Println(seller, "is told:", res.Status)
}

func show(events iter.Seq2[event.Event, error]) {
	for ev, err := range events {
		check(err)
		switch ev := ev.(type) {
		case event.Result:
			fmt.Println("the result is", string(ev.Result.Output))
		case event.TextDelta:
			fmt.Println("the model says:", ev.Delta)
		case event.End:
			fmt.Println("--", ev.Finish)
		}
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
