// Command team has an agent with two others as its tools. Both work at once,
// and one of them asks a person. The process ends while that waits. The next
// one finds the question with the path to it, and the answer carries the whole
// team on.
//
//	go run ./examples/team
//
// It prints:
//
//	planner
//	  calls forecaster
//	  calls booker
//	  reads {"Sky":"clear","Degrees":21}
//	  ends: paused
//
//	planner > booker
//	  calls choose
//	  ends: paused
//
//	planner > forecaster
//	  calls measure
//	  reads 21
//	  says {"Sky":"clear","Degrees":21}
//	  ends: stop
//
//	The process has ended. Another one opens the file.
//
//	planner > booker asks: Which hotel in Oslo, Grand or Plaza?
//
//	planner
//	  reads "A room is booked."
//	  says Friday will be clear, and you sleep at the Plaza.
//	  ends: stop
//
//	planner > booker
//	  reads "Plaza"
//	  says A room is booked.
//	  ends: stop
package main

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/examples/store"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/agenttool"
)

// Trip is what the planner hands to each of its two agents.
type Trip struct{ City, Day string }

// Weather is what the forecaster's last message has to be.
type Weather struct {
	Sky     string
	Degrees int
}

// asked is closed when the traveller has been asked.
var asked = make(chan struct{})

// choose is the booker's tool. It asks the traveller, who may take days.
var choose = tool.Must(tool.Func(tool.Spec{Name: "choose", MayPause: true},
	func(_ context.Context, in Trip) (tool.Result[string], error) {
		defer close(asked)
		return tool.NeedInput[string]("Which hotel in " + in.City + ", Grand or Plaza?"), nil
	}))

// measure is the forecaster's tool. It returns only after the booker has asked,
// and does so since both agents work at once.
var measure = tool.Must(tool.Func(tool.Spec{Name: "measure", Effect: tool.ReadOnly},
	func(context.Context, Trip) (tool.Result[int], error) {
		<-asked
		return tool.Done(21), nil
	}))

// team makes the planner, with two agents as its tools. Scripts are in place of
// models, so that the example needs no key.
func team() *agent.Agent {
	const oslo = `{"City":"Oslo","Day":"Friday"}`
	forecaster := must(agent.New(agent.Config{Name: "forecaster", Tools: []tool.Tool{measure},
		Model: fakellm.New(fakellm.Calls("measure", oslo),
			fakellm.Says(`{"Sky":"clear","Degrees":21}`))}))
	booker := must(agent.New(agent.Config{Name: "booker", Tools: []tool.Tool{choose},
		Model: fakellm.New(fakellm.Calls("choose", oslo), fakellm.Says("A room is booked."))}))
	weather := must(agenttool.New[Trip, Weather](forecaster, &agenttool.Options[Trip]{
		Description: "Tells the weather of a day in a city.",
		Template:    "What will the weather in {{.City}} be like on {{.Day}}?",
	}))
	hotel := must(agenttool.New[Trip, string](booker, &agenttool.Options[Trip]{
		Description: "Books a hotel, and asks the traveller which.",
		Template:    "Book a hotel in {{.City}} for {{.Day}}.",
	}))
	return must(agent.New(agent.Config{Name: "planner", Tools: []tool.Tool{weather, hotel},
		Model: fakellm.New(fakellm.Calls("forecaster", oslo).And("booker", oslo),
			fakellm.Says("Friday will be clear, and you sleep at the Plaza."))}))
}

func main() {
	dir := must(os.MkdirTemp("", "team"))
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "sessions.db")
	process(file, func(ctx context.Context, rn *runner.Runner) {
		show(rn.Run(ctx, "ada", "chat-1", llm.UserText("Plan my Friday in Oslo."), nil))
	})
	fmt.Println("\nThe process has ended. Another one opens the file.")
	process(file, func(ctx context.Context, rn *runner.Runner) {
		// What people are to answer is listed at the session that ada knows.
		filter := session.PauseFilter{Session: "chat-1", People: true}
		for p, err := range rn.Pending(ctx, filter, "ada") {
			who := above(must(p, err).Path) + p.Agent
			fmt.Printf("\n%s asks: %s\n", who, p.Await.Prompt)
			// The answer goes to where the pause is. Events carries on all of the team.
			res := must(rn.Resume(ctx, p.Session, must(runner.FromText(p, "ada", "Plaza"))))
			show(res.Events(ctx))
		}
	})
}

// process is what one process does with the file.
func process(file string, do func(context.Context, *runner.Runner)) {
	db := must(store.Open(file))
	defer db.Close()
	rn := must(runner.New(team(), session.NewStore(db, nil), nil))
	defer rn.Close()
	do(context.Background(), rn)
}

// show prints what each agent does: one after the other, also where they work at
// once, so that the output is the same each time.
func show(events iter.Seq2[event.Event, error]) {
	did := map[string]string{}
	for ev, err := range events {
		must(ev, err)
		who := "planner"
		if nested, ok := ev.(event.Nested); ok { // by an agent below it
			who, ev = above(nested.Path)+nested.Agent, nested.Event
		}
		switch ev := ev.(type) {
		case event.Call:
			did[who] += "  calls " + ev.Call.Name + "\n"
		case event.Result:
			did[who] += "  reads " + string(ev.Result.Output) + "\n"
		case event.TextDelta:
			did[who] += "  says " + ev.Delta + "\n"
		case event.End:
			did[who] += "  ends: " + string(ev.Finish) + "\n"
		}
	}
	for _, who := range slices.Sorted(maps.Keys(did)) {
		fmt.Printf("\n%s\n%s", who, did[who])
	}
}

// above names the agents above one, from the top down.
func above(path []tool.PathStep) (names string) {
	for _, step := range path {
		names += step.Agent + " > "
	}
	return names
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
