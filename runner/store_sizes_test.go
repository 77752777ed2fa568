package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

func TestPayloadSizes(t *testing.T) {
	const limit = 1 << 20
	frame := len(text(""))
	for _, c := range []struct {
		size int // of the payload
		ok   bool
	}{{1 << 10, true}, {1<<10 + 1, true}, {60 << 10, true}, {60<<10 + 1, true},
		{limit, true}, {limit + 1, false}} {
		t.Run(fmt.Sprint(c.size), func(t *testing.T) {
			var n counter
			r, p := deployed(t, &n)
			payload := text(strings.Repeat("x", c.size-frame))
			_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", payload))
			if !c.ok {
				if !errors.Is(err, session.ErrInvalidResumePayload) ||
					!strings.Contains(err.Error(), fmt.Sprint(limit)) {
					t.Errorf("Resume: %v", err)
				}
				if st, err := r.Call(t.Context(), chat, p.Call, user); err != nil ||
					st.Status != session.Pending {
					t.Errorf("the call is %s, %v", st.Status, err)
				}
				return
			}
			must(t, err)
			r.restart()
			r.carryOn().finished(event.FinishStop)
			if got := r.result(p.Call).Output; string(got) != string(payload) {
				t.Errorf("the result has %d bytes", len(got))
			}
			st, err := r.Call(t.Context(), chat, p.Call, user)
			if err != nil || string(st.Output) != string(payload) {
				t.Errorf("the call's output has %d bytes, %v", len(st.Output), err)
			}
			r.acceptable()
		})
	}
}

// An error may be as long as it likes: that the run has failed is recorded all
// the same.
func TestLongErrorsAreRecorded(t *testing.T) {
	long := errors.New(strings.Repeat("é", 100_000))
	fatal := tool.Must(tool.Func(tool.Spec{Name: "act"},
		func(context.Context, textIn) (tool.Result[textOut], error) {
			return nil, tool.Fatal(long)
		}))
	for name, model := range map[string]llm.Model{
		"of the model": fakellm.New(fakellm.Fails(long)),
		"of a tool":    fakellm.New(fakellm.Calls("act", `{"text":"a"}`)),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, agent.Config{Tools: []tool.Tool{fatal}, Model: model}, nil)
			if s := r.say("Go."); !errors.Is(s.err, long) || s.end.Finish != event.FinishFailed {
				t.Errorf("the run ended as %s", s.end.Finish)
			}
			r.restart()
			got := r.transcript()
			if got.Finish != event.FinishFailed || !strings.Contains(got.Why, "éé") ||
				len(got.Why) > 2000 || !utf8.ValidString(got.Why) {
				t.Errorf("it is recorded as %s: %.100s", got.Finish, got.Why)
			}
		})
	}
}

// What a turn writes does not grow with the history.
func TestTurnsWriteWhatIsNew(t *testing.T) {
	const turns, size = 60, 20 << 10
	load := tool.Must(tool.Func(tool.Spec{Name: "load",
		Description: "Loads much.", Effect: tool.ReadOnly},
		func(context.Context, textIn) (tool.Result[textOut], error) {
			return tool.Done(textOut{strings.Repeat("x", size)}), nil
		}))
	var disk *faultkv.Injector
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{load}, Limits: agent.Limits{Turns: turns + 1},
		Model: fakellm.New(fakellm.Calls("load", `{"text":"a"}`).Times(turns),
			fakellm.Says("Done.")),
	}, &rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store {
		disk = faultkv.New(kv)
		return disk.Store
	}})
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

// size is how large the rig's file is.
func (r *rig) size() int64 {
	r.t.Helper()
	info, err := os.Stat(r.path)
	must(r.t, err)
	return info.Size()
}

// TestSlowReadersHoldNothing: while a caller looks at one item of a list, or at
// one event, no transaction is open. Commits go on, and the file doesn't grow
// by what is overwritten.
func TestSlowReadersHoldNothing(t *testing.T) {
	var n counter
	now := newClock()
	r := newRig(t, oneCall(waiting("job", tool.Once, &n)),
		&rigOptions{session: &session.Options{Now: now.now}})
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	watch(t, r.Run(t.Context(), user, "chat-2",
		llm.UserText("Go."), nil)).finished(event.FinishPaused)
	flood := func() {
		before, commits := r.size(), r.faults.Commits()
		for range 200 {
			now.pass(time.Second) // each of them is written
			must(t, r.Progress(t.Context(), chat, p.Call, user,
				tool.Progress{Message: strings.Repeat("x", 1000)}))
		}
		if got := r.faults.Commits() - commits; got != 200 {
			t.Errorf("there were %d commits", got)
		}
		if after := r.size(); after > before+1<<20 {
			t.Errorf("the file grew from %d to %d bytes", before, after)
		}
	}
	for p, err := range r.Pending(t.Context(), session.PauseFilter{}, user) {
		must(t, err)
		if p.Session == chat {
			flood()
		}
	}
	for s, err := range r.Sessions(t.Context(), session.Filter{}, user) {
		must(t, err)
		if s.ID == chat {
			flood()
		}
	}
	for ev, err := range r.Follow(t.Context(), chat, user, nil) {
		must(t, err)
		if m, ok := ev.(event.Message); ok && m.Number == 0 {
			flood()
		}
	}
}

// TestWritesAreOfWhatIsNew: a turn of a long session writes what a turn of a
// short one does.
func TestWritesAreOfWhatIsNew(t *testing.T) {
	const turns = 100
	large := does(tool.Spec{Name: "large"},
		func(_ context.Context, s string) (tool.Result[textOut], error) {
			return tool.Done(textOut{strings.Repeat(s, 20_000)}), nil
		})
	r := newRig(t, agent.Config{
		Model: fakellm.New(fakellm.Calls("large", `{"text":"x"}`).Times(turns),
			fakellm.Says("Done.")), Tools: []tool.Tool{large},
		Limits: agent.Limits{Turns: turns + 1},
	}, nil)
	var written []int // after each turn
	for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
		must(t, err)
		if _, ok := ev.(event.Call); ok {
			bytes := 0
			for _, c := range r.faults.Calls() {
				bytes += c.Bytes
			}
			written = append(written, bytes)
		}
	}
	early, late := written[20]-written[10], written[turns-1]-written[turns-11]
	if float64(late) > 1.02*float64(early) {
		t.Errorf("ten early turns wrote %d bytes, ten late ones %d", early, late)
	}
	if perTurn := late / 10; perTurn > 3*20_000 {
		t.Errorf("a turn with a result of 20 kB writes %d bytes", perTurn)
	}
	r.acceptable()
}
