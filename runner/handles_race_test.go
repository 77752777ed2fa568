package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// Handles end at the instant at which they are registered with an await, at
// which its time is over, and at which it is interrupted. What it reports is
// what has happened by then; each end counts once, and the model reads it once.
func TestHandlesEndsAgainstAwaits(t *testing.T) {
	var all awaitTally
	for name, wrap := range engineKinds {
		t.Run(name, func(t *testing.T) {
			ws := newAwaitWorld(t, wrap)
			for n := range testlength.Rounds.Rounds(0.5) {
				ws.play(n, &all)
				if t.Failed() {
					return
				}
			}
			must(t, ws.runners[1].Close())
			must(t, ws.r.Close())
			ws.r.sound()
		})
	}
	t.Logf("counted: %d rounds of ends against awaits, %d violations", all.rounds,
		map[bool]int{true: 1}[t.Failed()])
	t.Logf("counted: %d awaits that ended with their handles, 0 violations", all.met)
	t.Logf("counted: %d awaits whose time was over, 0 violations", all.timedOut)
	t.Logf("counted: %d awaits that were interrupted, 0 violations", all.interrupted)
	t.Logf("counted: %d awaits that were cancelled before they waited, 0 violations", all.cancelled)
	if all.rounds > 100 && (all.met == 0 || all.timedOut == 0 || all.interrupted == 0) {
		t.Errorf("one kind of end never came: %+v", all)
	}
}

type awaitTally struct{ rounds, met, timedOut, interrupted, cancelled int }

// awaitWorld is what the rounds share.
type awaitWorld struct {
	t       *testing.T
	r       *rig
	cl      *clock
	runners []*runner.Runner
	rounds  sync.Map // *awaitRound, by session
	bodies  sync.Map // chan struct{}, by target; closed, the body is done
}

// newAwaitWorld returns the rounds' runners. The model begins three handles, one
// of which is a body that runs, and awaits them as its user says.
func newAwaitWorld(t *testing.T, wrap func(kvstore.Store) kvstore.Store) *awaitWorld {
	ws := &awaitWorld{t: t, cl: newClock()}
	keep := tool.HandlePolicy{AtEnd: tool.KeepAtEnd}
	job := underPolicy(t, "job", tool.Idempotent, keep,
		func(context.Context, target) (tool.Result[string], error) {
			return tool.Pending[string](tool.Await{}), nil
		})
	run := underPolicy(t, "run", tool.Idempotent, keep,
		func(ctx context.Context, in target) (tool.Result[string], error) {
			over, _ := ws.bodies.Load(in.Target)
			select {
			case <-over.(chan struct{}):
				return tool.Done("ran"), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
	model := modelFunc(func(r llm.Request) []llm.Event {
		said := 0
		for _, m := range r.Messages {
			if m.Role == llm.RoleAssistant {
				said++
			}
		}
		var parts []llm.Part
		call := func(name, args string) {
			parts = append(parts, llm.ToolCall{Name: name, Arguments: json.RawMessage(args)})
		}
		first := r.Messages[0].Text()
		var asked struct{ Round string }
		must(t, json.Unmarshal([]byte(first), &asked))
		switch said {
		case 0:
			call("job", `{"action":"spawn","id":"a","target":"x"}`)
			call("job", `{"action":"spawn","id":"b","target":"x"}`)
			call("run", fmt.Sprintf(`{"action":"spawn","id":"c","target":%q}`, asked.Round))
		case 1:
			var args map[string]json.RawMessage
			must(t, json.Unmarshal([]byte(first), &args))
			delete(args, "round")
			raw, err := json.Marshal(args)
			must(t, err)
			call("await", string(raw))
		default:
			parts = says("I see.")
		}
		var events []llm.Event
		for _, p := range parts {
			events = append(events, llm.PartDone{Part: p})
		}
		return append(events, llm.Finish{Reason: llm.StopEnd})
	})
	sees := interceptor.Layer{Name: "sees", Actions: true,
		Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
			return func(ctx context.Context, c tool.Call) (tool.Execution, error) {
				rd, there := ws.rounds.Load(c.Session)
				if c.Tool != "await" || !there {
					return next(ctx, c)
				}
				return rd.(*awaitRound).enter(ctx, c, next)
			}
		}}
	ws.r = newRig(t, agent.Config{Tools: []tool.Tool{job, run}, Model: model,
		Interceptors: interceptor.Chain{sees}},
		&rigOptions{memory: true, wrap: wrap, session: &session.Options{
			Now: ws.cl.now, Lease: 1000 * time.Hour}}) // which no jump of the clock ends
	ws.runners = []*runner.Runner{ws.r.Runner, ws.r.another()}
	return ws
}

// The shapes of awaits.
var awaitShapes = []tool.HandleWait{
	{All: []string{"a", "b", "c"}},
	{Any: []string{"a", "b", "c"}},
	{All: []string{"a", "c"}, Any: []string{"b"}},
	{All: []string{"b"}, Any: []string{"a", "c"}},
	{All: []string{"c"}, Any: []string{"a", "b"}},
}

// awaitRound is one session.
type awaitRound struct {
	*awaitWorld
	id   string
	wait tool.HandleWait
	by   *runner.Runner // by which all is done that comes from outside
	over chan struct{}  // closed, the body of c is done
	ran  sync.Once      // closes it

	first    chan struct{} // closed when the await is entered first
	answered chan struct{} // closed when it has told
	once     sync.Once     // closes first
	moments  atomic.Int64  // so far; a later one has a greater number
	stops    atomic.Int64  // when the await was about to be stopped; zero: never
	follows  sync.WaitGroup
	program  telling // what a program's Await returned

	mu    sync.Mutex // guards the rest, while the round lasts
	tells []telling
	begun map[string]int64 // when the first deed that may end a handle was begun
	known map[string]int64 // when its end was known
}

// telling is what an await has told: an entry of its tool, from its beginning to
// its end.
type telling struct {
	from, to int64
	output   string
	stopped  map[string]string // how they stopped, by name
}

// enter is an entry of the await.
func (rd *awaitRound) enter(
	ctx context.Context, c tool.Call, next interceptor.ToolHandler,
) (tool.Execution, error) {
	rd.once.Do(func() { close(rd.first) })
	from := rd.moments.Add(1)
	out, err := next(ctx, c)
	if err != nil || out.Await != nil {
		return out, err
	}
	rd.mu.Lock()
	defer rd.mu.Unlock()
	rd.tells = append(rd.tells, telling{from: from, to: rd.moments.Add(1),
		output: string(out.Output)})
	if len(rd.tells) == 1 {
		close(rd.answered)
	}
	return out, nil
}

// play plays one round: the handles that it has chosen end, and something stops
// the await, or nothing does. Then the others end.
func (ws *awaitWorld) play(n int, all *awaitTally) {
	t, ctx := ws.t, context.Background()
	rd := &awaitRound{awaitWorld: ws, id: fmt.Sprint("chat-", n),
		wait: awaitShapes[n%len(awaitShapes)], by: ws.runners[n/4%2], over: make(chan struct{}),
		first: make(chan struct{}), answered: make(chan struct{}),
		begun: map[string]int64{}, known: map[string]int64{}}
	ws.rounds.Store(rd.id, rd)
	ws.bodies.Store(rd.id, rd.over)
	args := map[string]any{"round": rd.id, "timeout_secs": 3600}
	if rd.wait.All != nil {
		args["all"] = rd.wait.All
	}
	if rd.wait.Any != nil {
		args["any"] = rd.wait.Any
	}
	asked, err := json.Marshal(args)
	must(t, err)
	begun := make(chan *seen, 1)
	go func() {
		begun <- watch(t, ws.runners[0].Run(ctx, user, rd.id, llm.UserText(string(asked)), nil))
	}()
	<-rd.first
	if n%3 > 0 { // otherwise the ends come while it registers
		rd.registered()
	}

	ends, stop := rand.IntN(8), rd.stopped(n%4)
	start := make(chan struct{})
	var acts []func()
	for i, name := range []string{"a", "b", "c"} {
		if ends&(1<<i) != 0 {
			for range 1 + rand.IntN(2) {
				acts = append(acts, func() { rd.end(name) })
			}
			acts = append(acts, func() { rd.knows(name) })
		}
	}
	acts = append(acts, stop)
	var racing, program sync.WaitGroup
	if rd.by == ws.runners[0] { // others are not signalled, and look once a second
		program.Go(func() { rd.fromProgram(ctx) })
	}
	for _, i := range rand.Perm(len(acts)) {
		racing.Go(func() {
			<-start
			for range rand.IntN(50) {
				runtime.Gosched()
			}
			acts[i]()
		})
	}
	close(start)
	racing.Wait()
	rd.between(n % 4)
	for _, name := range []string{"a", "b", "c"} {
		if rd.knownAt(name) == 0 {
			rd.end(name)
			rd.knows(name)
		}
	}
	program.Wait()
	<-begun
	rd.follows.Wait()
	rd.quiet()
	for range ws.runners[1].Run(ctx, user, rd.id, llm.UserText("And?"), nil) {
	}
	rd.quiet()
	rd.check(all)
	ws.rounds.Delete(rd.id)
	ws.bodies.Delete(rd.id)
}
