// Command build has a model check and test a small module at once, mend it, and
// type into a program that runs meanwhile. Each of the commands is a handle: a
// call that goes on beside the conversation until it ends.
//
//	go run ./examples/build
//
// It prints:
//
//	calls go {"action":"spawn","id":"vet","Command":"vet"}
//	calls go {"action":"spawn","id":"test","Command":"test"}
//	calls await {"all":["vet","test"]}
//	  vet has ended with 0 ""
//	  test has ended with 1 "--- FAIL: TestSum"
//	calls edit {"File":"sum.go","Old":"a - b","New":"a + b"}
//	calls sh {"action":"spawn","id":"ask","Script":"read name; echo Hello, $name."}
//	calls go {"action":"spawn","id":"test","Command":"test"}
//	calls sh {"action":"apply","id":"ask","input":{"text":"Ada\n"}}
//	calls await {"all":["test","ask"]}
//	  test has ended with 0 "ok   example.com/sum"
//	  ask has ended with 0 "Hello, Ada."
//	says The sum is mended, and its test passes.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/examples/store"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/handle"
)

// The module. Its sum is wrong.
var files = map[string]string{
	"go.mod": "module example.com/sum\n\ngo 1.21\n",
	"sum.go": "package sum\n\nfunc Sum(a, b int) int { return a - b }\n",
	"sum_test.go": `package sum

import "testing"

func TestSum(t *testing.T) {
	if got := Sum(2, 3); got != 5 {
		t.Errorf("2 and 3 are %d", got)
	}
}
`,
}

// What the tools go, sh and edit are called with.
type (
	Go     struct{ Command string }
	Script struct{ Script string }
	Edit   struct{ File, Old, New string }
)

// script is in place of a model, so that the example needs no key.
var script = fakellm.New(
	fakellm.Calls("go", `{"action":"spawn","id":"vet","Command":"vet"}`).
		And("go", `{"action":"spawn","id":"test","Command":"test"}`),
	fakellm.Calls("await", `{"all":["vet","test"]}`),
	fakellm.Calls("edit", `{"File":"sum.go","Old":"a - b","New":"a + b"}`).
		And("sh", `{"action":"spawn","id":"ask","Script":"read name; echo Hello, $name."}`),
	fakellm.Calls("go", `{"action":"spawn","id":"test","Command":"test"}`).
		And("sh", `{"action":"apply","id":"ask","input":{"text":"Ada\n"}}`),
	fakellm.Calls("await", `{"all":["test","ask"]}`),
	fakellm.Says("The sum is mended, and its test passes."),
)

func main() {
	dir := must(os.MkdirTemp("", "build"))
	defer os.RemoveAll(dir)
	for name, text := range files {
		check(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	launcher := must(handle.OpenLauncher(nil))
	defer launcher.Close()
	tools := []tool.Tool{
		command(launcher, "go", func(in Go) handle.Program {
			return handle.Program{Path: "go", Args: []string{in.Command, "./..."}, Dir: dir,
				Env: append(os.Environ(), "GOWORK=off", "GOFLAGS=-count=1", "GOPROXY=off")}
		}),
		command(launcher, "sh", func(in Script) handle.Program {
			return handle.Program{Path: "sh", Args: []string{"-c", in.Script}}
		}),
		must(tool.Func(tool.Spec{Name: "edit"},
			func(_ context.Context, in Edit) (tool.Result[string], error) {
				path := filepath.Join(dir, filepath.Base(in.File))
				old, err := os.ReadFile(path)
				if err != nil {
					return nil, err
				}
				text := strings.Replace(string(old), in.Old, in.New, 1)
				return tool.Done("written"), os.WriteFile(path, []byte(text), 0o600)
			})),
	}
	ag := must(agent.New(agent.Config{Name: "builder", Model: script, Tools: tools}))
	kv := must(store.Open("")) // in memory, or what -store names
	defer kv.Close()
	rn := must(runner.New(ag, session.NewStore(kv, nil), nil))
	defer rn.Close()
	for ev, err := range rn.Run(context.Background(), "ada", "chat-1", llm.UserText("Go."), nil) {
		check(err)
		show(ev)
	}
}

// command makes a tool of a program, of which a model may begin handles.
func command[In any](l *handle.Launcher, name string, p func(In) handle.Program) tool.Tool {
	c := must(handle.NewCommand(l, tool.Spec{Name: name, Effect: tool.Idempotent},
		func(_ context.Context, in In) (handle.Program, error) { return p(in), nil }, nil))
	return must(handle.Stateful(must(handle.Live(c, nil)), nil))
}

// times are what differs each time: how long a test took.
var times = regexp.MustCompile(`\t?\(?\d+\.\d+s\)?`)

// show prints what the model does and reads. What happens below the session, in
// the handles, it reads by its await.
func show(ev event.Event) {
	switch ev := ev.(type) {
	case event.Call:
		fmt.Printf("calls %s %s\n", ev.Call.Name, ev.Call.Arguments)
	case event.TextDelta:
		fmt.Println("says", ev.Delta)
	case event.Result:
		var all struct {
			Completed []struct {
				ID     string
				Result handle.Exit
			}
		}
		if json.Unmarshal(ev.Result.Output, &all) != nil || ev.Result.Name != "await" {
			return // that it has begun, say
		}
		for _, h := range all.Completed {
			first, _, _ := strings.Cut(times.ReplaceAllString(h.Result.Output, ""), "\n")
			first = strings.TrimSpace(strings.ReplaceAll(first, "\t", " "))
			fmt.Printf("  %s has ended with %d %q\n", h.ID, h.Result.ExitCode, first)
		}
	}
}

func check(err error) { must(0, err) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
