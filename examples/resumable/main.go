// Command resumable has a tool that asks two questions, and then acts. Each
// question has answers of its own type, and keeps what the tool has found out.
//
//	go run ./examples/resumable
//
// It prints:
//
//	tool searches flights to Oslo
//	tool asks: Which flight? [{"flight":"SK1","euros":120},{"flight":"DY2","euros":80}]
//	ada answers: {"offer": 0}
//	refused, since it doesn't fit the schema
//	ada answers: {"offer": 3}
//	tool asks: There is no such offer. Which flight? [{"flight":"SK1","euros":120},{"flight":"DY2","euros":80}]
//	ada answers: {"offer": 2}
//	tool asks: DY2 costs 80 euros. Book it? {"flight":"DY2","euros":80}
//	ada answers: {}
//	refused, since it doesn't fit the schema
//	ada answers: true
//	tool books DY2 for 80 euros
//	model says: You fly with DY2.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/examples/store"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

type BookInput struct {
	To string `json:"to"`
}

// Offer is one of the flights that were found. Offers are the tool's state.
type Offer struct {
	Flight string `json:"flight"`
	Euros  int    `json:"euros"`
}

// Choice is what a person answers. A form can be made of its schema.
type Choice struct {
	Offer int `json:"offer" jsonschema:"description=Number of the offer,minimum=1"`
}

type Booking struct {
	Flight string `json:"flight"`
}

// The tool's questions. With the first one the offers are kept, and with the
// second one the offer that was chosen.
var (
	whichFlight = tool.NewQuestion[Booking, []Offer, Choice]("which_flight")
	bookIt      = tool.NewQuestion[Booking, Offer, bool]("book_it")
)

// book runs one of its functions at a time, perhaps in another process than the
// one before, and days later.
var book = tool.Must(tool.Resumable(
	tool.Spec{Name: "book_flight", Description: "Book a flight."},
	func(_ context.Context, in BookInput) (tool.Result[Booking], error) {
		fmt.Println("tool searches flights to", in.To)
		return whichFlight.Ask("Which flight?", []Offer{{"SK1", 120}, {"DY2", 80}}), nil
	},
	tool.On(whichFlight, func(
		_ context.Context, _ BookInput, re tool.Reply[[]Offer, Choice],
	) (tool.Result[Booking], error) {
		if re.Answer.Offer > len(re.State) {
			return whichFlight.Ask("There is no such offer. Which flight?", re.State), nil
		}
		chosen := re.State[re.Answer.Offer-1]
		return bookIt.Ask(fmt.Sprintf("%s costs %d euros. Book it?", chosen.Flight, chosen.Euros),
			chosen), nil
	}),
	tool.On(bookIt, func(
		_ context.Context, _ BookInput, re tool.Reply[Offer, bool],
	) (tool.Result[Booking], error) {
		if !re.Answer {
			return nil, errors.New("the customer doesn't want the flight")
		}
		fmt.Printf("tool books %s for %d euros\n", re.State.Flight, re.State.Euros)
		return tool.Done(Booking{re.State.Flight}), nil
	})))

// model is a script in place of a model, so that the example needs no key.
var model = fakellm.New(
	fakellm.Calls("book_flight", `{"to":"Oslo"}`),
	fakellm.Says("You fly with DY2."))

func main() {
	ctx := context.Background()
	ag, err := agent.New(agent.Config{Name: "travel", Model: model, Tools: []tool.Tool{book}})
	check(err)
	kv, err := store.Open("") // in memory, or what -store names
	check(err)
	defer kv.Close()
	rn, err := runner.New(ag, session.NewStore(kv, nil), nil)
	check(err)
	defer rn.Close()

	question := show(rn.Run(ctx, "ada", "chat-1", llm.UserText("Book me a flight to Oslo."), nil))
	for _, choice := range []string{
		`{"offer": 0}`, `{"offer": 3}`, `{"offer": 2}`, `{}`, `true`,
	} {
		fmt.Println("ada answers:", choice)
		answer := runner.Complete(question.ID, "ada", json.RawMessage(choice))
		res, err := rn.Resume(ctx, "chat-1", answer)
		if err != nil {
			fmt.Println("refused, since it doesn't fit the schema")
			continue // the same question is still open
		}
		question = show(res.Events(ctx)) // the tool may ask again: a new pause
	}
}

// show prints a run, and returns the question that it ends with.
func show(events iter.Seq2[event.Event, error]) (question tool.Pause) {
	for ev, err := range events {
		check(err)
		switch ev := ev.(type) {
		case event.Pause:
			question = ev.Pause
			fmt.Println("tool asks:", ev.Pause.Await.Prompt, string(ev.Pause.Await.Data))
		case event.TextDelta:
			fmt.Println("model says:", ev.Delta)
		}
	}
	return question
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
