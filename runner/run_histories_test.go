package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// messageReads counts the messages that are read from an engine.
type messageReads struct {
	kvstore.Exclusive
	n atomic.Int64
}

func (c *messageReads) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	page, err := c.Exclusive.Scan(ctx, r)
	for _, e := range page.Entries {
		if bytes.HasPrefix(e.Key, []byte("m\x00")) {
			c.n.Add(1)
		}
	}
	return page, err
}

// diligent is a model that calls job for each message, and then is done. It keeps
// what it was asked.
type diligent struct {
	mu    sync.Mutex
	asked [][]llm.Message
}

func (j *diligent) model() modelFunc {
	return func(r llm.Request) []llm.Event {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.asked = append(j.asked, r.Messages)
		if r.Messages[len(r.Messages)-1].Role == llm.RoleUser {
			return []llm.Event{llm.PartDone{Part: llm.ToolCall{Name: "job",
				Arguments: text("")}}, llm.Finish{Reason: llm.StopEnd}}
		}
		return []llm.Event{llm.PartDone{Part: llm.Text{Text: "Done."}},
			llm.Finish{Reason: llm.StopEnd}}
	}
}

// working is an agent of that model, whose calls wait.
func (j *diligent) working(n *counter) agent.Config {
	return agent.Config{Model: j.model(), Tools: []tool.Tool{
		tool.Must(tool.Func(tool.Spec{Name: "job", Effect: tool.Idempotent, MayPause: true},
			func(context.Context, textIn) (tool.Result[textOut], error) {
				n.add("job")
				return tool.Pending[textOut](tool.Await{}), nil
			}))}}
}

// cycle is a message, a pause, and its answer.
func (r *rig) cycle(id string) {
	r.t.Helper()
	s := watch(r.t, r.Run(r.t.Context(), user, id, llm.UserText("Go."), nil))
	p := s.finished(event.FinishPaused).pause("job")
	res, err := r.Resume(r.t.Context(), id, runner.Complete(p.ID, "ci", text("v")))
	must(r.t, err)
	watch(r.t, res.Events(r.t.Context())).finished(event.FinishStop)
}

// A process reads a session's history once, however many drives the session
// has, as far as it has room for it. Each cycle reads the message that was said,
// and the one that asked for the call that is answered.
func TestHistoriesAreReadOnce(t *testing.T) {
	for name, c := range map[string]struct {
		room     int
		sessions []string // of the cycles, one after the other
		want     []int    // messages that each of them reads
	}{
		"by default": {0, []string{chat, chat, "chat-2", chat, "chat-2"}, []int{2, 2, 2, 2, 2}},
		"with room for none": {-1, []string{chat, chat, chat},
			[]int{1 + 3, 5 + 7, 9 + 11}},
		// Of six messages, the history is too long.
		"with room for a turn": {1600, []string{chat, chat, chat}, []int{2, 2 + 6, 9 + 11}},
		"with room for one session": {2600, []string{chat, "chat-2", chat},
			[]int{2, 2, 5 + 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var j diligent
			var n counter
			reads := &messageReads{}
			r := newRig(t, j.working(&n), &rigOptions{memory: true,
				runner: &runner.Options{HistoryCache: c.room},
				wrap: func(kv kvstore.Store) kvstore.Store {
					reads.Exclusive = kv.(kvstore.Exclusive)
					return reads
				}})
			for i, id := range c.sessions {
				reads.n.Store(0)
				r.cycle(id)
				if got := int(reads.n.Load()); got != c.want[i] {
					t.Errorf("cycle %d, of %s, reads %d messages, and not %d", i+1, id, got, c.want[i])
				}
			}
		})
	}
}

// Whichever process has driven the session in between, and whatever was dropped:
// what a model is asked is what is stored.
func TestKeptHistoriesAreWhatIsStored(t *testing.T) {
	var j diligent
	var n counter
	r := newRig(t, j.working(&n), nil)
	r.cycle(chat)
	second := r.another()
	first := r.Runner
	r.Runner = second
	r.cycle(chat)
	r.Runner = first
	// The results ride, and are lost with the model's message.
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	r.faults.Add(faultkv.FailAt(r.faults.Applies() + 2))
	res, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v")))
	must(t, err)
	if s := watch(t, res.Events(t.Context())); s.err == nil {
		t.Fatalf("the run ended as %s", s.end.Finish)
	}
	r.Runner = second
	r.carryOn().finished(event.FinishStop)
	r.cycle(chat)
	r.Runner = first
	r.cycle(chat)
	stored := r.transcript().History
	for i, asked := range j.asked {
		want, err := json.Marshal(stored[:len(asked)])
		must(t, err)
		got, err := json.Marshal(asked)
		must(t, err)
		if string(got) != string(want) {
			t.Errorf("request %d has\n%s, and stored is\n%s", i, got, want)
		}
	}
	if n.get("job") != 5 || len(stored) != 20 {
		t.Errorf("%d jobs, %d messages", n.get("job"), len(stored))
	}
}
