package fakellm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
)

// ask makes one request of a model and prints the answer.
func ask(m llm.Model, messages ...llm.Message) {
	msg, fin, err := llm.Collect(m.Generate(context.Background(), llm.Request{Messages: messages}))
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	fmt.Print(fin.Reason, ":")
	for _, p := range msg.Parts {
		switch p := p.(type) {
		case llm.Text:
			fmt.Printf(" %q", p.Text)
		case llm.Reasoning:
			fmt.Printf(" (%s)", p.Text)
		case llm.ToolCall:
			fmt.Printf(" %s%s", p.Name, p.Arguments)
		}
	}
	fmt.Println()
}

var (
	question = llm.UserText("Deploy checkout v2.5.0")
	calls    = llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{
		llm.ToolCall{ID: "c1", Name: "deploy", Arguments: json.RawMessage(`{"service":"checkout"}`)},
		llm.ToolCall{ID: "c2", Name: "get_weather", Arguments: json.RawMessage(`{"city":"Oslo"}`)},
	}}
	deployed = llm.ToolResult{Call: "c1", Name: "deploy", Output: json.RawMessage(`"ok"`)}
	rain     = llm.ToolResult{Call: "c2", Name: "get_weather", Output: json.RawMessage(`"rain"`)}
)

// A script of two turns. The second request has one assistant message in its
// history, so it gets the second turn.
func ExampleNew() {
	model := fakellm.New(
		fakellm.Calls("deploy", `{"service":"checkout"}`).And("get_weather", `{"city":"Oslo"}`),
		fakellm.Says("Deployed."),
	)
	ask(model, question)
	ask(model, question, calls, llm.Message{Role: llm.RoleTool, Parts: []llm.Part{deployed, rain}})
	// Output:
	// tool_calls: deploy{"service":"checkout"} get_weather{"city":"Oslo"}
	// end: "Deployed."
}

// What a provider would refuse is refused, with the place.
func ExampleCheck() {
	err := fakellm.Check(llm.Request{Messages: []llm.Message{
		question, calls, {Role: llm.RoleTool, Parts: []llm.Part{deployed}}, llm.UserText("And?"),
	}})
	fmt.Println(err)
	// Output:
	// messages[1] (assistant) parts[1]: call "c2" of "get_weather" has no result, and messages[3] (user) follows
	//   messages[0] user
	//       [0] {"type":"text","text":"Deploy checkout v2.5.0"}
	//   messages[1] assistant
	//       [0] {"type":"tool_call","id":"c1","name":"deploy","arguments":{"service":"checkout"}}
	// >     [1] {"type":"tool_call","id":"c2","name":"get_weather","arguments":{"city":"Oslo"}}
	//   messages[2] tool
	//       [0] {"type":"tool_result","call":"c1","name":"deploy","output":"ok"}
}

// A script can branch on what the request says.
func ExampleWhen() {
	model := fakellm.New(
		fakellm.When(fakellm.UserSays("weather"), fakellm.Calls("get_weather", `{}`), fakellm.Says("Rain.")),
		fakellm.Says("Hello."),
	)
	ask(model, llm.UserText("Hi"))
	ask(model, llm.UserText("How is the weather?"))
	// Output:
	// end: "Hello."
	// tool_calls: get_weather{}
}

// A turn can be computed from the request.
func ExampleFrom() {
	model := fakellm.New(fakellm.From(func(req llm.Request) fakellm.Turn {
		return fakellm.Says(strings.ToUpper(fakellm.LastUserText(req)))
	}).Forever())
	ask(model, llm.UserText("hi"))
	// Output: end: "HI"
}

// Twice the provider is busy; then it answers.
func ExampleFails() {
	busy := &llm.Error{Kind: llm.ErrOverloaded, Err: errors.New("come back later")}
	model := fakellm.New(fakellm.Fails(busy).Times(2), fakellm.Says("Here I am."))
	for range 3 {
		ask(model, llm.UserText("Anyone?"))
	}
	// Output:
	// error: overloaded: come back later
	// error: overloaded: come back later
	// end: "Here I am."
}

// The connection is lost after two events; the next try succeeds.
func ExampleTurn_Cut() {
	model := fakellm.New(fakellm.Says("Deployed.").Chunks(2).Cut(2), fakellm.Says("Deployed."))
	ask(model, question)
	ask(model, question)
	// Output:
	// error: truncated: the stream ended without its end marker
	// end: "Deployed."
}

// Reasoning and text may stand beside calls; ids may repeat; arguments come in
// pieces.
func ExampleTurn_Chunks() {
	model := fakellm.New(fakellm.Reasons("Two cities.").Says("Let me see.").
		And("get_weather", `{"city":"Oslo"}`).And("get_weather", `{"city":"Bergen"}`).IDs("call_1", "call_1").
		Chunks(3).Interleaved().Usage(llm.Usage{Input: 20, Output: 10}))
	ask(model, llm.UserText("How is the weather?"))
	// Output: tool_calls: (Two cities.) "Let me see." get_weather{"city":"Oslo"} get_weather{"city":"Bergen"}
}

// A hook holds the stream where a test wants to look, or cancel, in the middle.
func ExampleTurn_Hook() {
	model := fakellm.New(fakellm.Says("Hello").Chunks(2).Hook(func(ctx context.Context, n int) error {
		fmt.Println("event", n)
		return nil
	}))
	ask(model, llm.UserText("Hi"))
	// Output:
	// event 0
	// event 1
	// event 2
	// event 3
	// end: "Hello"
}

func ExampleModel_Requests() {
	model := fakellm.Echo()
	ask(model, llm.UserText("Hi"))
	fmt.Println(len(model.Requests()), fakellm.LastUserText(model.Requests()[0]))
	// Output:
	// end: "Hi"
	// 1 Hi
}

func ExampleEcho() {
	ask(fakellm.Echo(), llm.UserText("Is anyone there?"))
	// Output: end: "Is anyone there?"
}

// A script that ends too early says where.
func ExampleErrUsedUp() {
	ask(fakellm.New(fakellm.Says("Hello.")), llm.UserText("Hi"), llm.AssistantText("Hello."), llm.UserText("More"))
	// Output:
	// error: fakellm: invalid_request: the script is used up: turn 1 of the script is asked for, counted from 0, and it has 1 in all (assistant messages in the history: 1)
	//   messages[1] assistant
	//       [0] {"type":"text","text":"Hello."}
	// > messages[2] user
	//       [0] {"type":"text","text":"More"}
}
