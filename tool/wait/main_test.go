package wait_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/wait"
	"github.com/fermata-ai/fermata/workflow"
)

var update = flag.Bool("update", false, "write what is told into testdata")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Each file of testdata has calls, and what a model reads of them: a line with
// ">" begins a turn with a call, one with "&" is a further call of the turn. The
// time begins at 2000-01-01, and stands still but where calls wait.
func TestWhatAModelReads(t *testing.T) { golden(t, wait.Config{}, "testdata/*.txt", 11) }

// In the scope of a user and in that of the store a model reads the same.
func TestWhatAModelReadsInWiderScopes(t *testing.T) {
	for _, scope := range []tool.WaitScope{tool.UserScope, tool.StoreScope} {
		t.Run(string(scope), func(t *testing.T) {
			golden(t, wait.Config{Scope: scope}, "testdata/wide/*.txt", 8)
		})
	}
}

// With TimeoutEnds a wait that is over ends its handle, in each scope alike.
func TestWhatAModelReadsWhereTimeoutsEnd(t *testing.T) {
	for _, scope := range []tool.WaitScope{tool.SessionScope, tool.UserScope, tool.StoreScope} {
		t.Run("scope "+string(scope), func(t *testing.T) {
			golden(t, wait.Config{Scope: scope, TimeoutEnds: true}, "testdata/ending/*.txt", 1)
		})
	}
}

// golden plays files with a set.
func golden(t *testing.T, c wait.Config, pattern string, least int) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	must(t, err)
	if len(files) < least {
		t.Fatalf("there are %d files", len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			must(t, err)
			synctest.Test(t, func(t *testing.T) {
				got := played(t, c, string(want))
				if *update {
					must(t, os.WriteFile(file, []byte(got), 0o600))
				} else if diff := cmp.Diff(string(want), got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// played makes the calls of a file, and returns it with what the model reads.
func played(t *testing.T, c wait.Config, file string) string {
	var turns []fakellm.Turn
	var calls []string
	var lines []string
	for line := range strings.Lines(file) {
		line = strings.TrimSuffix(line, "\n")
		sign, call, _ := strings.Cut(line, " ")
		name, arguments, _ := strings.Cut(call, " ")
		switch sign {
		case ">":
			turns = append(turns, fakellm.Calls(name, arguments))
		case "&":
			turns[len(turns)-1] = turns[len(turns)-1].And(name, arguments)
		case "<", "!":
			continue
		}
		lines = append(lines, line)
		if sign == ">" || sign == "&" {
			calls = append(calls, call)
		}
	}
	results := run(t, c, append(turns, fakellm.Says("Done.")))
	if len(results) != len(calls) {
		t.Fatalf("there are %d calls, and %d results: %v", len(calls), len(results), results)
	}
	// The results of a turn stand behind its calls.
	var b strings.Builder
	n := 0
	for i, line := range lines {
		b.WriteString(line + "\n")
		if sign, _, _ := strings.Cut(line, " "); sign != ">" && sign != "&" ||
			i+1 < len(lines) && strings.HasPrefix(lines[i+1], "& ") {
			continue
		}
		count := 1
		for j := i; strings.HasPrefix(lines[j], "& "); j-- {
			count++
		}
		for ; count > 0; count-- {
			b.WriteString(results[n] + "\n")
			n++
		}
	}
	return b.String()
}

var token = regexp.MustCompile(`f2\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+`)

// made is the part of a handle's id that is made.
var made = regexp.MustCompile(`((?:workflow|task)_\w+?_)[0-9a-f]{8}`)

// run has a model make calls, and returns what it reads of them: "<" before a
// result, "!" before an error.
func run(t *testing.T, c wait.Config, turns []fakellm.Turn) (results []string) {
	c.Webhook = func(token string) string { return "https://example.com/hooks/" + token }
	if c.Scope == tool.SessionScope {
		c.Agents, c.Workflows = []*agent.Agent{researcher(t)}, looks(t)
	}
	s, err := wait.New(c)
	must(t, err)
	a, err := agent.New(agent.Config{Name: "ops", Model: fakellm.New(turns...),
		Tools: append(append(s.Tools(), s.Tasks()...), s.Report()), Limits: agent.Limits{Turns: 1000}})
	must(t, err)
	rn, err := runner.New(a, session.NewStore(kvstore.NewMemory(), nil),
		&runner.Options{Authorizer: func(_ context.Context, op runner.Operation) error {
			if op.Wait.ID == "theirs" || op.Wait.ID == "kept" && op.Kind == runner.OpCompleteWait {
				return errors.New("it is another team's")
			}
			return nil
		}})
	must(t, err)
	defer rn.Close()
	end := last(t, rn.Run(t.Context(), "ada", "chat", llm.UserText("Go."), nil))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if end.Finish == event.FinishPaused {
		_ = rn.Work(ctx, &runner.WorkOptions{Poll: 30 * 24 * time.Hour,
			OnEvent: func(id string, ev event.Event, err error) {
				if end, ok := ev.(event.End); ok && id == "chat" && end.Finish == event.FinishStop {
					cancel()
				}
			}})
	} else if end.Finish != event.FinishStop {
		t.Fatalf("%+v", end)
	}
	shown, err := rn.Show(t.Context(), "chat", "ada")
	must(t, err)
	for _, m := range shown.History {
		for _, p := range m.Parts {
			res, ok := p.(llm.ToolResult)
			if !ok {
				continue
			}
			sign, text := "< ", string(res.Output)
			if res.Error {
				sign = "! "
				must(t, json.Unmarshal(res.Output, &text))
			}
			text = made.ReplaceAllString(token.ReplaceAllString(text, "TOKEN"), "${1}MADE")
			results = append(results, sign+text)
		}
	}
	return results
}

// researcher is an agent that waits for a day, and then tells what it found.
func researcher(t *testing.T) *agent.Agent {
	t.Helper()
	s, err := wait.New(wait.Config{})
	must(t, err)
	a, err := agent.New(agent.Config{Name: "research", Tools: s.Tools(), Model: fakellm.New(
		fakellm.Calls("sleep", `{"durationMs":86400000}`), fakellm.Says("It is blue."))})
	must(t, err)
	return a
}

// looks has a tool for lists of steps.
func looks(t *testing.T) *workflow.Set {
	t.Helper()
	type page struct {
		Page string `json:"page"`
	}
	set, err := workflow.NewSet("lists", []tool.Tool{tool.Must(tool.Func(
		tool.Spec{Name: "look", Description: "Reads a page.", Effect: tool.ReadOnly},
		func(_ context.Context, in page) (tool.Result[page], error) { return tool.Done(in), nil }))}, nil)
	must(t, err)
	return set
}

func last(t *testing.T, events iter.Seq2[event.Event, error]) (end event.End) {
	t.Helper()
	for ev, err := range events {
		must(t, err)
		if e, ok := ev.(event.End); ok {
			end = e
		}
	}
	return end
}
