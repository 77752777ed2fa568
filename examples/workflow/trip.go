package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/workflow"
)

type Place struct {
	To string `json:"to"`
}

type Booking struct {
	What  string `json:"what"`
	Cents int    `json:"cents"`
}

type Bill struct {
	Flight    Booking `json:"flight"`
	Hotel     Booking `json:"hotel"`
	Insurance Booking `json:"insurance"`
}

type Payment struct {
	Card  string `json:"card"`
	Cents int    `json:"cents"`
}

// step is a tool of a Go function. What it does, it does once for each
// idempotency key, so it may be entered again after a crash.
func step[In, Out any](name string, f func(In) (Out, error)) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: name, Effect: tool.Idempotent},
		func(_ context.Context, in In) (tool.Result[Out], error) { return tool.Of(f(in)) }))
}

// busy is how often the airline turns a call away.
var busy = 1

var (
	flight = step("book_flight", func(in Place) (Booking, error) {
		if busy > 0 {
			busy--
			fmt.Println("the airline is busy")
			return Booking{}, errors.New("the airline is busy")
		}
		return Booking{"a flight to " + in.To, 21000}, nil
	})
	hotel = step("book_hotel", func(Booking) (Booking, error) {
		return Booking{"a room", 9000}, nil
	})
	insure = step("insure", func(of Booking) (Booking, error) {
		return Booking{"insurance of " + of.What, of.Cents / 20}, nil
	})
	giveBack = step("give_back", func(in Booking) (string, error) {
		fmt.Println("given back:", in.What)
		return "", nil
	})
	pay = step("pay", func(in Payment) (string, error) {
		if in.Card == "empty" {
			return "", errors.New("the card is declined")
		}
		return fmt.Sprintf("%d cents are paid", in.Cents), nil
	})
	// confirm asks a person, whose answer is the price that is paid.
	confirm = tool.Must(tool.Func(
		tool.Spec{Name: "confirm", Effect: tool.Idempotent, MayPause: true},
		func(_ context.Context, in Bill) (tool.Result[int], error) {
			all := in.Flight.Cents + in.Hotel.Cents + in.Insurance.Cents
			return tool.NeedInput[int](fmt.Sprintf("Pay %d cents?", all)), nil
		}))
)

// booking refers to what a step has booked.
func booking(step string) map[string]any {
	return map[string]any{
		"what": workflow.From(step, "/what"), "cents": workflow.From(step, "/cents"),
	}
}

// trip is the list. It is checked here, and stored when a trip begins.
var trip = tool.Must(workflow.New("trip").
	Step("flight", flight, map[string]any{"to": workflow.Input("/to")},
		&workflow.StepOptions{Retry: &workflow.Retry{Times: 3}, Compensate: "flight-back"}).
	Step("hotel", hotel, booking("flight"), &workflow.StepOptions{Compensate: "hotel-back"}).
	Step("insurance", insure, booking("flight"), nil).
	Step("confirm", confirm, map[string]any{
		"flight": workflow.From("flight", ""), "hotel": workflow.From("hotel", ""),
		"insurance": workflow.From("insurance", ""),
	}, nil).
	Step("payment", pay, map[string]any{
		"card": workflow.Input("/card"), "cents": workflow.From("confirm", ""),
	}, nil).
	Step("flight-back", giveBack, booking("flight"), nil).
	Step("hotel-back", giveBack, booking("hotel"), nil).
	Output(workflow.From("payment", "")).
	Build(nil))
