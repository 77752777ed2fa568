package runner_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// all is everything that a store holds.
func all(t *testing.T, kv kvstore.Store) map[string]string {
	t.Helper()
	entries := map[string]string{}
	var r kvstore.Range
	for {
		page, err := kv.Scan(t.Context(), r)
		must(t, err)
		for _, e := range page.Entries {
			entries[string(e.Key)] = string(e.Value)
			r.After = e.Key
		}
		if !page.More {
			return entries
		}
	}
}

// A full disk refuses each operation, and leaves what was there. When there is room again, the operation succeeds.
func TestFullDiskChangesNothing(t *testing.T) {
	large := text(strings.Repeat("x", 200<<10))
	operations := map[string]func(context.Context, *runner.Runner, tool.Pause) error{
		"an answer": func(ctx context.Context, rn *runner.Runner, p tool.Pause) error {
			_, err := rn.Resume(ctx, chat, runner.Complete(p.ID, "ci", text("v2")))
			return err
		},
		"a large answer": func(ctx context.Context, rn *runner.Runner, p tool.Pause) error {
			_, err := rn.Resume(ctx, chat, runner.Complete(p.ID, "ci", large))
			return err
		},
		"a failure": func(ctx context.Context, rn *runner.Runner, p tool.Pause) error {
			_, err := rn.Resume(ctx, chat, runner.Fail(p.ID, "ci", "no disk", true))
			return err
		},
		"a cancellation": func(ctx context.Context, rn *runner.Runner, p tool.Pause) error {
			_, err := rn.Cancel(ctx, chat, p.Call, "ada", "too slow")
			return err
		},
		"progress": func(ctx context.Context, rn *runner.Runner, p tool.Pause) error {
			return rn.Progress(ctx, chat, p.Call, user, tool.Progress{Message: "half"})
		},
		"another session's message": func(ctx context.Context, rn *runner.Runner, p tool.Pause) (err error) {
			for _, err = range rn.Run(ctx, user, "chat-2", llm.UserText("Go."), &runner.RunOptions{MessageID: "m1"}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	for name, operation := range operations {
		t.Run(name, func(t *testing.T) {
			var n counter
			var disk *faultkv.Injector
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{waiting("deploy", tool.Idempotent, &n)},
				Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job"}`), fakellm.Says("Done.")),
			}, &rigOptions{wrap: func(kv kvstore.Store) kvstore.Store { disk = faultkv.New(kv); return disk.Store }})
			p := r.say("Go.").finished(event.FinishPaused).pause("deploy")
			for room := 0; ; room++ { // commits for which there is room
				before := all(t, r.engine)
				disk.Add(faultkv.FullFrom(disk.Applies() + 1 + room))
				struck := disk.Struck()
				err := operation(t.Context(), r.Runner, p)
				disk.Heal()
				if disk.Struck() == struck {
					must(t, err)
					break
				}
				if !errors.Is(err, faultkv.ErrFull) {
					t.Fatalf("with room for %d commits: %v", room, err)
				}
				if room == 0 && !maps.Equal(before, all(t, r.engine)) {
					t.Error("a refused write has left something")
				}
				for flaw, err := range r.store.Check(t.Context()) {
					t.Errorf("with room for %d commits: %v, %v", room, flaw, err)
				}
			}
			if disk.Struck() == 0 {
				t.Error("the disk was never full")
			}
		})
	}
}

// What a crash cut off is settled before the user's next message, by a result that is stored: it reads the same each time.
func TestMessageAfterACrash(t *testing.T) {
	entered := 0
	r := crash(t, tool.Spec{Name: "pay"}, func(tool.Call) tool.Result[textOut] { entered++; return tool.Done(textOut{"paid"}) })
	r.say("Have you paid?").finished(event.FinishStop)
	roles := func() (s string) {
		for _, m := range r.transcript().History {
			s += string(m.Role) + " "
		}
		return s
	}
	if got := roles(); got != "user assistant tool user assistant " {
		t.Errorf("the transcript is %s", got)
	}
	var read []string
	for range 2 {
		b, err := r.transcript().History[2].AppendJSON(nil)
		must(t, err)
		read = append(read, string(b))
		r.restart()
	}
	if read[0] != read[1] || !strings.Contains(read[0], "unknown") {
		t.Errorf("the result is read as %s, and then as %s", read[0], read[1])
	}
	if entered != 1 {
		t.Errorf("the body was entered %d times", entered)
	}
	r.acceptable()
}

// What a turn writes does not grow with the history.
func TestTurnsWriteWhatIsNew(t *testing.T) {
	const turns, size = 60, 20 << 10
	load := tool.Must(tool.Func(tool.Spec{Name: "load", Description: "Loads much.", Effect: tool.ReadOnly},
		func(context.Context, textIn) (tool.Result[textOut], error) {
			return tool.Done(textOut{strings.Repeat("x", size)}), nil
		}))
	var disk *faultkv.Injector
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{load}, Limits: agent.Limits{Turns: turns + 1},
		Model: fakellm.New(fakellm.Calls("load", `{"text":"a"}`).Times(turns), fakellm.Says("Done.")),
	}, &rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store { disk = faultkv.New(kv); return disk.Store }})
	r.say("Go.").finished(event.FinishStop)
	bytes := func(from, to int) (n int) { // of commits, in per cent
		for _, c := range disk.Calls()[from*len(disk.Calls())/100 : to*len(disk.Calls())/100] {
			n += c.Bytes
		}
		return n
	}
	early, late := bytes(10, 50), bytes(50, 90)
	if late > early*11/10 {
		t.Errorf("the first turns wrote %d bytes, as many later ones %d", early, late)
	}
	if perTurn := (early + late) / (turns * 8 / 10); perTurn > 3*size {
		t.Errorf("a turn writes %d bytes for a result of %d", perTurn, size)
	}
}
