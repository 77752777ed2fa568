package tool_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/tool"
)

// modesOf are the modes that go with a reason. The first one follows where none
// is given. No mode: a tool can't give that reason.
var modesOf = map[tool.Reason][]tool.Mode{
	tool.ReasonExternal:  {tool.ModeOutput, tool.ModeReenter},
	tool.ReasonApproval:  nil,
	tool.ReasonInput:     {tool.ModeOutput, tool.ModeReenter, tool.ModeMessage},
	tool.ReasonAgent:     {tool.ModeOutput},
	tool.ReasonTimer:     {tool.ModeReenter, tool.ModeOutput},
	tool.ReasonRetry:     {tool.ModeReenter},
	tool.ReasonUnknown:   {tool.ModeOutput},
	tool.ReasonHandles:   {tool.ModeReenter},
	tool.ReasonAssistant: {tool.ModeOutput, tool.ModeReenter},
	"lunch":              nil,
}

// isAPersons are the reasons, and whether a person answers.
var isAPersons = map[tool.Reason]bool{
	tool.ReasonExternal: false, tool.ReasonApproval: true, tool.ReasonInput: true,
	tool.ReasonAgent: false, tool.ReasonTimer: false, tool.ReasonUnknown: false, "": false,
	tool.ReasonHandles: false, tool.ReasonAssistant: false, tool.ReasonRetry: false,
	"misspelt": false,
}

// Each constant has its row among the reasons, with a mode, and in the tables
// of these tests.
func TestEveryReasonHasItsRows(t *testing.T) {
	rows := rowsOfReasons(t)
	for name, reason := range reasonConstants(t) {
		if !rows[name] {
			t.Errorf("reasons has no row of %s with a mode", name)
		}
		if _, ok := modesOf[reason]; !ok {
			t.Errorf("modesOf has no row of %s", name)
		}
		if _, ok := isAPersons[reason]; !ok {
			t.Errorf("isAPersons has no row of %s", name)
		}
	}
}

// reasonConstants reads the constants of type Reason, by their names.
func reasonConstants(t *testing.T) map[string]tool.Reason {
	t.Helper()
	constants := map[string]tool.Reason{}
	ast.Inspect(awaitFile(t), func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); ok && id.Name == "Reason" {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			constants[spec.Names[0].Name] = tool.Reason(value)
		}
		return true
	})
	if len(constants) < 6 {
		t.Fatalf("await.go has the reasons %v", constants)
	}
	return constants
}

// rowsOfReasons reads which constants have a row in the variable reasons that
// names a mode.
func rowsOfReasons(t *testing.T) map[string]bool {
	t.Helper()
	rows := map[string]bool{}
	ast.Inspect(awaitFile(t), func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != "reasons" {
			return true
		}
		for _, row := range spec.Values[0].(*ast.CompositeLit).Elts {
			row := row.(*ast.KeyValueExpr)
			for _, field := range row.Value.(*ast.CompositeLit).Elts {
				field := field.(*ast.KeyValueExpr)
				if field.Key.(*ast.Ident).Name == "modes" {
					name := row.Key.(*ast.Ident).Name
					rows[name] = len(field.Value.(*ast.CompositeLit).Elts) > 0
				}
			}
		}
		return false
	})
	return rows
}

func awaitFile(t *testing.T) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "await.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAwaitTable(t *testing.T) {
	all := []tool.Mode{tool.ModeOutput, tool.ModeReenter, tool.ModeMessage}
	for reason, modes := range modesOf {
		for _, mode := range append([]tool.Mode{"", "shout"}, all...) {
			want := mode
			ok := false
			for i, m := range modes {
				if m == mode || mode == "" && i == 0 {
					want, ok = m, true
				}
			}
			a := tool.Await{Reason: reason, Mode: mode}
			if reason == tool.ReasonHandles {
				a.Handles = &tool.HandleWait{All: []string{"build"}}
			}
			if reason == tool.ReasonRetry {
				a.Timeout = time.Hour
			}
			got, err := a.Normalize()
			if (err == nil) != ok || ok && (got.Reason != reason || got.Mode != want) {
				t.Errorf("reason %q, mode %q: %q, %q, %v", reason, mode, got.Reason, got.Mode, err)
			}
			// A layer's pause goes back to the layer, with each reason but a retry,
			// which is of a body.
			got, err = tool.Await{Gate: "review", Reason: reason, Mode: mode}.Normalize()
			ok = reason != "lunch" && reason != tool.ReasonRetry && (mode == "" || mode == tool.ModeReenter)
			if (err == nil) != ok || ok && (got.Reason != reason || got.Mode != tool.ModeReenter) {
				t.Errorf("a layer's reason %q, mode %q: %q, %q, %v",
					reason, mode, got.Reason, got.Mode, err)
			}
		}
	}
}

// The reason of a pause that names none follows from its prompt and its layer,
// for a typed tool, a raw one and a layer alike.
func TestReasonThatIsNotGiven(t *testing.T) {
	type in struct{}
	awaited := func(t *testing.T, tl tool.Tool, err error) tool.Await {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		exec, err := tl.Execute(t.Context(), tool.Call{Tool: tl.Spec().Name})
		if err != nil || exec.Await == nil {
			t.Fatalf("it returned %+v, %v", exec, err)
		}
		a, err := exec.Await.Normalize()
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	typed := func(r tool.Result[string]) (tool.Tool, error) {
		return tool.Func(tool.Spec{Name: "f", MayPause: true},
			func(context.Context, in) (tool.Result[string], error) { return r, nil })
	}
	for _, c := range []struct {
		name   string
		make   func() (tool.Tool, error)
		reason tool.Reason
		mode   tool.Mode
	}{
		{"Pending", func() (tool.Tool, error) {
			return typed(tool.Pending[string](tool.Await{}))
		}, tool.ReasonExternal, tool.ModeOutput},
		{"Pending with a prompt", func() (tool.Tool, error) {
			return typed(tool.Pending[string](tool.Await{Prompt: "p"}))
		}, tool.ReasonInput, tool.ModeOutput},
		{"Pending that re-enters", func() (tool.Tool, error) {
			return typed(tool.Pending[string](tool.Await{Mode: tool.ModeReenter}))
		}, tool.ReasonExternal, tool.ModeReenter},
		{"NeedInput", func() (tool.Tool, error) {
			return typed(tool.NeedInput[string]("Which?"))
		}, tool.ReasonInput, tool.ModeOutput},
		{"NeedInput without a prompt", func() (tool.Tool, error) {
			return typed(tool.NeedInput[string](""))
		}, tool.ReasonInput, tool.ModeOutput},
		{"Resumable", func() (tool.Tool, error) {
			which := tool.NewQuestion[string, int, string]("which")
			return tool.Resumable(tool.Spec{Name: "f"},
				func(_ context.Context, _ in) (tool.Result[string], error) {
					return which.Ask("", 1), nil
				},
				tool.On(which, func(context.Context, in,
					tool.Reply[int, string]) (tool.Result[string], error) {
					return nil, nil
				}))
		}, tool.ReasonInput, tool.ModeReenter},
		{"a raw await", func() (tool.Tool, error) {
			return pausing{tool.Await{}}, nil
		}, tool.ReasonExternal, tool.ModeOutput},
		{"a raw await with a prompt", func() (tool.Tool, error) {
			return pausing{tool.Await{Prompt: "Which?"}}, nil
		}, tool.ReasonInput, tool.ModeOutput},
		{"a raw await with a prompt that re-enters", func() (tool.Tool, error) {
			return pausing{tool.Await{Prompt: "Which?", Mode: tool.ModeReenter}}, nil
		}, tool.ReasonInput, tool.ModeReenter},
		{"a layer's", func() (tool.Tool, error) {
			return pausing{tool.Await{Gate: "review", Prompt: "Run it?"}}, nil
		}, tool.ReasonApproval, tool.ModeReenter},
	} {
		t.Run(c.name, func(t *testing.T) {
			tl, err := c.make()
			if a := awaited(t, tl, err); a.Reason != c.reason || a.Mode != c.mode {
				t.Errorf("it has reason %q and mode %q", a.Reason, a.Mode)
			}
		})
	}
}

// pausing is a raw tool that pauses.
type pausing struct{ await tool.Await }

func (p pausing) Spec() tool.Spec { return tool.Spec{Name: "raw", MayPause: true} }
func (p pausing) Execute(context.Context, tool.Call) (tool.Execution, error) {
	return tool.Execution{Await: &p.await}, nil
}

// A key is looked up as it was given.
func TestAwaitKeys(t *testing.T) {
	for key, ok := range map[string]bool{
		"job-1": true, "déploiement 7/a.b": true, strings.Repeat("k", tool.MaxKey): true,
		strings.Repeat("k", tool.MaxKey+1): false, "job\x00": false, "job\n": false, "\xff": false,
	} {
		if _, err := (tool.Await{Key: key}).Normalize(); (err == nil) != ok {
			t.Errorf("%.20q: %v", key, err)
		}
	}
}

// A user's next message may take the place of what that user was asked.
func TestWhichReasonsAreAPersons(t *testing.T) {
	for reason, person := range isAPersons {
		if reason.Person() != person {
			t.Errorf("Reason(%q).Person() = %v", reason, !person)
		}
		if again := reason == tool.ReasonUnknown; reason.MayRunAgain() != again {
			t.Errorf("Reason(%q).MayRunAgain() = %v", reason, !again)
		}
	}
}
