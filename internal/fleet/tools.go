package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/histories"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

type in struct{}

type out struct {
	N     int    `json:"n"`               // how often the body was entered, as far as it or Reconcile knows
	Shown string `json:"shown,omitempty"` // the events that the body was shown
}

// waitKind is what a tool waits for.
type waitKind string

const (
	noWait    waitKind = ""
	byToken   waitKind = "token"
	byKey     waitKind = "key"
	byTime    waitKind = "time"
	byMessage waitKind = "message"
	byEvents  waitKind = "events"
)

// kind is a tool of the fleet.
type kind struct {
	effect    tool.Effect
	wait      waitKind
	gated     bool // needs an approval
	permit    bool // each call holds the one permit
	reconcile bool
}

var kinds = map[string]kind{
	"pay":    {effect: tool.Once},
	"wire":   {effect: tool.Once, reconcile: true},
	"look":   {effect: tool.ReadOnly},
	"put":    {effect: tool.Idempotent},
	"ship":   {effect: tool.Once, wait: byToken},
	"batch":  {effect: tool.Idempotent, wait: byKey},
	"refund": {effect: tool.Once, gated: true},
	"nap":    {effect: tool.Once, wait: byTime},
	"ask":    {effect: tool.Idempotent, wait: byMessage},
	"gather": {effect: tool.Idempotent, wait: byEvents},
	"drill":  {effect: tool.Once, permit: true},
	tickTool: {effect: tool.Once, permit: true}, // by a schedule
}

// anyTime reports whether the calls of a tool wait for what comes at any time:
// by whichever clock, or when others have given a permit back.
func (k kind) anyTime() bool { return k.wait == byTime || k.permit }

const (
	longTool = "pay"
	events   = 3 // that come for a call of gather
	// waitsFor is how long calls wait for answers: longer than any test goes
	// on, and longer than clocks are apart.
	waitsFor = 10 * time.Minute
)

// outside is the world beside the store, as one process sees it.
type outside struct {
	ledger  ledger
	journal *journal
	log     *os.File
	process string
	life    int
	lease   time.Duration
	isLater bool
	ahead   time.Duration // of the engine's clock

	troubles troubles
	mu       sync.Mutex         // guards left
	left     map[string]instant // by session: when the caller of its run left
}

// keyOf returns the outside system's own name for the job of a call.
func keyOf(call string) string { return "job of " + call }

func (o *outside) tool(name string, k kind) tool.Tool {
	spec := tool.Spec{Name: name, Effect: k.effect, MayPause: k.wait != noWait}
	if k.wait == byEvents {
		spec.Mailbox = []tool.MailboxEvent{{Name: histories.EventName}}
	}
	if k.reconcile {
		spec.Reconcile = o.reconcile
	}
	return tool.Must(tool.Func(spec, func(ctx context.Context, _ in) (tool.Result[out], error) {
		call := tool.CallFrom(ctx)
		o.enter(ctx, call, k) // the first line: here is the effect
		o.linger(name)
		o.write(o.note(finished, call))
		switch {
		case k.wait == byToken:
			return tool.Pending[out](tool.Await{Timeout: waitsFor}), nil
		case k.wait == byKey:
			return tool.Pending[out](tool.Await{Key: keyOf(call.ID), Timeout: waitsFor}), nil
		case k.wait == byEvents && call.Answer == nil:
			return tool.Pending[out](tool.CountOf(events, histories.EventName)), nil
		case k.wait == byEvents:
			return tool.Done(out{len(call.Mail), shownTo(call.Mail)}), nil
		case k.wait == byTime && call.Answer == nil:
			return tool.Pending[out](
				tool.Await{Reason: tool.ReasonTimer, Timeout: o.lease / 4}), nil
		case k.wait == byMessage:
			return tool.Pending[out](tool.Await{
				Reason: tool.ReasonInput, Mode: tool.ModeMessage, Prompt: "How many?",
				Schema: json.RawMessage(`{"type":"string"}`),
			}), nil
		}
		return tool.Done(out{N: 1}), nil
	}))
}

// linger takes the time that bodies take: mostly little, and sometimes more
// than a lease. That of longTool, and those that hold a permit, always take
// some.
func (o *outside) linger(name string) {
	d := rand.N(30 * time.Millisecond)
	switch {
	case name == longTool:
		d += o.lease / 2
	case kinds[name].permit: // so that others come to wait for it
		d += o.lease / 8
	}
	if rand.IntN(12) == 0 {
		d += rand.N(o.lease * 3 / 2)
	}
	time.Sleep(d)
}

// longest is how long a body takes at most.
func longest(lease time.Duration) time.Duration { return 2*lease + 30*time.Millisecond }

func (o *outside) enter(ctx context.Context, call tool.Call, k kind) {
	n := o.note(entered, call)
	if k.wait == byToken {
		n.Token = call.Token(tool.PermitComplete, tool.PermitFail, tool.PermitProgress,
			tool.PermitCancel)
	}
	if k.wait == byEvents && call.Answer == nil {
		n.Token = call.MailToken()
	}
	o.mu.Lock()
	if at, left := o.left[call.Session]; left && ctx.Err() != nil {
		n.Left = n.At.sub(at)
	}
	o.mu.Unlock()
	op := operation{Session: call.Session, Call: call.ID}
	op.Name, op.Came = "entry", "shown "+shownTo(call.Mail)
	o.journal.saw(0, op)
	o.write(n)
}

func (o *outside) note(w what, call tool.Call) note {
	return note{
		What: w, Process: o.process, Life: o.life, Later: o.isLater, At: now(), Session: call.Session,
		User: call.User, Call: call.ID, Tool: call.Tool,
		Key: call.IdempotencyKey(), Attempt: call.Attempt, Fence: call.Fence,
	}
}

// reconcile asks the ledger how often the body was entered.
func (o *outside) reconcile(_ context.Context, call tool.Call) (tool.Execution, error) {
	all, err := (&reader{dir: os.Getenv(directoryVariable)}).all()
	if err != nil {
		return tool.Execution{}, err
	}
	n := o.note(reconciled, call)
	for _, e := range all {
		if e.What == entered && e.Key == n.Key {
			n.Found++
		}
	}
	o.write(n)
	b, err := json.Marshal(out{N: n.Found})
	return tool.Execution{Output: b}, err
}

// show keeps the results that events tell of.
func (o *outside) show(session string, ev event.Event) {
	if below, ok := ev.(event.Nested); ok {
		session, ev = below.Session, below.Event
	}
	o.sees(session, ev)
	if ev, ok := ev.(event.Result); ok {
		o.write(note{
			What: shown, Process: o.process, Life: o.life, At: now(), Session: session,
			Call: ev.Result.Call, Status: ev.Status,
			Output: outputOf(ev.Result),
		})
	}
}

// outputOf returns a result's output as text.
func outputOf(r llm.ToolResult) string { return fmt.Sprintf("%v %.200s", r.Error, r.Output) }

func (o *outside) write(n note) {
	if err := o.ledger.write(n); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
}
