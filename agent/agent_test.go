package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/agentcore"
	"github.com/fermata-ai/fermata/internal/hold"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

type none struct{}

// named returns a tool that does nothing.
func named(name string) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: name},
		func(context.Context, none) (tool.Result[none], error) { return tool.Done(none{}), nil }))
}

// TestNewRefuses: a configuration that is wrong is an error when the agent is
// built, not when a session needs it.
func TestNewRefuses(t *testing.T) {
	model := fakellm.Echo()
	for name, test := range map[string]struct {
		config agent.Config
		want   string // in the error
	}{
		"no model":             {agent.Config{}, "Config.Model is nil"},
		"negative concurrency": {agent.Config{Model: model, Concurrency: -1}, "negative limit"},
		"negative turns": {agent.Config{Model: model, Limits: agent.Limits{Turns: -1}},
			"negative limit"},
		"negative tool calls": {agent.Config{Model: model, Limits: agent.Limits{ToolCalls: -1}},
			"negative limit"},
		"negative tokens": {agent.Config{Model: model, Limits: agent.Limits{Tokens: -1}},
			"negative limit"},
		"a nil tool": {agent.Config{Model: model, Tools: []tool.Tool{nil}}, "nil"},
		"two tools of one name": {
			agent.Config{Model: model, Tools: []tool.Tool{named("a"), named("a")}}, `"a"`},
		"a layer for a misspelt tool": {
			agent.Config{Model: model, Tools: []tool.Tool{named("refund")},
				Interceptors: interceptor.Chain{
					interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"refnud"}})}},
			`"refnud", which the agent does not have; it has: refund`},
		"two layers of one name": {agent.Config{Model: model,
			Interceptors: interceptor.Chain{interceptor.Approval(nil), interceptor.Approval(nil)}},
			`two layers are named "approval"`},
		"a tool that the provider can't take": {
			agent.Config{Model: fussy{model}, Tools: []tool.Tool{named("a"), named("b")}},
			"tool b: no"},
		"instructions that are no UTF-8": {
			agent.Config{Model: model, Name: "ops", Instructions: "a\xff"},
			`"ops": Config.Instructions is not valid UTF-8`},
		"a response's schema with half a surrogate pair": {agent.Config{Model: model,
			ResponseFormat: llm.ResponseFormat{
				Schema: json.RawMessage(`{"description":"\ud800"}`)}}, "ResponseFormat.Schema"},
		"an approval that is over before it begins": {agent.Config{Model: model,
			Interceptors: interceptor.Chain{
				interceptor.Approval(&interceptor.ApprovalOptions{Timeout: -1})}},
			`layer "approval": ApprovalOptions.Timeout is -1ns: it must not be negative; zero ` +
				`is 168h0m0s`},
		"a layer without a name": {agent.Config{Model: model, Interceptors: interceptor.Chain{{}}},
			"no name"},
	} {
		test.config.Name = "ops"
		_, err := agent.New(test.config)
		if err == nil || !strings.Contains(err.Error(), test.want) ||
			!strings.HasPrefix(err.Error(), "agent") {
			t.Errorf("%s: the error is %v, without %q", name, err, test.want)
		}
	}
}

// fussy is a model whose provider takes one tool.
type fussy struct{ llm.Model }

func (fussy) CheckTools(tools []llm.ToolDef) error {
	if len(tools) > 1 {
		return fmt.Errorf("tool %s: no", tools[1].Name)
	}
	return nil
}

func TestDefaults(t *testing.T) {
	a, err := agent.New(agent.Config{Name: "ops", Model: fakellm.Echo()})
	if err != nil {
		t.Fatal(err)
	}
	if a.Name() != "ops" || hold.Of(a).Concurrency != 4 ||
		a.Limits() != (agent.Limits{Turns: 64, Message: 16 << 20}) || hold.Of(a).HasTurnLayers() {
		t.Errorf("name %q, concurrency %d, limits %+v, turn layers %v",
			a.Name(), hold.Of(a).Concurrency, a.Limits(), hold.Of(a).HasTurnLayers())
	}
}

// TestChangingTheConfigAfterwards: an agent is what it was when it was built.
func TestChangingTheConfigAfterwards(t *testing.T) {
	tools := []tool.Tool{named("a"), named("b")}
	var entered []string
	layers := interceptor.Chain{seeing("first", &entered, "a"), seeing("second", &entered)}
	a, err := agent.New(agent.Config{Model: fakellm.Echo(), Tools: tools, Interceptors: layers})
	if err != nil {
		t.Fatal(err)
	}
	tools[0] = named("c")
	layers[0].Tools[0] = "b"
	layers[0] = seeing("third", &entered)
	hold.Of(a).Tools.Names()[0] = "d"
	if got := hold.Of(a).Tools.Names(); !cmp.Equal(got, []string{"a", "b"}) {
		t.Errorf("the tools are %q", got)
	}
	if _, err := hold.Of(a).Execute(t.Context(), tool.Call{Tool: "a"}, false, done); err != nil {
		t.Fatal(err)
	}
	if want := []string{"first", "second"}; !cmp.Equal(entered, want) {
		t.Errorf("the layers are %q, not %q", entered, want)
	}
}

func done(context.Context, tool.Call) (tool.Execution, error) { return tool.Execution{}, nil }

// seeing is a layer that notes that a call came through.
func seeing(name string, entered *[]string, tools ...string) interceptor.Layer {
	return interceptor.Layer{Name: name, Tools: tools,
		Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
			return func(ctx context.Context, c tool.Call) (tool.Execution, error) {
				*entered = append(*entered, name)
				return next(ctx, c)
			}
		}}
}

// TestGenerate: the model is told what the agent is, through the model layers.
func TestGenerate(t *testing.T) {
	model := fakellm.New(fakellm.Says("Hello."))
	a, err := agent.New(agent.Config{
		Model: model, Instructions: "Be brief.", Tools: []tool.Tool{named("a")},
		ToolChoice: llm.ToolChoice{Mode: llm.ToolAny}, ModelLimits: llm.Limits{OutputTokens: 100},
		ResponseFormat: llm.ResponseFormat{Name: "answer",
			Schema: json.RawMessage(`{"type":"object"}`)}, Cache: llm.CacheLong,
		Interceptors: interceptor.Chain{
			{Name: "polite", Model: func(next interceptor.ModelHandler) interceptor.ModelHandler {
				return func(ctx context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
					r.System += " Be polite."
					return next(ctx, r)
				}
			}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	history := []llm.Message{llm.UserText("Hi.")}
	m, _, err := llm.Collect(
		hold.Of(a).Generate(t.Context(), history,
			agentcore.Own{Metadata: map[string]string{"session": "s"}}))
	if err != nil || m.Text() != "Hello." {
		t.Fatalf("%v, %v", m, err)
	}
	want := llm.Request{
		System: "Be brief. Be polite.", Messages: history, Tools: hold.Of(a).Tools.Defs(),
		ToolChoice: llm.ToolChoice{Mode: llm.ToolAny}, Limits: llm.Limits{OutputTokens: 100},
		ResponseFormat: llm.ResponseFormat{Name: "answer",
			Schema: json.RawMessage(`{"type":"object"}`)}, Cache: llm.CacheLong,
		Metadata: map[string]string{"session": "s"},
	}
	if diff := cmp.Diff(want, model.Requests()[0]); diff != "" {
		t.Errorf("the request differs (-want +got):\n%s", diff)
	}
}

// TestTurn: a turn goes through the turn layers, the first outermost.
func TestTurn(t *testing.T) {
	var order []string
	around := func(name string) interceptor.Layer {
		return interceptor.Layer{Name: name,
			Turn: func(next interceptor.TurnHandler) interceptor.TurnHandler {
				return func(ctx context.Context,
					turn interceptor.Turn) iter.Seq2[event.Event, error] {
					order = append(order, name)
					return next(ctx, turn)
				}
			}}
	}
	a, err := agent.New(agent.Config{Model: fakellm.Echo(),
		Interceptors: interceptor.Chain{around("outer"), around("inner")}})
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("ended")
	inner := func(context.Context, interceptor.Turn) iter.Seq2[event.Event, error] {
		return func(yield func(event.Event, error) bool) { yield(nil, cause) }
	}
	for _, err := range hold.Of(a).Turn(inner)(t.Context(), interceptor.Turn{}) {
		if err != cause {
			t.Errorf("the error is %v", err)
		}
	}
	if want := []string{"outer", "inner"}; !hold.Of(a).HasTurnLayers() || !cmp.Equal(order, want) {
		t.Errorf("the layers came as %q, not %q", order, want)
	}
}

// bulky returns a tool whose schema has so many bytes, in its normal form.
func bulky(spec tool.Spec, input, output int) tool.Tool {
	schema := func(n int) json.RawMessage {
		const frame = `{"type":"object","properties":{},"description":""}`
		if n == 0 {
			return json.RawMessage(`{"type":"object"}`)
		}
		return json.RawMessage(`{"type":"object","properties":{},"description":"` +
			strings.Repeat("x", n-len(frame)) + `"}`)
	}
	spec.Name, spec.Input, spec.Output = "deploy", schema(input), schema(output)
	return raw{spec}
}

type raw struct{ spec tool.Spec }

func (r raw) Spec() tool.Spec { return r.spec }
func (r raw) Execute(context.Context, tool.Call) (tool.Execution, error) {
	return tool.Execution{}, nil
}

// A tool whose calls could not be held, since its schema can't be kept with a
// pause, is refused before any call of it.
func TestSchemasThatCannotBeKept(t *testing.T) {
	const most, over = tool.MaxSchema, tool.MaxSchema + 1
	all := interceptor.Chain{interceptor.Approval(nil)}
	other := interceptor.Chain{
		interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"other"}})}
	for name, test := range map[string]struct {
		tool   tool.Tool
		layers interceptor.Chain
		want   string // in the error; empty: there is none
	}{
		"an output, of one that may pause": {bulky(tool.Spec{MayPause: true}, 0, over), nil,
			`tool "deploy": its output schema has 65537 bytes, and at most 65536`},
		"an output, of one that asks": {bulky(tool.Spec{AskOperator: true}, 0, over), nil,
			"its output schema"},
		"an output that just fits": {bulky(tool.Spec{MayPause: true}, 0, most), nil,
			""},
		"an output, of one that never waits": {bulky(tool.Spec{}, 0, over), all, ""},
		"an input behind a gate": {bulky(tool.Spec{}, over, 0), all,
			`tool "deploy": its input schema has 65537 bytes, and at most 65536`},
		"an input that just fits": {bulky(tool.Spec{}, most, 0), all, ""},
		"an input behind nothing": {bulky(tool.Spec{MayPause: true}, over, 0), nil,
			""},
		"an input beside a gate for another's": {bulky(tool.Spec{}, over, 0), other, ""},
	} {
		_, err := agent.New(
			agent.Config{Name: "ops", Model: fakellm.Echo(), Interceptors: test.layers,
				Tools: []tool.Tool{test.tool, named("other")}})
		if (err == nil) != (test.want == "") ||
			err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// stubborn is a model that asks again by itself.
type stubborn struct {
	llm.Model
	retries int
}

func (s stubborn) Retries() int { return s.retries }

// TestRetriesDontMultiply: either the model asks again by itself, or its agent
// does.
func TestRetriesDontMultiply(t *testing.T) {
	for name, c := range map[string]struct {
		retries int
		retry   agent.Retry
		taken   bool
	}{
		"the agent's alone":         {0, agent.Retry{}, true},
		"the model's alone":         {2, agent.Retry{Failures: -1}, true},
		"both":                      {2, agent.Retry{}, false},
		"both, and the agent's few": {2, agent.Retry{Failures: 1}, false},
		"both, for days":            {2, agent.Retry{Failures: -1, Patience: time.Hour}, false},
		"negative patience":         {0, agent.Retry{Patience: -1}, false},
		"a negative hold":           {0, agent.Retry{Hold: -1}, false},
	} {
		if _, err := agent.New(agent.Config{Model: stubborn{fakellm.Echo(), c.retries},
			Retry: c.retry}); (err == nil) != c.taken {
			t.Errorf("%s: %v", name, err)
		}
	}
}
