// Command workflow books two trips by a list of steps. The hotel and the
// insurance need the flight, and are booked beside each other. The airline is
// busy at first, and is tried again. Then a person confirms the price, which may
// take days: meanwhile the process is replaced. Of the first trip the card is
// declined, and what was booked is taken back. The second one goes through.
//
//	go run ./examples/workflow
//
// It prints:
//
//	the airline is busy
//	trip-1 rests as paused
//	  step confirm is waiting
//	  step flight is done
//	  step hotel is done
//	  step insurance is done
//	trip-2 rests as paused
//	  step confirm is waiting
//	  step flight is done
//	  step hotel is done
//	  step insurance is done
//	-- everything was closed, and another process starts
//	a person is asked: Pay 31050 cents?
//	given back: a room
//	given back: a flight to Oslo
//	trip-1 rests as failed
//	  step "payment": the card is declined. Taken back: hotel, flight.
//	a person is asked: Pay 31050 cents?
//	it comes to: 31050 cents are paid
//	trip-2 rests as stop
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/examples/store"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

func main() {
	dir, err := os.MkdirTemp("", "workflow-")
	check(err)
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "fermata.db")
	ctx := context.Background()
	trips := []string{"trip-1", "trip-2"}

	rn, shut := open(file)
	for i, card := range []string{"empty", "4242"} {
		m, err := trip.Message(map[string]string{"to": "Oslo", "card": card})
		check(err)
		id := trips[i]
		show(rn.Run(ctx, "ada", id, m, nil))
		steps(ctx, rn, id)
	}
	shut()

	fmt.Println("-- everything was closed, and another process starts")
	rn, shut = open(file)
	defer shut()
	for _, id := range trips {
		h, err := rn.Fetch(ctx, id, "confirm", "ada") // the step that waits
		check(err)
		fmt.Println("a person is asked:", h.Pause.Await.Prompt)
		_, err = rn.Resume(ctx, h.Session, runner.Complete(h.Pause.ID, "ada", json.RawMessage(`31050`)))
		check(err)
		show(rn.Continue(ctx, id, "ada"))
	}
}

func open(file string) (rn *runner.Runner, shut func()) {
	db, err := store.Open(file)
	check(err)
	rn, err = runner.New(trip.Agent(), session.NewStore(db, nil), nil)
	check(err)
	return rn, func() { check(errors.Join(rn.Close(), db.Close())) }
}

// show prints what a workflow comes to.
func show(events iter.Seq2[event.Event, error]) {
	for ev := range events { // the error of one that fails is the End's
		switch ev := ev.(type) {
		case event.TextDelta:
			fmt.Println("it comes to:", ev.Delta)
		case event.End:
			fmt.Println(ev.Session, "rests as", ev.Finish)
			if ev.Why != "" {
				fmt.Println("  " + ev.Why)
			}
		}
	}
}

// steps prints how the steps of a workflow stand that have begun.
func steps(ctx context.Context, rn *runner.Runner, id string) {
	for h, err := range rn.Handles(ctx, id, runner.HandleFilter{}, "ada") {
		check(err)
		fmt.Println("  step", h.Name, "is", cmp.Or(h.Status, string(h.State)))
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
