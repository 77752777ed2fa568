package etcdserver_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/fermatatest"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/etcd"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// kept is where a history is kept: a prefix of the cluster.
type kept string

func (k kept) Open() (kvstore.Store, error) {
	s, err := etcd.Open(context.Background(), string(k), nil)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (k kept) Remove() error { return nil } // the server goes with the tests

type job struct {
	Text string `json:"text"`
}

// A call that waits beside one that runs, of either effect, is cut on etcd as it
// is in memory.
func TestKilledAtEveryWrite(t *testing.T) {
	every := 6 // a short test; FERMATA_TESTS=full cuts each write
	if os.Getenv("FERMATA_TESTS") == "full" {
		every = 1
	}
	var scenarios []fermatatest.Scenario
	for name, effect := range map[string]tool.Effect{"once": tool.Once, "idempotent": tool.Idempotent} {
		waits := tool.Must(tool.Func(tool.Spec{Name: "deploy", Description: "Deploy.", Effect: effect,
			MayPause: true}, func(_ context.Context, in job) (tool.Result[job], error) {
			return tool.Pending[job](tool.Await{Key: in.Text, Timeout: time.Hour}), nil
		}))
		runs := tool.Must(tool.Func(tool.Spec{Name: "work", Description: "Work.", Effect: effect},
			func(_ context.Context, in job) (tool.Result[job], error) { return tool.Done(in), nil }))
		config := agent.Config{Name: "ops", Tools: []tool.Tool{waits, runs}, Model: fakellm.New(
			fakellm.Calls("deploy", `{"text":"job"}`).And("work", `{"text":"a"}`),
			fakellm.Says("Done."))}
		scenarios = append(scenarios, fermatatest.Scenario{Name: name,
			World: func() fermatatest.World {
				return fermatatest.World{Agent: func() agent.Config { return config }}
			},
			Inputs: []fermatatest.Input{fermatatest.Message("m1", "Please do it."),
				fermatatest.Answer("deploy", runner.Complete("", "ci", json.RawMessage(`{"text":"v2"}`))),
			}})
	}
	fermatatest.Run(t, &fermatatest.Options{Every: every, Engines: []fermatatest.Engine{{
		Name: "etcd", New: func() (fermatatest.Place, error) { return kept(place()), nil }}},
	}, scenarios...)
}
