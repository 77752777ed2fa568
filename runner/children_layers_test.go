package runner_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/agenttool"
)

// passed is what has come through layers, in order.
type passed struct {
	mu  sync.Mutex
	all []string
}

func (p *passed) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, fmt.Sprintf(format, args...))
}

// layers is one of each kind, which note what comes through.
func (p *passed) layers(name string) interceptor.Chain {
	return interceptor.Chain{{Name: name,
		Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
			return func(ctx context.Context, c tool.Call) (tool.Execution, error) {
				ex, err := next(ctx, c)
				p.note("%s tool %s %s pends=%v", name, c.Tool, ex.Output, ex.Await != nil)
				return ex, err
			}
		},
		Model: func(next interceptor.ModelHandler) interceptor.ModelHandler {
			return func(ctx context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
				p.note("%s model %d", name, len(r.Messages))
				return next(ctx, r)
			}
		},
		Turn: func(next interceptor.TurnHandler) interceptor.TurnHandler {
			return func(ctx context.Context, turn interceptor.Turn) turnEvents {
				p.note("%s turn %d resumed=%v", name, turn.Number, turn.Resumed)
				return func(yield func(event.Event, error) bool) {
					for ev, err := range next(ctx, turn) {
						if n, ok := ev.(event.Nested); ok {
							p.note("%s turn sees %T", name, n.Event)
						}
						if !yield(ev, err) {
							return
						}
					}
				}
			}
		}}}
}

// of is what came through the layers of that name.
func (p *passed) of(name string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.all), func(s string) bool {
		return !strings.HasPrefix(s, name+" ")
	})
}

// A parent's layers see the call of a nested agent: once on its way in, and once
// with the result. They see nothing of what the agent does, also while another
// body of the parent keeps its drive going. The agent's own layers see all of
// that, and nothing of the parent's.
func TestLayersStandAroundTheirOwnAgent(t *testing.T) {
	for name, beside := range map[string]bool{"alone": false, "beside a body": true} {
		t.Run(name, func(t *testing.T) {
			var p passed
			done := make(chan struct{})
			note := does(tool.Spec{Name: "note", Effect: tool.ReadOnly},
				func(context.Context, string) (tool.Result[textOut], error) {
					return tool.Done(textOut{"noted"}), nil
				})
			helper, err := agent.New(agent.Config{Name: "helper", Tools: []tool.Tool{note},
				Model: fakellm.New(fakellm.Says("I look.").And("note", `{"text":"x"}`),
					fakellm.From(func(llm.Request) fakellm.Turn {
						return fakellm.Says("Noted.").Hook(func(_ context.Context, n int) error {
							if n == 0 {
								close(done)
							}
							return nil
						})
					})),
				Interceptors: p.layers("inner")})
			must(t, err)
			nested, err := agenttool.New[task, string](helper, nil)
			must(t, err)
			long := does(tool.Spec{Name: "long", Effect: tool.ReadOnly},
				func(context.Context, string) (tool.Result[textOut], error) {
					<-done
					return tool.Done(textOut{"long"}), nil
				})
			turn := fakellm.Calls("helper", `{"what":"Note."}`)
			if beside {
				turn = turn.And("long", `{"text":"x"}`)
			}
			r := newRig(t, agent.Config{Tools: []tool.Tool{nested, long},
				Model: fakellm.New(turn, fakellm.Says("Well.")), Interceptors: p.layers("outer")}, nil)
			s := r.say("Go.").finished(event.FinishStop)
			must(t, r.Close())
			outer := slices.DeleteFunc(p.of("outer"), func(s string) bool {
				return strings.HasPrefix(s, "outer tool long")
			})
			// While the body goes on, the drive may take the result up within
			// the turn, or after it has waited.
			outer = slices.DeleteFunc(outer, func(s string) bool {
				return s == "outer turn 1 resumed=true"
			})
			want := []string{"outer turn 1 resumed=false", "outer model 1",
				"outer tool helper  pends=true", `outer tool helper "Noted." pends=false`,
				"outer turn 2 resumed=false", "outer model 3"}
			if d := cmp.Diff(want, outer); d != "" {
				t.Errorf("through the parent's layers came (-want +got):\n%s", d)
			}
			want = []string{"inner turn 1 resumed=false", "inner model 1",
				`inner tool note {"text":"noted"} pends=false`,
				"inner turn 2 resumed=false", "inner model 3"}
			if d := cmp.Diff(want, p.of("inner")); d != "" {
				t.Errorf("through the agent's layers came (-want +got):\n%s", d)
			}
			if len(of[event.Nested](s)) == 0 {
				t.Error("the caller has seen nothing of the agent")
			}
		})
	}
}
