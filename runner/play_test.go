package runner_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

var update = flag.Bool("update", false, "write what happens into testdata/*.txtar")

// play is a whole behaviour as a txtar archive: a section for each thing that
// an actor does, with what is seen of it, and at last what is stored. Calls are
// named by turn and place, pauses by call and number; there are no times.
type play struct {
	*rig
	b strings.Builder
}

// TestPlays compares whole behaviours with testdata; -update writes them.
func TestPlays(t *testing.T) {
	for name, perform := range map[string]func(*testing.T) *play{
		"approval": playApproval, "deploy": playDeploy, "batch": playBatch,
		"supersede": playSupersede,
	} {
		t.Run(name, func(t *testing.T) {
			p := perform(t)
			p.stored()
			got, path := p.named(), filepath.Join("testdata", name+".txtar")
			if *update {
				must(t, os.MkdirAll("testdata", 0o755))
				must(t, os.WriteFile(path, []byte(got), 0o644))
			}
			want, err := os.ReadFile(path)
			must(t, err)
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s differs (-want +got); go test -run TestPlays -update writes it:\n%s",
					path, diff)
			}
			p.acceptable()
		})
	}
}

func (p *play) section(title string) { fmt.Fprintf(&p.b, "-- %s --\n", title) }

func (p *play) linef(format string, args ...any) { fmt.Fprintf(&p.b, format+"\n", args...) }

// shows writes what a run showed.
func (p *play) shows(s *seen) *seen {
	said := ""
	flush := func() {
		if said != "" {
			p.linef("text %q", said)
		}
		said = ""
	}
	for _, ev := range s.events {
		if ev, ok := ev.(event.TextDelta); ok {
			said += ev.Delta
			continue
		}
		flush()
		switch ev := ev.(type) {
		case event.Message:
			p.linef("message %d of the %s", ev.Number, ev.Message.Role)
		case event.Call:
			p.linef("call %s %s %s", ev.Call.ID, ev.Call.Name, ev.Call.Arguments)
		case event.Pause:
			a := ev.Pause.Await
			p.linef("pause %s %s %s %s %q", ev.Pause.ID, ev.Pause.Tool, a.Reason, a.Gate, a.Prompt)
		case event.Result:
			p.linef("result %s %s %s by %q: %s", ev.Result.Call, ev.Result.Name, ev.Status,
				ev.Actor, ev.Result.Output)
		case event.End:
			p.linef("end %s, %d waiting", ev.Finish, len(ev.Pending))
		}
	}
	flush()
	if s.err != nil {
		p.linef("error %v", s.err)
	}
	return s
}

func (p *play) says(text string) *seen {
	p.section(user + " says: " + text)
	return p.shows(p.say(text))
}

// resumes answers, writes the receipts, and carries on.
func (p *play) resumes(title string, rs ...runner.Resumption) *seen {
	p.section(title)
	res, err := p.Resume(p.t.Context(), chat, rs...)
	var conflict *session.ConflictError
	var settled *session.SettledError
	switch {
	case errors.As(err, &settled):
		p.linef("refused: %s is %s by %s", settled.Call, settled.Status, settled.Actor)
		return nil
	case errors.As(err, &conflict):
		p.linef("refused %s: %s by %s came first",
			session.PauseID(conflict.Receipt.Call, conflict.Receipt.Pause),
			conflict.Receipt.Kind, conflict.Receipt.Actor)
		return nil
	case err != nil:
		p.linef("refused: %v", err)
		return nil
	}
	for _, r := range res.Receipts {
		p.linef("accepted %s %s by %s, before: %v", session.PauseID(r.Call, r.Pause), r.Kind,
			r.Actor, r.Duplicate)
	}
	return p.shows(watch(p.t, res.Events(p.t.Context())))
}

func (p *play) restarts() {
	p.section("the process is started anew")
	p.restart()
	for w, err := range p.Pending(p.t.Context(), session.PauseFilter{}, user) {
		must(p.t, err)
		how := ""
		if w.Progress != nil {
			how = w.Progress.Message
		}
		p.linef("waiting %s %s %s %q", w.ID, w.Tool, w.Arguments, how)
	}
}

func (p *play) stored() {
	p.section("stored")
	for _, m := range p.transcript().History {
		p.linef("%s", m.Role)
		for _, part := range m.Parts {
			switch part := part.(type) {
			case llm.Text:
				p.linef("  text %q", part.Text)
			case llm.ToolCall:
				p.linef("  call %s %s %s", part.ID, part.Name, part.Arguments)
			case llm.ToolResult:
				p.linef("  result %s %s error:%v %s", part.Call, part.Name, part.Error, part.Output)
			}
		}
	}
}

// named is the archive with calls and pauses named by their places.
func (p *play) named() string {
	text, turn := p.b.String(), 0
	for _, m := range p.transcript().History {
		if m.Role != llm.RoleAssistant {
			continue
		}
		turn++
		for i, c := range m.ToolCalls() {
			name := fmt.Sprintf("%d.%d", turn, i+1)
			text = strings.ReplaceAll(text, c.ID+".", name+"#")
			text = strings.ReplaceAll(text, c.ID, name)
		}
	}
	return text
}

// newPlay is a play whose calls run one after the other.
func newPlay(t *testing.T, about string, c agent.Config) *play {
	c.Concurrency = max(c.Concurrency, 1)
	p := &play{rig: newRig(t, c, nil)}
	p.linef("%s\n", about)
	return p
}

func playApproval(t *testing.T) *play {
	var n counter
	p := newPlay(t,
		"A refund is approved with other arguments than the model's; a second one is denied.",
		agent.Config{
			Model: fakellm.New(
				fakellm.Says("I ask for it. ").And("refund", `{"text":"order 7"}`).And("audit",
					`{"text":"order 7"}`), fakellm.Calls("refund", `{"text":"order 8"}`),
				fakellm.Says("Order 7 is half refunded, order 8 is not.")),
			Tools: []tool.Tool{instant("refund", tool.Once, &n),
				instant("audit", tool.ReadOnly, &n)},
			Interceptors: interceptor.Chain{interceptor.Approval(nil)},
		})
	first := p.says("Refund orders 7 and 8.").pause("refund")
	p.restarts()
	second := p.resumes("bob approves half of it", runner.ApproveEdited(first.ID, "bob", "half",
		textIn{"half of order 7"})).pause("refund")
	p.resumes("bob's button is pressed twice", runner.ApproveEdited(first.ID, "bob", "half",
		textIn{"half of order 7"}))
	p.resumes("eve denies it too late", runner.Deny(first.ID, "eve", "no"))
	p.resumes("bob denies the second", runner.Deny(second.ID, "bob", "wrong customer"))
	return p
}

func playDeploy(t *testing.T) *play {
	var n counter
	p := newPlay(t, "A deployment is an outside job. The process ends meanwhile, and the job's webhook comes twice.", agent.Config{
		Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`),
			fakellm.Says("It is deployed.")), Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
	})
	p.says("Deploy checkout v2.5.0.")
	w, err := p.Find(t.Context(), runner.Ref{Tool: "deploy", Key: "job-1"}, user)
	must(t, err)
	must(t, p.Progress(t.Context(), chat, w.ID, user, tool.Progress{Message: "half"}))
	p.restarts()
	p.resumes("the webhook comes with something else than the tool's output",
		runner.Complete(w.ID, "ci", []byte(`{"text":1}`)))
	p.resumes("the webhook comes", runner.Complete(w.ID, "ci", text("green")))
	p.resumes("the webhook comes again",
		runner.Complete(w.ID, "ci", []byte(` {"text" : "green"} `)))
	p.resumes("another answer comes", runner.Fail(w.ID, "ci", "red", false))
	return p
}

// batchConfig is three calls: one is done at once, one waits for a job, one for
// a person.
func batchConfig(concurrency int) agent.Config {
	var n counter
	return agent.Config{
		Model: fakellm.New(
			fakellm.Calls("ask", `{"text":"Which city?"}`).And("job", `{"text":"job-1"}`).And("look", `{"text":"map"}`).And("nosuch", `{}`),
			fakellm.Says("Oslo it is.")),
		Tools: []tool.Tool{asking("ask", &n), waiting("job", tool.Once, &n),
			instant("look", tool.ReadOnly, &n)},
		Concurrency: concurrency,
	}
}

func playBatch(t *testing.T) *play {
	perform := func(concurrency int) *play {
		p := newPlay(t, "Four calls: one waits for a person, one for a job, one is done, one is of a tool that isn't there. The answers come in the opposite order.", batchConfig(concurrency))
		run := p.says("Plan a trip.")
		p.resumes("the job is done", runner.Complete(run.pause("job").ID, "ci", text("done")))
		p.restarts()
		p.resumes("ada answers", runner.Complete(run.pause("ask").ID, user, text("Oslo")))
		return p
	}
	stored := func(p *play) string {
		p = &play{rig: p.rig}
		p.stored()
		return p.named()
	}
	one := perform(1)
	if diff := cmp.Diff(stored(one), stored(perform(8))); diff != "" {
		t.Errorf("what is stored differs by how many run at once (-1 +8):\n%s", diff)
	}
	return one
}

func playSupersede(t *testing.T) *play {
	var n counter
	p := newPlay(t, "Somebody says something else while an approval waits for them. It is denied in favour of that, when asked for.", agent.Config{
		Model: fakellm.New(fakellm.Calls("refund", `{"text":"order 7"}`),
			fakellm.Says("I leave it.")),
		Tools:        []tool.Tool{instant("refund", tool.Once, &n)},
		Interceptors: interceptor.Chain{interceptor.Approval(nil)},
	})
	w := p.says("Refund order 7.").pause("refund")
	p.says("Never mind.")
	p.section(user + " says, in place of an answer: Never mind.")
	p.shows(watch(t, p.Run(t.Context(), user, chat, llm.UserText("Never mind."),
		&runner.RunOptions{Supersede: true})))
	p.resumes("bob approves it too late", runner.Approve(w.ID, "bob", ""))
	return p
}
