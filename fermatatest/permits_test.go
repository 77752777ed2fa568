package fermatatest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/fermatatest"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/wait"
)

// machine is what one call at a time may use.
type machine struct {
	mu    sync.Mutex
	users map[string]bool // calls
	most  int             // that used it at once
}

func (m *machine) use(call string, uses bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.users == nil {
		m.users = map[string]bool{}
	}
	if m.users[call] = true; !uses {
		delete(m.users, call)
	}
	m.most = max(m.most, len(m.users))
}

func (m *machine) check() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.most > 1 || len(m.users) > 0 {
		return fmt.Errorf("%d calls used the machine at once, and %v use it still", m.most, m.users)
	}
	return nil
}

// renders is a tool that uses the machine for a minute, and holds its permit so
// long; early: it gives the permit back then, and goes on for another minute.
func renders(m *machine, early bool) tool.Tool {
	step := func(n int) (tool.Result[textOut], error) {
		data := json.RawMessage(fmt.Sprint(n))
		return tool.Pending[textOut](tool.Await{Reason: tool.ReasonTimer, Mode: tool.ModeReenter,
			Timeout: time.Minute, Data: data}), nil
	}
	t, err := wait.WithPermit(fn(tool.Spec{Name: "render", Effect: tool.Idempotent, MayPause: true},
		func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
			call := tool.CallFrom(ctx)
			if call.Answer == nil {
				m.use(call.ID, true)
				return step(1)
			}
			if string(call.Answer.Data) == "1" {
				m.use(call.ID, true) // also where this entry was cut off before
			}
			m.use(call.ID, false)
			if early && string(call.Answer.Data) == "1" {
				if err := wait.ReleasePermit(ctx, tool.StoreScope, "gpu"); err != nil {
					return nil, err
				}
				return step(2)
			}
			return tool.Done(textOut{in.Text + " is rendered"}), nil
		}), wait.PermitOptions{Scope: tool.StoreScope, Handle: "gpu", Most: 1})
	if err != nil {
		panic(err)
	}
	return t
}

// permitScenarios are those of permits, and of waits in the scope of the store.
func permitScenarios() []fermatatest.Scenario {
	var all []fermatatest.Scenario
	passes := slices.Repeat([]fermatatest.Input{fermatatest.Pass(2 * time.Minute)}, 8)
	for _, early := range []bool{false, true} {
		name := "a permit's holder"
		if early {
			name = "a permit that is given back early"
		}
		all = append(all, fermatatest.Scenario{Name: name, World: func() fermatatest.World {
			var m machine
			w := family(func() agent.Config {
				return agent.Config{Tools: []tool.Tool{renders(&m, early)}, Model: fakellm.New(
					fakellm.Calls("render", `{"text":"a"}`).And("render", `{"text":"b"}`),
					fakellm.Calls("render", `{"text":"c"}`), fakellm.Says("Done."))}
			})()
			w.Check = m.check
			return w
		}, Inputs: append([]fermatatest.Input{hello}, passes...)})
	}
	return append(all, fermatatest.Scenario{Name: "a timer of the store",
		World: family(func() agent.Config {
			return waiterOf(fakellm.New(fakellm.Calls(creates("t", `"timer","timeoutMs":60000`)),
				fakellm.Calls("wait_for", `{"handleId":"t"}`).
					And("wait_for_multiple", `{"handleIds":["t"],"mode":"any"}`),
				fakellm.Says("Done.")), wait.Config{Scope: tool.StoreScope})
		}), Inputs: []fermatatest.Input{hello, fermatatest.Pass(2 * time.Minute)}})
}

// The holder of a permit is killed at every write: its permit is one call's at a
// time all the same, and goes on to the next.
func TestKilledAmongPermits(t *testing.T) {
	t.Parallel()
	killed(t, .2, inMemory(false), permitScenarios()...)
}
