package histories

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fermatatest/sharedkv"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/hold"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// world is one session, two runners, and what clients do to it and are told.
type world struct {
	t       *testing.T
	seed    uint64
	once    bool // the effect of the tools
	lossy   bool // drives may die while a body runs
	faults  *faultkv.Injector
	store   *session.Store // the first runner's
	runners []*runner.Runner
	begun   time.Time
	hour    atomic.Int64 // the clock

	mu      sync.Mutex
	at      int64 // counts calls and returns of operations
	all     []porcupine.Operation
	ids     map[string]int    // by kind
	tools   map[string]string // by call
	entries map[string]int    // of bodies, by call
	given   []operation       // answers that were accepted

	asked   sync.Once
	started chan struct{} // the model has asked for calls
}

// stepsOf are the tools that the model may ask for, and the pauses of
// each.
var stepsOf = map[string][]step{
	"job":    {{kind: output, hours: 1}},
	"ask":    {{kind: reenter}, {kind: output, hours: 2}},
	"act":    {{kind: gate, hours: 2}, {kind: output, hours: 1}},
	"nap":    {{kind: timer, hours: 1}, {kind: output, hours: 2}},
	"quiz":   {{kind: message, hours: 2}},
	"pay":    {{kind: gate, hours: 1}, {kind: message, hours: 2}},
	"poll":   {{kind: output, hours: 1, told: true}, {kind: output, hours: 2}},
	"riddle": {{kind: message, hours: 1, told: true}, {kind: message, hours: 2}},
	"fax":    {{kind: reenter}, {kind: output, hours: 2}},
	"first":  {{kind: mail, names: "xy", count: 1, hours: 1}, {kind: done}},
	"both":   {{kind: reenter}, {kind: mail, names: "xy", hours: 2}, {kind: done}},
	"three": {{kind: mail, names: "x", count: 1, hours: 2},
		{kind: mail, names: "xy", count: 2, hours: 1, told: true}, {kind: done}},
	"sign": {{kind: gate, hours: 2}, {kind: mail, names: "xy", hours: 1, told: true},
		{kind: done}},
	"pair": {{kind: mail, names: "xy", count: 2, hours: 1, told: true}, {kind: done}},
	"race": {{kind: output, hours: 1, told: true},
		{kind: mail, names: "y", count: 1, hours: 1, told: true}, {kind: done}},
}

// asksOperator is the tool of which an operator is asked if a call is lost.
const asksOperator = "fax"

// casts are the tools that the model asks for in each turn of a history. What
// waits in the second one waits for a person.
var casts = [][3]string{{"job", "ask", "act"}, {"quiz", "pay", "quiz"}, {"nap", "quiz", "act"},
	{"poll", "riddle", "job"}, {"fax", "job", "fax"}, {"first", "both", "three"},
	{"sign", "race", "pair"}}

// textual reports whether the output of a tool is a string.
func textual(tool string) bool { return tool == "quiz" || tool == "pay" || tool == "riddle" }

const (
	user       = "ada"
	chat       = "chat-1"
	clients    = 4
	perClient  = 10
	mostHours  = 3 // that pass while clients are there
	anyCall    = "call_1"
	theJobsKey = "the job's key, of " // and its call
)

// engine is what the histories of one kind are kept in.
type engine struct{ shared, remote, faults bool }

func (e engine) String() string {
	name := map[bool]string{false: "exclusive", true: "shared"}[e.shared]
	return name + map[bool]string{true: ", over TCP"}[e.remote] +
		map[bool]string{true: ", faults"}[e.faults]
}

// open makes an engine that is empty. A remote one is late now and then.
func (e engine) open(t *testing.T) kvstore.Store {
	t.Helper()
	if !e.remote {
		return kvstore.NewMemory()
	}
	server, err := sharedkv.Listen(kvstore.NewMemory())
	must(t, err)
	client := sharedkv.Open(server.Addr(), nil)
	t.Cleanup(func() {
		must(t, client.Close())
		must(t, server.Close())
	})
	server.SetFaults("", sharedkv.Faults{Delay: 200 * time.Microsecond, Late: .1,
		LateBy: time.Millisecond})
	return client
}

func newWorld(t *testing.T, seed uint64, e engine, config func(*world) agent.Config) *world {
	shared, faults := e.shared, e.faults
	w := &world{
		t: t, seed: seed, once: seed%3 > 0, lossy: shared || faults,
		ids: map[string]int{}, tools: map[string]string{}, entries: map[string]int{},
		begun: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), started: make(chan struct{}),
	}
	w.faults = faultkv.New(e.open(t))
	chaos := faultkv.Chaos{Seed: seed, Overtaken: .2, Delay: 100 * time.Microsecond}
	if faults {
		chaos.Fail, chaos.Lose, chaos.Defer, chaos.Conflict = .03, .05, .05, .1
	}
	w.faults.SetChaos(chaos)
	kv := w.faults.Store
	if shared { // it hides that the engine belongs to one process
		kv = struct{ kvstore.Store }{kv}
	}
	for range 2 {
		ag, err := agent.New(config(w))
		must(t, err)
		face := public.NewStore(kv, &session.Options{Now: w.now, NewID: w.newID})
		w.store = hold.Of(face)
		rn, err := runner.New(ag, face, &runner.Options{Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		w.runners = append(w.runners, rn)
	}
	return w
}

// words are what the tools take and, but for those that are textual, return.
type words struct {
	Text string `json:"text"`
}

func (w *world) agent() agent.Config {
	effect := tool.Idempotent
	if w.once {
		effect = tool.Once
	}
	var tools []tool.Tool
	for name := range stepsOf {
		spec := tool.Spec{Name: name, Description: "d", Effect: effect, MayPause: true,
			AskOperator: name == asksOperator, Mailbox: eventsOf(name)}
		if textual(name) {
			tools = append(tools,
				tool.Must(tool.Func(spec,
					func(ctx context.Context, _ words) (tool.Result[string], error) {
						_, a := w.enter(ctx)
						return tool.Pending[string](a), nil
					})))
			continue
		}
		tools = append(tools,
			tool.Must(tool.Func(spec,
				func(ctx context.Context, _ words) (tool.Result[words], error) {
					st, a := w.enter(ctx)
					if st.kind == done {
						return tool.Done(words{shownTo(tool.CallFrom(ctx))}), nil
					}
					return tool.Pending[words](a), nil
				})))
	}
	return agent.Config{
		Name: "ops", Tools: tools, ToolLimits: tool.Limits{Mail: mostMail},
		Interceptors: interceptor.Chain{
			interceptor.Approval(&interceptor.ApprovalOptions{Name: "pay",
				Tools: []string{"pay"}, Timeout: time.Hour}),
			interceptor.Approval(&interceptor.ApprovalOptions{
				Tools: []string{"act", "sign"}, Timeout: 2 * time.Hour,
			}),
		},
		Model: model{cast: casts[w.seed/2%uint64(len(casts))]},
	}
}

// model asks for a cast of tools after each message of the user's, and
// otherwise is done.
type model struct{ cast [3]string }

func (m model) Generate(_ context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	parts := []llm.Part{llm.Text{Text: "Done."}}
	if r.Messages[len(r.Messages)-1].Role == llm.RoleUser {
		parts = nil
		for _, name := range m.cast {
			parts = append(parts, llm.ToolCall{
				Name: name, Arguments: json.RawMessage(`{"text":"a"}`),
			})
		}
	}
	return func(yield func(llm.Event, error) bool) {
		for _, p := range parts {
			if !yield(llm.PartDone{Part: p}, nil) {
				return
			}
		}
		yield(llm.Finish{Reason: llm.StopEnd}, nil)
	}
}

// enter is the body of each tool: it returns what comes next, and what the call
// waits for there.
func (w *world) enter(ctx context.Context) (step, tool.Await) {
	c := tool.CallFrom(ctx)
	w.entered(c)
	w.mu.Lock()
	w.entries[c.ID]++
	w.mu.Unlock()
	for range rand.IntN(300) { // answers may be faster
		runtime.Gosched()
	}
	n := len(c.Decisions)
	if c.Answer != nil {
		must(w.t, json.Unmarshal(c.Answer.Data, &n))
	}
	st := stepsOf[c.Tool][n]
	a := tool.Await{Reason: tool.ReasonExternal, Mode: tool.ModeOutput,
		Timeout: time.Duration(st.hours) * time.Hour}
	switch st.kind {
	case reenter:
		a.Mode = tool.ModeReenter
	case output:
		a.Key = theJobsKey + c.ID
	case timer:
		a.Reason, a.Mode = tool.ReasonTimer, tool.ModeReenter
	case message:
		a.Reason, a.Mode = tool.ReasonInput, tool.ModeMessage
	case mail:
		a.Mode, a.Mail = tool.ModeReenter, st.waits().Mail
	}
	a.Data, _ = json.Marshal(n + 1)
	if st.told {
		a.OnTimeout = tool.ReenterOnTimeout
	}
	return st, a
}

func (w *world) now() time.Time { return w.begun.Add(time.Duration(w.hour.Load()) * time.Hour) }

// hourOf is a deadline, on the clock; 0 for none.
func (w *world) hourOf(deadline time.Time) int {
	if deadline.IsZero() {
		return 0
	}
	return int(deadline.Sub(w.begun) / time.Hour)
}

func (w *world) newID(kind string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids[kind]++
	if w.ids["call"] == 1 && w.seed%4 == 0 { // or else when they are committed
		w.start()
	}
	return fmt.Sprintf("%s_%d", kind, w.ids[kind])
}

// calls are the ids of all calls that the model may have asked for.
func (w *world) calls() (ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n := range w.ids["call"] {
		ids = append(ids, fmt.Sprint("call_", n+1))
	}
	return ids
}

// everyCall is what operations on the session name, which are operations on
// each of its calls, also on those that are yet to come.
const everyCall = ""

// of are the operations on one call. A message that may not have been taken
// matters only where it would have been an answer, or a denial.
func (w *world) of(call string) (mine []porcupine.Operation) {
	steps := stepsOf[w.tools[call]]
	for _, o := range w.all {
		in, out := o.Input.(operation), o.Output.(outcome)
		matters := !out.uncertain || in.name != "say" && in.name != "supersede" ||
			slices.ContainsFunc(steps, func(s step) bool {
				return s.kind == message || s.kind == gate && in.name == "supersede"
			})
		if in.call == everyCall {
			in.call = call
			o.Input = in
		}
		if in.call == call && matters {
			mine = append(mine, o)
		}
	}
	return mine
}

func (w *world) start() { w.asked.Do(func() { close(w.started) }) }

// run has the clients do what they do, once there is something to do it to, and
// then brings the session to rest.
func (w *world) run() {
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			c := &client{world: w, number: n, r: rand.New(rand.NewPCG(w.seed, uint64(n)))}
			if n == 0 {
				_ = c.drive(w.t.Context(), 0, "run")
				w.start()
			}
			<-w.started
			for i := range perClient {
				c.act(fmt.Sprintf("%c%d", 'a'+n, i))
			}
		})
	}
	all.Wait()
	w.faults.Heal()
	last := &client{world: w, number: clients, r: rand.New(rand.NewPCG(w.seed, clients))}
	last.settle()
	for _, rn := range w.runners {
		must(w.t, rn.Close())
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
