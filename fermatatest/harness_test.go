package fermatatest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/fermatatest"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// cut runs a scenario in memory.
func cut(t *testing.T, e fermatatest.Engine, s fermatatest.Scenario) fermatatest.Report {
	t.Helper()
	r, err := s.Cut(t.Context(), e, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// finds fails the test unless some history was wrong, the first of them in this
// way.
func finds(t *testing.T, r fermatatest.Report, want string) {
	t.Helper()
	if len(r.Violations) == 0 {
		t.Fatalf("nothing was found in %d histories", r.Histories)
	}
	if got := r.Violations[0].String(); !strings.Contains(got, want) {
		t.Errorf("found:\n%s\nand not %q", got, want)
	}
}

func TestFindsAnEffectThatHappensTwice(t *testing.T) {
	s := fermatatest.Scenario{Name: "no key", Inputs: []fermatatest.Input{hello},
		World: func() fermatatest.World {
			var l ledger
			pay := fn(tool.Spec{Name: "pay", Effect: tool.Idempotent},
				func(context.Context, textIn) (tool.Result[textOut], error) {
					// This stands in place of the IdempotencyKey, by which the
					// ledger could tell.
					l.do("the same for all")
					return tool.Done(textOut{"paid"}), nil
				})
			w := world(agent.Config{Tools: []tool.Tool{pay}, Model: paid})()
			w.Check = l.atMostOnce
			return w
		}}
	finds(t, cut(t, fermatatest.Memory(), s), "the ledger has the same for all 2 times")
}

func TestFindsWhatDependsOnTheProcess(t *testing.T) {
	s := fermatatest.Scenario{Name: "in memory", Inputs: []fermatatest.Input{
		hello, fermatatest.Answer("deploy", runner.Complete("", "ci", text("v2"))),
	}, World: func() fermatatest.World {
		return fermatatest.World{Agent: func() agent.Config {
			jobs := 0 // a crash forgets them
			start := fn(tool.Spec{Name: "start", Effect: tool.Idempotent},
				func(context.Context, textIn) (tool.Result[textOut], error) {
					jobs++
					return tool.Done(textOut{"started"}), nil
				})
			look := fn(tool.Spec{Name: "look", Effect: tool.ReadOnly},
				func(context.Context, textIn) (tool.Result[textOut], error) {
					return tool.Done(textOut{strings.Repeat("job ", jobs)}), nil
				})
			return agent.Config{
				Name: "ops", Tools: []tool.Tool{start, look, waiting("deploy", tool.Idempotent)},
				Model: fakellm.New(fakellm.Calls("start", `{"text":"a"}`),
					fakellm.Calls("deploy", `{"text":"job"}`),
					fakellm.Calls("look", `{"text":"a"}`), fakellm.Says("Done.")),
			}
		}}
	}}
	finds(t, cut(t, fermatatest.Memory(), s), `"output":{"text":""}}]}; in the uncut history: {`)
}

func TestFindsAStoreThatForgets(t *testing.T) {
	s := named(t, "approval, then a pause, once")[0]
	finds(t,
		cut(t, fermatatest.Engine{Name: "forgetful", New: func() (fermatatest.Place, error) {
			return &forgetful{}, nil
		}}, s), "is gone")
}

// forgetful is a place that loses its records of receipts in each crash.
type forgetful struct{ last *kvstore.Memory }

func (f *forgetful) Open() (kvstore.Store, error) {
	if f.last == nil {
		f.last = kvstore.NewMemory()
		return f.last, nil
	}
	f.last = f.last.Reopen()
	ctx := context.Background()
	page, err := f.last.Scan(ctx, kvstore.Range{Prefix: kvstore.Key("r")})
	for _, e := range page.Entries {
		if _, err := f.last.Apply(ctx, kvstore.Batch{Deletes: [][]byte{e.Key}}); err != nil {
			return nil, err
		}
	}
	return f.last, err
}

func (f *forgetful) Remove() error { return nil }

func TestFindsAScenarioThatCantBe(t *testing.T) {
	s := named(t, "one tool, once")[0]
	s.Inputs = append(s.Inputs, fermatatest.Answer("deploy", runner.Complete("", "ci", text("v2"))))
	r := cut(t, fermatatest.Memory(), s)
	finds(t, r, "the uncut history: answer for deploy comes when there is no such call")
	if r.Histories > 0 {
		t.Errorf("%d histories were cut all the same", r.Histories)
	}
}

// With Every, each pass cuts other writes, and all passes together cut each
// write in each way once.
func TestEveryAndFirst(t *testing.T) {
	s := fermatatest.Scenario{Name: "passes", Inputs: []fermatatest.Input{hello},
		World: world(agent.Config{
			Tools: []tool.Tool{instant("pay", tool.Once)}, Model: paid,
		})}
	all := cut(t, fermatatest.Memory(), s).Histories
	sum := 0
	const every = 3
	for first := range every {
		r, err := s.Cut(t.Context(), fermatatest.Memory(),
			&fermatatest.Options{Every: every, First: first})
		if err != nil {
			t.Fatal(err)
		}
		if r.Histories == 0 || r.Histories > all/2 {
			t.Errorf("pass %d has %d of %d histories", first, r.Histories, all)
		}
		sum += r.Histories
	}
	if sum != all {
		t.Errorf("the passes have %d histories, and not %d", sum, all)
	}
}
