package runner_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/handle"
)

// shell is a tool whose handles are programs of sh in a directory, which speak
// the protocol.
func shell(t *testing.T, dir string, effect tool.Effect) tool.Tool {
	t.Helper()
	l, err := handle.OpenLauncher(&handle.LauncherOptions{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	type script struct {
		Script string `json:"script"`
	}
	c, err := handle.NewCommand(l, tool.Spec{Name: "sh", Effect: effect},
		func(_ context.Context, in script) (handle.Program, error) {
			return handle.Program{Path: "sh", Args: []string{"-c", in.Script}, Dir: dir}, nil
		}, &handle.CommandOptions{Protocol: true})
	must(t, err)
	live, err := handle.Live(c, nil)
	must(t, err)
	made, err := handle.Stateful(live, &handle.Options{
		HandlePolicy: tool.HandlePolicy{AtEnd: tool.KeepAtEnd}})
	must(t, err)
	return made
}

// scripted are the arguments of a program of sh.
func scripted(program string) string {
	p, err := json.Marshal(map[string]string{"script": program})
	if err != nil {
		panic(err)
	}
	return string(p)
}

// Whatever a program writes and asks, it runs once, its result is kept, and
// what it wrote can be read.
func TestNoOutputLosesItsResult(t *testing.T) {
	ask := func(question string) string {
		return `echo '{"type":"waiting","question":{"for":"assistant",` + question + `}}'`
	}
	long := `q=$(head -c 100000 /dev/zero | tr '\000' 'x'); `
	for what, program := range map[string]string{
		"lines":            `yes '' | head -c 60000`,
		"control bytes":    `head -c 60000 /dev/zero | tr '\000' '\001'`,
		"no text":          `head -c 60000 /dev/zero | tr '\000' '\377'`,
		"colours":          `yes "$(printf '\033[31mERR\033[0m')" | head -c 60000`,
		"markup":           `yes '<a href="/">&amp;</a>' | head -c 60000`,
		"a log of JSON":    `yes '{"Action":"output","Output":"=== RUN\n"}' | head -c 60000`,
		"a long question":  long + ask(`"id":"q","text":"'$q'"`),
		"a long id":        long + ask(`"id":"'$q'","text":"well?"`),
		"no id":            ask(`"text":"well?"`),
		"a name in a name": ask(`"id":"q","text":"well?","schema":{"type":7,"type":"string"}`),
		"half a character": ask(`"id":"q\ud800","text":"\udc00?","schema":{"enum":["\ud800","go"]}`),
		"a long schema":    long + ask(`"id":"q","text":"well?","schema":{"const":"'$q'"}`),
		"a deep schema": ask(`"id":"q","text":"well?","schema":` + strings.Repeat(`{"a":`, 600) +
			"1" + strings.Repeat("}", 600)),
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			r := newRig(t, agent.Config{Model: messages(says("Hi.")),
				Tools: []tool.Tool{shell(t, dir, tool.Idempotent)}}, &rigOptions{memory: true})
			r.say("Hello.").finished(event.FinishStop)
			s := r.spawned("a", "sh", scripted(`echo x >> runs; read start; `+program+`; read go; exit 3`))
			for { // it has asked, or written, and goes on once this is known
				h, err := r.Fetch(t.Context(), chat, "a", user)
				must(t, err)
				if h.Content.Total > 0 || h.Content.Question != nil {
					break
				}
			}
			_, err := r.Apply(t.Context(), chat, runner.Input{Handle: "a", Actor: user, Delivery: "1",
				Value: json.RawMessage(`"go"`)})
			must(t, err)
			if h := r.awaited("a"); !strings.Contains(string(h.Output), `"exit_code":3`) ||
				h.Content.Question != nil {
				t.Errorf("%s: %.200s, %.200v", h.Status, h.Output, h.Content.Question)
			}
			runs, err := os.ReadFile(filepath.Join(dir, "runs"))
			must(t, err)
			if n := strings.Count(string(runs), "x"); n != 1 {
				t.Errorf("it ran %d times", n)
			}
			c, err := r.store.Content(t.Context(), s.Session, s.Call)
			must(t, err)
			if c != nil && c.Total > 0 && c.Head == "" && c.Tail == "" {
				t.Errorf("nothing is left of %d bytes", c.Total)
			}
			r.told(0)
		})
	}
}

// A question that a program asks without an id is told, and its answer arrives.
func TestAQuestionWithoutAnID(t *testing.T) {
	model := fakellm.New(fakellm.Says("Hi."))
	r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{shell(t, t.TempDir(), tool.Once)}},
		&rigOptions{memory: true})
	r.say("Hello.").finished(event.FinishStop)
	r.spawned("a", "sh", scripted(`read start; `+
		`echo '{"type":"waiting","question":{"text":"One?"}}'; read one; `+
		`echo '{"type":"waiting","question":{"text":"Two?"}}'; read two; `+
		`echo "{\"type\":\"stopped\",\"result\":[$one,$two]}"`))
	var ids []string
	for _, text := range []string{"One?", "Two?"} {
		var h tool.Handle
		for h.Content.Question == nil || h.Content.Question.Text != text {
			var err error
			h, err = r.Fetch(t.Context(), chat, "a", user)
			must(t, err)
		}
		ids = append(ids, h.Content.Question.ID)
		_, err := r.Apply(t.Context(), chat, runner.Input{Handle: "a", Actor: user, Delivery: text,
			Value: json.RawMessage(`"` + text + `"`)})
		must(t, err)
	}
	h := r.awaited("a")
	if ids[0] == "" || ids[0] == ids[1] {
		t.Errorf("ids %q", ids)
	}
	for i, text := range []string{"One?", "Two?"} {
		if want := `{"type":"answer","id":"` + ids[i] + `","answer":"` + text + `"}`; !strings.Contains(
			string(h.Output), want) {
			t.Errorf("%s has no %s", h.Output, want)
		}
	}
	r.told(0)
}
