package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/handle"
)

// reports is a tool whose bodies report two steps, and come to an end once they
// may. The second step is reported once next is closed.
func reports(t *testing.T, o *handle.Options, next, end chan struct{}) tool.Tool {
	t.Helper()
	own := tool.Must(tool.Func(tool.Spec{Name: "build", Effect: tool.Idempotent},
		func(ctx context.Context, _ target) (tool.Result[string], error) {
			for i, gate := range []chan struct{}{next, end} {
				step := tool.Progress{Message: fmt.Sprintf("step %d", i+1)}
				if err := tool.CallFrom(ctx).Report(ctx, step); err != nil {
					return nil, err
				}
				select {
				case <-gate:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			return tool.Done("built"), nil
		}))
	made, err := handle.Stateful(own, o)
	must(t, err)
	return made
}

// What the body of a handle reports is content, a line each: it is told once,
// and stays after the end.
func TestReportsAreContent(t *testing.T) {
	next, end := make(chan struct{}), make(chan struct{})
	model := fakellm.New(fakellm.Says("Hi."), fakellm.Calls("build", `{"action":"fetch","id":"a"}`),
		fakellm.Says("I see."), fakellm.Calls("build", `{"action":"fetch","id":"a"}`),
		fakellm.Says("I see."))
	r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{
		reports(t, &handle.Options{HandlePolicy: tool.HandlePolicy{AtEnd: tool.KeepAtEnd}}, next, end),
	}}, nil)
	r.say("Hello.").finished(event.FinishStop)
	r.spawned("a", "build", `{"target":"x"}`)
	for {
		h, err := r.Fetch(t.Context(), chat, "a", user)
		must(t, err)
		if h.Content.Total > 0 {
			break
		}
	}
	r.say("And?").finished(event.FinishStop)
	close(next)
	close(end)
	r.awaited("a")
	r.restart()
	r.say("And?").finished(event.FinishStop)
	got := r.outputs()
	if got[0] != `{"id":"a","state":"running","content":"step 1\n"}` ||
		got[1] != `{"id":"a","state":"stopped","content":"step 2\n","result":"built"}` {
		t.Errorf("%q", got)
	}
	r.told(0)
}

// A spawn with a moment replies as soon as there is content, and after the
// moment if there is none.
func TestAMomentEndsWithContent(t *testing.T) {
	for name, silent := range map[string]bool{"content": false, "none": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &handle.Options{Moment: 5 * time.Minute,
					HandlePolicy: tool.HandlePolicy{AtEnd: tool.KeepAtEnd}}
				made := reports(t, o, make(chan struct{}), nil)
				want, lasts := `{"id":"a","state":"running","content":"step 1\n"}`, time.Duration(0)
				if silent {
					own := tool.Must(tool.Func(tool.Spec{Name: "build", Effect: tool.Idempotent},
						func(ctx context.Context, _ target) (tool.Result[string], error) {
							<-ctx.Done()
							return nil, ctx.Err()
						}))
					var err error
					made, err = handle.Stateful(own, o)
					must(t, err)
					want, lasts = `{"id":"a","state":"running","content":""}`, o.Moment
				}
				r := newRig(t, agent.Config{Tools: []tool.Tool{made},
					Model: fakellm.New(begin("a"), fakellm.Says("Begun."))}, &rigOptions{memory: true})
				from := time.Now()
				for r.say("Go."); len(r.outputs()) == 0; r.carryOn() {
					synctest.Wait()
				}
				if took := time.Since(from); took < lasts || took > lasts+time.Minute {
					t.Errorf("it took %v", took)
				}
				if got := r.outputs(); got[0] != want {
					t.Errorf("%q", got)
				}
				must(t, r.Abort(t.Context(), chat, "a", user, ""))
				r.awaited("a")
				r.told(0)
			})
		})
	}
}

// With Whole each reply has all content that is kept; otherwise Content bounds
// what is new.
func TestHowMuchContentAReplyHas(t *testing.T) {
	for name, o := range map[string]*handle.Options{
		"whole": {Whole: true}, "bounded": {Content: 200},
	} {
		t.Run(name, func(t *testing.T) {
			o.AtEnd = tool.KeepAtEnd
			long := strings.Repeat("x", 1000)
			says := make(chan tool.Content)
			made := talksWith(t, o, says)
			fetch := fakellm.Calls("build", `{"action":"fetch","id":"a"}`)
			r := newRig(t, agent.Config{Tools: []tool.Tool{made},
				Model: fakellm.New(fakellm.Says("Hi."), fetch, fetch, fakellm.Says("I see."))},
				&rigOptions{memory: true})
			r.say("Hello.").finished(event.FinishStop)
			r.spawned("a", "build", `{}`)
			r.said(says, tool.Content{Total: len(long), Tail: long})
			r.say("And?").finished(event.FinishStop)
			for i, got := range r.outputs() {
				var reply struct{ Content string }
				must(t, json.Unmarshal([]byte(got), &reply))
				n := len(reply.Content)
				if o.Whole && reply.Content != long || !o.Whole && (n > 200 || (n == 0) != (i == 1)) {
					t.Errorf("reply %d has %d bytes of content", i, n)
				}
			}
			must(t, r.Abort(t.Context(), chat, "a", user, ""))
			r.awaited("a")
			r.told(0)
		})
	}
}
