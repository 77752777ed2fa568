// Package bench holds the library's benchmarks. Each reports its own metrics;
// make bench prints them as one table.
package bench

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// plain is a model that does as little as a model can: it answers with one
// message after the other, by the place of the user's last message in the
// history. Between two of its own is one of results.
type plain []llm.Part

func (p plain) Generate(_ context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	i := len(r.Messages) - 1
	for r.Messages[i].Role != llm.RoleUser {
		i -= 2
	}
	return say(p[(len(r.Messages)-1-i)/2])
}

var finish llm.Event = llm.Finish{Reason: llm.StopEnd, Usage: llm.Usage{Input: 10, Output: 10}}

func say(p llm.Part) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if yield(llm.PartDone{Part: p}, nil) {
			yield(finish, nil)
		}
	}
}

// calling is a model that makes the same call so many times, once a turn, and
// then ends the run, in sessions of one message of the user's.
type calling struct {
	times int
	call  llm.Part
}

func (c calling) Generate(_ context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	if len(r.Messages)/2 < c.times {
		return say(c.call)
	}
	return say(llm.Text{Text: "Done."})
}

func newRunner(b testing.TB, store *session.Store, m llm.Model, tools ...tool.Tool) *runner.Runner {
	b.Helper()
	ag, err := agent.New(
		agent.Config{Name: "bench", Model: m, Tools: tools, Limits: agent.Limits{Turns: 1 << 30}})
	if err != nil {
		b.Fatal(err)
	}
	rn, err := runner.New(ag, store, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { rn.Close() })
	return rn
}

// drain ranges over a run and checks how it ends.
func drain(b testing.TB, events iter.Seq2[event.Event, error], want event.Finish) (last event.End) {
	for ev, err := range events {
		if err != nil {
			b.Fatal(err)
		}
		if end, ok := ev.(event.End); ok {
			last = end
		}
	}
	if last.Finish != want {
		b.Fatalf("the run ended as %q, not %q", last.Finish, want)
	}
	return last
}

func sessionID(i int) string { return fmt.Sprintf("s-%08d", i) }
