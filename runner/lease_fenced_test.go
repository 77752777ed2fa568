package runner_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// A drive that learns, as it is about to enter a body, that another one has taken its lease, ends: it doesn't try again and again for
// as long as the other one is at work.
func TestFencedBeforeTheBody(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
		t.Run(string(effect), func(t *testing.T) {
			var n counter
			var tries atomic.Int32
			at := newClock()
			reached, first, second := make(chan struct{}, 2), make(chan struct{}), make(chan struct{})
			brake := interceptor.Layer{Name: "brake", Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
				return func(ctx context.Context, c tool.Call) (tool.Execution, error) {
					switch tries.Add(1) {
					case 1:
						reached <- struct{}{}
						<-first
					case 2:
						reached <- struct{}{}
						<-second
					}
					return next(ctx, c)
				}
			}}
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{instant("act", effect, &n)}, Interceptors: interceptor.Chain{brake},
				Model: messages(calls("act", `{"text":"a"}`), says("Done.")),
			}, &rigOptions{memory: true, wrap: hidden, session: &session.Options{Now: at.now, MaxSkew: time.Millisecond}})
			ended := r.begin("Act.")
			<-reached
			at.pass(time.Hour)
			other, carriedOn := r.another(), make(chan *seen, 1)
			go func() { carriedOn <- watch(t, other.Continue(t.Context(), chat, user)) }()
			<-reached
			close(first)
			ended().finished(event.FinishElsewhere)
			close(second)
			(<-carriedOn).finished(event.FinishStop)
			if tries.Load() > 2 || effect == tool.Once && n.get("act") != 1 {
				t.Errorf("the call was tried %d times, and its body entered %d times", tries.Load(), n.get("act"))
			}
		})
	}
}
