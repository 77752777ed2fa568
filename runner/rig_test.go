package runner_test

import (
	"context"
	"iter"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/hold"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/bolt"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// rig is what a test of the runner works with: an agent over an engine that can
// be reopened, as after a crash.
type rig struct {
	*runner.Runner
	t      *testing.T
	config agent.Config
	o      rigOptions
	path   string            // of the bbolt file
	faults *faultkv.Injector // around the engine, until the next restart
	kv     kvstore.Store     // what the runner works on: the engine in its wrappings
	engine kvstore.Store
	public *public.Store
	store  *session.Store // what lies behind public
}

type rigOptions struct {
	memory  bool                              // the in-memory engine in place of bbolt
	wrap    func(kvstore.Store) kvstore.Store // around each engine that is opened
	session *session.Options                  //
	runner  *runner.Options                   //
}

const (
	user = "ada"
	chat = "chat-1"
)

// newRig returns a rig for an agent. Without a name the agent is "ops".
func newRig(t *testing.T, c agent.Config, o *rigOptions) *rig {
	t.Helper()
	r := &rig{t: t, config: c, path: filepath.Join(t.TempDir(), "fermata.db")}
	if o != nil {
		r.o = *o
	}
	if r.config.Name == "" {
		r.config.Name = "ops"
	}
	if r.o.runner == nil {
		r.o.runner = &runner.Options{Logger: slog.New(slog.DiscardHandler)}
	}
	if r.o.memory {
		r.engine = kvstore.NewMemory()
	}
	r.open()
	t.Cleanup(func() { r.Close(); r.engine.Close() })
	return r
}

func (r *rig) open() {
	r.t.Helper()
	if !r.o.memory {
		db, err := bolt.Open(r.path, nil)
		must(r.t, err)
		r.engine = db
	}
	r.faults = faultkv.New(r.engine)
	r.kv = r.faults.Store
	if r.o.wrap != nil {
		r.kv = r.o.wrap(r.kv)
	}
	ag, err := agent.New(r.config)
	must(r.t, err)
	r.public = public.NewStore(r.kv, r.o.session)
	r.store = hold.Of(r.public)
	r.Runner, err = runner.New(ag, r.public, r.o.runner)
	must(r.t, err)
}

// restart drops all that is in memory and opens the store again, as another
// process would. What still runs loses the store.
func (r *rig) restart() {
	r.t.Helper()
	if m, ok := r.engine.(*kvstore.Memory); ok {
		r.engine = m.Reopen()
	} else {
		must(r.t, r.engine.Close())
	}
	go r.Runner.Close()
	r.open()
}

// another returns a second runner, over a store of its own, on the same engine.
func (r *rig) another() *runner.Runner {
	r.t.Helper()
	ag, err := agent.New(r.config)
	must(r.t, err)
	rn, err := runner.New(ag, public.NewStore(r.kv, r.o.session), r.o.runner)
	must(r.t, err)
	r.t.Cleanup(func() { rn.Close() })
	return rn
}

// say runs a user's message to its end.
func (r *rig) say(text string) *seen {
	r.t.Helper()
	return watch(r.t, r.Run(r.t.Context(), user, chat, llm.UserText(text), nil))
}

// begin runs a user's message while the test goes on; ended waits for what the
// run showed.
func (r *rig) begin(text string) (ended func() *seen) {
	r.t.Helper()
	c := make(chan *seen, 1)
	go func() { c <- watch(r.t, r.Run(r.t.Context(), user, chat, llm.UserText(text), nil)) }()
	return func() *seen { return <-c }
}

// carryOn drives the session, as a worker would.
func (r *rig) carryOn() *seen {
	r.t.Helper()
	return watch(r.t, r.Continue(r.t.Context(), chat, user))
}

// answer resumes with one answer and drives on.
func (r *rig) answer(in runner.Resumption) *seen {
	r.t.Helper()
	res, err := r.Resume(r.t.Context(), chat, in)
	must(r.t, err)
	return watch(r.t, res.Events(r.t.Context()))
}

// transcript is what is committed of the session.
func (r *rig) transcript() runner.Transcript {
	r.t.Helper()
	t, err := r.Show(r.t.Context(), chat, user)
	must(r.t, err)
	return t
}

// result is the one result that the transcript has for a call.
func (r *rig) result(call string) llm.ToolResult {
	r.t.Helper()
	var found []llm.ToolResult
	for _, m := range r.transcript().History {
		for _, p := range m.Parts {
			if res, ok := p.(llm.ToolResult); ok && res.Call == call {
				found = append(found, res)
			}
		}
	}
	if len(found) != 1 {
		r.t.Fatalf("call %s has %d results, not one: %v", call, len(found), found)
	}
	return found[0]
}

// acceptable fails the test if a strict provider would refuse the stored
// transcript.
func (r *rig) acceptable() {
	r.t.Helper()
	ag, err := agent.New(r.config)
	must(r.t, err)
	must(r.t, fakellm.Check(llm.Request{
		Messages: r.transcript().History, Tools: hold.Of(ag).Tools.Defs(),
	}))
}

// seen is what a run showed.
type seen struct {
	t      *testing.T
	events []event.Event
	end    event.End
	err    error
}

func watch(t *testing.T, events iter.Seq2[event.Event, error]) *seen {
	s := &seen{t: t}
	for ev, err := range events {
		if err != nil {
			s.err = err
			continue
		}
		s.events = append(s.events, ev)
		if end, ok := ev.(event.End); ok {
			s.end = end
		}
	}
	return s
}

// finished fails the test unless the run ended as told, without an error.
func (s *seen) finished(want event.Finish) *seen {
	s.t.Helper()
	if s.err != nil || s.end.Finish != want {
		s.t.Fatalf("the run ended as %q with error %v, not as %q; it showed %v", s.end.Finish,
			s.err, want, s.events)
	}
	return s
}

// pause is the open pause of a tool, by the run's last event.
func (s *seen) pause(toolName string) tool.Pause {
	s.t.Helper()
	for _, p := range s.end.Pending {
		if p.Tool == toolName {
			return p
		}
	}
	s.t.Fatalf("no call of %s waits; %v do", toolName, s.end.Pending)
	return tool.Pause{}
}

// of lists the events of one type.
func of[E event.Event](s *seen) (found []E) {
	for _, ev := range s.events {
		if e, ok := ev.(E); ok {
			found = append(found, e)
		}
	}
	return found
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// texts lists the texts of a session's messages.
func (r *rig) texts() (texts []string) {
	for _, m := range r.transcript().History {
		texts = append(texts, m.Text())
	}
	return texts
}

// outputs are the results of the open or last turn, in the order in which the
// model reads them.
func (r *rig) outputs() (texts []string) {
	r.t.Helper()
	for _, m := range r.transcript().History {
		for _, p := range m.Parts {
			if res, ok := p.(llm.ToolResult); ok {
				texts = append(texts, string(res.Output))
			}
		}
	}
	return texts
}

// onlyCall is the id of the session's one call.
func (r *rig) onlyCall() string {
	r.t.Helper()
	for _, m := range r.transcript().History {
		if calls := m.ToolCalls(); len(calls) == 1 {
			return calls[0].ID
		}
	}
	r.t.Fatal("the model has not called a tool")
	return ""
}

// sound checks the store.
func (r *rig) sound() {
	r.t.Helper()
	for p, err := range r.store.Check(r.t.Context()) {
		must(r.t, err)
		r.t.Error(p)
	}
}

// work has a worker carry on what is due until so many sessions have come to
// their end.
func (r *rig) work(o runner.WorkOptions, sessions int) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var ended atomic.Int32
	var seen sync.Map // a worker may look at a session that is over by then
	o.OnEvent = func(id string, ev event.Event, err error) {
		if e, ok := ev.(event.End); ok && e.Finish == event.FinishStop &&
			!strings.HasPrefix(id, "bad") {
			if _, again := seen.LoadOrStore(id, true); !again && int(ended.Add(1)) == sessions {
				cancel()
			}
		}
	}
	_ = r.Work(ctx, &o)
}

// workFor has a worker of each runner go on for a while.
func workFor(t *testing.T, d time.Duration, runners ...*runner.Runner) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	for _, rn := range runners {
		go func() { _ = rn.Work(ctx, nil); ended <- struct{}{} }()
	}
	time.Sleep(d)
	cancel()
	for range runners {
		<-ended
	}
}

// works has a worker carry on what is due until an event is the last to be
// seen. It polls seldom, as days may pass meanwhile.
func (r *rig) works(last func(event.Event) bool) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_ = r.Work(ctx, &runner.WorkOptions{Poll: 10 * time.Minute,
		OnEvent: func(_ string, ev event.Event, _ error) {
			if last(ev) {
				cancel()
			}
		}})
}
