package workflow_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/workflow"
)

// A trip is booked: the hotel and the flight beside each other. The hotel has no
// room, so the flight is taken back.
func Example() {
	type booking struct {
		Place string `json:"place"`
	}
	book := func(name string, f func(booking) (string, error)) tool.Tool {
		return tool.Must(tool.Func(tool.Spec{Name: name, Effect: tool.Idempotent},
			func(_ context.Context, in booking) (tool.Result[string], error) {
				return tool.Of(f(in))
			}))
	}
	flight := book("flight", func(in booking) (string, error) { return "seat 7 to " + in.Place, nil })
	hotel := book("hotel", func(in booking) (string, error) {
		return "", fmt.Errorf("there is no room in %s", in.Place)
	})
	giveBack := book("give_back", func(in booking) (string, error) {
		fmt.Println("given back:", in.Place)
		return "", nil
	})

	place := map[string]any{"place": workflow.Input("/place")}
	trip, err := workflow.New("trip").
		Step("flight", flight, place, &workflow.StepOptions{Compensate: "flight-back"}).
		Step("hotel", hotel, place, nil).
		Step("flight-back", giveBack, map[string]any{"place": workflow.From("flight", "")}, nil).
		Build(nil)
	if err != nil {
		log.Fatal(err)
	}
	rn, err := runner.New(trip.Agent(), session.NewStore(kvstore.NewMemory(), nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer rn.Close()
	m, err := trip.Message(booking{"Oslo"})
	if err != nil {
		log.Fatal(err)
	}
	for ev := range rn.Run(context.Background(), "ada", "trip-1", m, nil) {
		if end, ok := ev.(event.End); ok {
			fmt.Println(end.Finish, "-", end.Why)
		}
	}
	// Output:
	// given back: seat 7 to Oslo
	// failed - step "hotel": there is no room in Oslo. Taken back: flight.
}
