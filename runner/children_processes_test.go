package runner_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// shift is who works on what: each model of a nested agent tells that it has
// begun, and goes on once it is let.
type shift struct {
	t     *testing.T
	begun chan string
	gates sync.Map // by "process what": chan struct{}
}

func newShift(t *testing.T) *shift { return &shift{t: t, begun: make(chan string, 16)} }

func (s *shift) gate(of string) chan struct{} {
	g, _ := s.gates.LoadOrStore(of, make(chan struct{}))
	return g.(chan struct{})
}

// let has one go on.
func (s *shift) let(of string) { close(s.gate(of)) }

// begins waits until one has begun.
func (s *shift) begins(want string) {
	s.t.Helper()
	select {
	case got := <-s.begun:
		if got != want {
			s.t.Fatalf("%q has begun, and not %q", got, want)
		}
	case <-time.After(20 * time.Second):
		s.t.Fatalf("%q doesn't begin", want)
	}
}

// in is the config of a process. Its agent has a nested one, which does what the
// user says.
func (s *shift) in(process string) agent.Config {
	helper := nestedTool(s.t, "helper", fakellm.New(fakellm.From(func(q llm.Request) fakellm.Turn {
		of := process + " " + fakellm.LastUserText(q)
		return fakellm.Says("Done by " + of + ".").Hook(func(ctx context.Context, n int) error {
			if n > 0 {
				return nil
			}
			s.begun <- of
			select {
			case <-s.gate(of):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	})))
	return agent.Config{Name: "ops", Tools: []tool.Tool{helper}, Model: fakellm.New(
		fakellm.From(func(q llm.Request) fakellm.Turn {
			return fakellm.Calls("helper", `{"what":"`+fakellm.LastUserText(q)+`"}`)
		}), fakellm.Says("I see."))}
}

// A child is driven by another process, which closes, or dies, in the middle.
// The caller of its parent's Run, whose process had no place for the child, or
// was refused it, drives it then, and the Run ends.
func TestTheProcessOfAChildEndsInTheMiddle(t *testing.T) {
	for name, c := range map[string]struct{ dies, tried bool }{
		"closes": {}, "closes, was tried": {tried: true},
		"dies": {dies: true}, "dies, was tried": {dies: true, tried: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShift(t)
			lease := time.Hour // far longer than the test: the child's must be given up
			if c.dies {
				lease = 600 * time.Millisecond
			}
			var reads atomic.Int32 // of heads of children
			h := &hooked{got: func(key []byte) {
				if isHead(key) && strings.Contains(string(key), session.ChildPrefix) {
					reads.Add(1)
				}
			}}
			r := newRig(t, s.in("here"), &rigOptions{memory: true, wrap: h.shared,
				session: &session.Options{Lease: lease}, runner: &runner.Options{
					Children: 1, Logger: slog.New(slog.DiscardHandler)}})
			other := make(chan *seen, 1)
			go func() {
				other <- watch(t, r.Run(t.Context(), user, "chat-2", llm.UserText("first"), nil))
			}()
			s.begins("here first") // and has the one place
			ended := r.begin("second")
			waitFor(t, func() bool {
				st, err := r.store.Load(t.Context(), chat)
				return err == nil && st.Open() == 1
			})

			r.config = s.in("there")
			line := faultkv.New(r.kv)
			r.kv = line.Store
			there := r.another()
			worked := make(chan struct{})
			go func() {
				defer close(worked)
				_ = there.Work(t.Context(), &runner.WorkOptions{Poll: 5 * time.Millisecond})
			}()
			s.begins("there second")
			if c.tried {
				s.let("here first")
				<-other                // the worker may have been faster, and carry its root on
				before := reads.Load() // of one to drive it, and of those that look whether it is driven
				waitFor(t, func() bool { return reads.Load() > before+3 })
			}
			if c.dies {
				line.Kill()
			}
			_ = there.Close()
			<-worked
			if !c.tried {
				s.let("here first")
				(<-other).finished(event.FinishStop)
			}
			s.begins("here second")
			s.let("here second")
			ended().finished(event.FinishStop)
			if got := r.outputs(); len(got) != 1 || got[0] != `"Done by here second."` {
				t.Errorf("outputs are %q", got)
			}
			must(t, r.Close())
			r.sound()
		})
	}
}
