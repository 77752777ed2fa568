package llmtest

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore/bolt"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// What a child process is told. It is the test binary again, with the same
// test.
const (
	envPhase = "FERMATA_LLMTEST_PHASE" // "pause" or "resume"
	envModel = "FERMATA_LLMTEST_MODEL" // the provider's name, or "another"
	envStore = "FERMATA_LLMTEST_STORE"
	envURL   = "FERMATA_LLMTEST_URL"
)

const another = "another"

// pauses has a call pause in one process and resumed in another: under the same
// provider; and from another provider's, and to one.
func pauses(t *testing.T, p Provider) {
	first := "reasoning"
	if _, lacks := p.Lacks[first]; lacks {
		first = "tool"
	}
	for _, c := range []struct{ name, scenario, pausedBy, resumedBy string }{
		{"same provider", first, p.Name, p.Name},
		{"siblings", "parallel", p.Name, p.Name},
		{"from another provider", "", another, p.Name},
		{"to another provider", first, p.Name, another},
	} {
		t.Run(c.name, func(t *testing.T) {
			last := must(t, p, "text", false)
			replies := []reply{last}
			if c.scenario != "" {
				replies = []reply{must(t, p, c.scenario, false), last}
			}
			srv := serve(t, atOnce, replies...)
			store := filepath.Join(t.TempDir(), "fermata.db")
			child(t, "pause", c.pausedBy, store, srv.URL)
			child(t, "resume", c.resumedBy, store, srv.URL)
			asked := srv.asked()
			if c.resumedBy != p.Name {
				return
			}
			body := asked[len(asked)-1]
			if !strings.Contains(string(body), "four degrees") {
				t.Errorf("the request after the pause doesn't hold the result: %s", body)
			}
			if c.scenario == "reasoning" && !strings.Contains(string(body), signature) {
				t.Errorf("the request after the pause doesn't hold the reasoning as the provider signed it: %s", body)
			}
			paired(t, p, body)
		})
	}
}

// child runs this test again, in a process of its own, for one phase.
func child(t *testing.T, phase, by, store, url string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	root, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.CommandContext(ctx, exe, "-test.run", "^"+root+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), envPhase+"="+phase, envModel+"="+by, envStore+"="+store,
		envURL+"="+url)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "phase done") {
		t.Fatalf("%s under %s: %v\n%s", phase, by, err, out)
	}
}

// inChild does the work of a child process, if this is one.
func inChild(t *testing.T, p Provider) bool {
	phase := os.Getenv(envPhase)
	if phase == "" {
		return false
	}
	by := os.Getenv(envModel)
	if by != p.Name && by != another { // another test of the same binary
		return true
	}
	db, err := bolt.Open(os.Getenv(envStore), nil)
	check(t, err)
	defer db.Close()
	rn := pausing(t, db, modelFor(t, p, by))
	defer rn.Close()
	if phase == "pause" {
		pauseOnce(t, rn)
	} else {
		resumeAll(t, rn)
	}
	println("phase done")
	return true
}

func modelFor(t *testing.T, p Provider, by string) llm.Model {
	if by != another {
		return p.New(t, Options{BaseURL: os.Getenv(envURL), Client: client(t)})
	}
	return fakellm.New(fakellm.Calls("get_weather", `{"city":"Oslo"}`), fakellm.Says("It is cold."))
}

// pausing returns a runner whose get_weather waits, and whose get_time doesn't.
func pausing(t testing.TB, db *bolt.Store, m llm.Model) *runner.Runner {
	t.Helper()
	type city struct {
		City string `json:"city"`
	}
	weather := tool.Must(tool.Func(tool.Spec{Name: "get_weather",
		Description: "Current weather for a city.", MayPause: true},
		func(context.Context, city) (tool.Result[string], error) {
			return tool.Pending[string](tool.Await{}), nil
		}))
	clock := tool.Must(tool.Func(tool.Spec{Name: "get_time", Description: "The time of day.",
		Effect: tool.ReadOnly},
		func(context.Context, struct{}) (tool.Result[string], error) {
			return tool.Done("noon"),
				nil
		}))
	ag, err := agent.New(agent.Config{Name: "suite", Model: m,
		Instructions: "Use the tools to answer, and answer in one sentence.",
		Tools:        []tool.Tool{weather, clock}, Retry: agent.Retry{Failures: -1}})
	check(t, err)
	rn, err := runner.New(ag, session.NewStore(db, nil), nil)
	check(t, err)
	return rn
}

func pauseOnce(t testing.TB, rn *runner.Runner) {
	t.Helper()
	if end := drain(t, rn.Run(t.Context(), "ada", "chat-1",
		llm.UserText("What is the weather in Oslo?"), nil)); end.Finish != event.FinishPaused {
		t.Fatalf("the run ended as %s, want a pause", end.Finish)
	}
}

func resumeAll(t testing.TB, rn *runner.Runner) {
	t.Helper()
	n := 0
	for p, err := range rn.Pending(t.Context(), session.PauseFilter{}, "test") {
		check(t, err)
		n++
		if _, err := rn.Resume(t.Context(), p.Session,
			runner.Complete(p.ID, "station", json.RawMessage(`"four degrees"`))); err != nil {
			t.Fatal(err)
		}
	}
	if n == 0 {
		t.Fatal("nothing waits")
	}
	if end := drain(t, rn.Continue(t.Context(), "chat-1", "test")); end.Finish != event.FinishStop {
		t.Fatalf("after the resumption, the run ended as %s", end.Finish)
	}
}

// drain reads a run to its end.
func drain(t testing.TB, events func(func(event.Event, error) bool)) (end event.End) {
	t.Helper()
	for ev, err := range events {
		check(t, err)
		if e, ok := ev.(event.End); ok {
			end = e
		}
	}
	return end
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
