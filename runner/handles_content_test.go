package runner_test

import (
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/handle"
)

// talks is a tool whose body says what it is told to, and ends with its first
// input.
func talks(t *testing.T, p tool.HandlePolicy, says <-chan tool.Content) tool.Tool {
	return talksWith(t, &handle.Options{HandlePolicy: p}, says)
}

// talksWith is talks with those options.
func talksWith(t *testing.T, o *handle.Options, says <-chan tool.Content) tool.Tool {
	t.Helper()
	own := rawTool{tool.Spec{Name: "build", Effect: tool.Idempotent, MayPause: true,
		Input:   json.RawMessage(`{"type":"object","properties":{"target":{"type":"string"}}}`),
		Mailbox: []tool.MailboxEvent{{Name: tool.InputEvent}}},
		talksUntil(says, 1)}
	made, err := handle.Stateful(own, o)
	must(t, err)
	return made
}

// talksUntil is a body that says what it is told to, until so many inputs have
// come. The first is its result.
func talksUntil(
	says <-chan tool.Content, inputs int,
) func(context.Context, tool.Call) (tool.Execution, error) {
	return func(ctx context.Context, c tool.Call) (tool.Execution, error) {
		live := c.Host.(tool.Live)
		go func() {
			for {
				select {
				case content := <-says:
					live.Produce(ctx, c, content)
				case <-ctx.Done():
					return
				}
			}
		}()
		var all []tool.Mail
		for last := 0; len(all) < inputs; {
			mail, to, err := live.NextMail(ctx, c, last)
			if err != nil {
				return tool.Execution{}, err
			}
			all, last = append(all, mail...), to
		}
		return tool.Execution{Output: all[0].Payload}, nil
	}
}

// kept makes a tool stateful whose handles go on when their turn ends.
func kept(t *testing.T, own tool.Tool) tool.Tool {
	t.Helper()
	made, err := handle.Stateful(own, &handle.Options{
		HandlePolicy: tool.HandlePolicy{AtEnd: tool.KeepAtEnd}})
	must(t, err)
	return made
}

// said has a body say something, and waits until that is known.
func (r *rig) said(says chan<- tool.Content, c tool.Content) {
	r.t.Helper()
	says <- c
	for {
		h, err := r.Fetch(r.t.Context(), chat, "a", user)
		must(r.t, err)
		if h.Content.Total == c.Total {
			return
		}
	}
}

// What a handle has produced is told the model when it is asked the next time:
// once, in order, and cut in the middle. However often the body says something,
// its parent's head isn't written for it.
func TestNewContentIsToldOnce(t *testing.T) {
	long := strings.Repeat("x", 2000) + "\n"
	for _, on := range []bool{true, false} {
		says := make(chan tool.Content)
		p := tool.HandlePolicy{AtEnd: tool.KeepAtEnd, NewContent: on}
		model := fakellm.New(begin("a"), fakellm.Says("Begun."), fakellm.Says("1."),
			fakellm.Says("2."), fakellm.Says("3."),
			fakellm.Says("4."), fakellm.Calls("build", `{"action":"fetch","id":"a"}`),
			fakellm.Says("5."))
		r := newRig(t, agent.Config{Tools: []tool.Tool{talks(t, p, says)}, Model: model},
			&rigOptions{memory: true})
		r.say("Go.").finished(event.FinishStop)
		text := ""
		more := func(s string) {
			text += s
			r.said(says, tool.Content{Total: len(text), Tail: text})
		}
		more("a\n")
		r.say("1").finished(event.FinishStop)
		r.say("2").finished(event.FinishStop)
		before, err := r.store.Load(t.Context(), chat)
		must(t, err)
		for range 50 {
			more("b\n")
		}
		after, err := r.store.Load(t.Context(), chat)
		must(t, err)
		if d := cmp.Diff(before, after); d != "" {
			t.Errorf("the head has changed (-before +after):\n%s", d)
		}
		r.say("3").finished(event.FinishStop)
		more(long)
		r.say("4").finished(event.FinishStop)
		r.say("5").finished(event.FinishStop)
		const running = "a: running, with new output: "
		all := told(model)
		if !on {
			all = append(all, running+"a\n", running+strings.Repeat("b\n", 50), running+"cut")
		}
		if len(all) != 3 || all[0] != running+"a\n" ||
			all[1] != running+strings.Repeat("b\n", 50) {
			t.Fatalf("the model was told %q", all)
		}
		if cut := all[2]; on && (!strings.Contains(cut, "fetch has it whole") || len(cut) > 1200) {
			t.Errorf("it was told %q", cut)
		}
		var reply struct{ Content string }
		got := r.outputs()
		must(t, json.Unmarshal([]byte(got[len(got)-1]), &reply))
		if want := map[bool]string{true: long, false: text}[on]; reply.Content != want {
			t.Errorf("fetch has %d bytes of %d", len(reply.Content), len(want))
		}
		must(t, r.Abort(t.Context(), chat, "a", user, ""))
		r.awaited("a")
		r.told(0)
	}
}

// A screen is told as it is, if it has changed. A model that is asked after
// another program has begun is told by that one as well.
func TestAScreenIsToldAsItIs(t *testing.T) {
	says := make(chan tool.Content)
	model := fakellm.New(fakellm.Says("Hello."), fakellm.Says("1."), fakellm.Says("2."))
	r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{
		talks(t, tool.HandlePolicy{AtEnd: tool.KeepAtEnd, NewContent: true}, says)}}, nil)
	r.say("Hello.").finished(event.FinishStop)
	r.spawned("a", "build", `{}`)
	r.said(says, tool.Content{Total: 5, Tail: "$ ls\n", Screen: true})
	r.said(says, tool.Content{Total: 12, Tail: "$ ls\ngo.mod\n", Screen: true})
	r.say("1").finished(event.FinishStop)
	r.say("2").finished(event.FinishStop)
	if all := told(model); len(all) != 1 || !strings.HasSuffix(all[0], ": $ ls\ngo.mod\n") {
		t.Errorf("the model was told %q", all)
	}
	must(t, r.Abort(t.Context(), chat, "a", user, ""))
	r.awaited("a")
	r.told(0)
}

// A body that asks while it runs is told of, once for each question. If the
// answer is the model's, a run that waits for the handle goes on for it.
func TestABodyThatAsksIsToldOf(t *testing.T) {
	asks := func(id string, model bool) tool.Content {
		return tool.Content{Total: 1, Tail: "?",
			Question: &tool.LiveQuestion{ID: id, Text: "Which port?", Assistant: model}}
	}
	t.Run("the model", func(t *testing.T) {
		says := make(chan tool.Content)
		model := fakellm.New(begin("a"), fakellm.Says("Begun."),
			fakellm.Calls("build", `{"action":"apply","id":"a","input":"8080"}`), fakellm.Says("Done."),
			fakellm.Says("I see."))
		r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{
			talks(t, tool.HandlePolicy{AtEnd: tool.AwaitAtEnd}, says)}}, &rigOptions{memory: true})
		asked := make(chan struct{})
		go func() { // once the model has ended its turn
			defer close(asked)
			for len(model.Requests()) < 2 {
				runtime.Gosched()
			}
			says <- asks("q1", true)
		}()
		r.say("Go.").finished(event.FinishStop)
		<-asked
		if h := r.awaited("a"); string(h.Output) != `"8080"` {
			t.Errorf("%+v", h)
		}
		if all := told(model); len(all) == 0 ||
			all[0] != "a: waiting for your answer, to be given by its action apply: Which port?" {
			t.Errorf("the model was told %q", all)
		}
		r.told(0)
	})
	for _, quiet := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			says := make(chan tool.Content)
			model := fakellm.New(begin("a"), fakellm.Says("Begun."), fakellm.Says("1."),
				fakellm.Says("2."))
			r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{talks(t,
				tool.HandlePolicy{AtEnd: tool.KeepAtEnd, NoWaiting: quiet}, says)}},
				&rigOptions{memory: true})
			r.say("Go.").finished(event.FinishStop)
			synctest.Wait()
			r.faults.Add(faultkv.FailAt(r.faults.Applies() + 1)) // what is not stored is stored later
			for _, text := range []string{"1", "2"} {
				says <- asks("q1", false)
				time.Sleep(3 * time.Second)
				r.say(text).finished(event.FinishStop)
				if len(told(model)) == 0 && !quiet {
					t.Errorf("the model is not told before %s", text)
				}
			}
			if r.faults.Struck() != 1 {
				t.Error("no fault has struck")
			}
			if all := told(model); len(all) > 1 || (len(all) == 0) != quiet {
				t.Errorf("the model was told %q", all)
			}
			must(t, r.Abort(t.Context(), chat, "a", user, ""))
			r.awaited("a")
			r.told(0)
		})
	}
}
