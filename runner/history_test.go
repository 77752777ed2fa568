package runner_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// What many do at once to calls that wait, through two runners on one store, is as if they had done it one after the other: each
// at a moment between asking and being told. Drives go on meanwhile, deadlines pass, and the store fails.
func TestHistoriesAreLinearizable(t *testing.T) {
	histories := 40
	if s := os.Getenv("FERMATA_HISTORIES"); s != "" {
		var err error
		histories, err = strconv.Atoi(s)
		must(t, err)
	}
	operations, wrong := 0, 0
	for name, o := range map[string]historyOptions{
		"exclusive": {}, "shared": {shared: true}, "exclusive, with faults": {faults: true}, "shared, with faults": {shared: true, faults: true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range (histories + 3) / 4 {
				o.seed = uint64(seed)
				h := newCallHistory(t, o)
				h.run()
				operations += len(h.operations)
				if !h.check() {
					wrong++
				}
			}
		})
	}
	t.Logf("%d operations", operations)
	t.Logf("counted: %d histories, %d violations", 4*((histories+3)/4), wrong)
}

type historyOptions struct {
	shared, faults bool
	seed           uint64
}

// callHistory records what is done to the calls of one turn, and what comes of it.
type callHistory struct {
	t       *testing.T
	o       historyOptions
	rig     *rig
	runners []*runner.Runner
	entered counter
	clock   *clock
	calls   []string
	chaos   *faultkv.Injector
	begun   time.Time

	mu         sync.Mutex
	passed     time.Duration // when the deadlines did; zero: they have not
	operations []porcupine.Operation
	failures   []string // of drives
}

// done is an operation on a call, or the passing of its deadline.
type done struct {
	call, what, content string
	// early says that it was begun before the deadline had passed: it may have looked at the clock then.
	early bool
}

const (
	complete = "complete"
	fail     = "fail"
	cancel   = "cancel"
	progress = "progress"
	read     = "read"
	pass     = "the deadline passes"
)

// What comes of an operation, beside how a call has ended.
const (
	accepted  = "accepted"
	duplicate = "duplicate"
	conflict  = "conflict"
	nobody    = "nobody knows" // perhaps now, perhaps later, perhaps never
)

func newCallHistory(t *testing.T, o historyOptions) *callHistory {
	h := &callHistory{t: t, o: o, clock: newClock(), begun: time.Now()}
	h.rig = newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("job", tool.Once, &h.entered)},
		Model: messages(calls("job", `{"text":"a"}`, "job", `{"text":"b"}`, "job", `{"text":"c"}`), says("Done."), says("Well.")),
	}, &rigOptions{memory: true, session: &session.Options{Now: h.clock.now}, wrap: func(kv kvstore.Store) kvstore.Store {
		if o.shared {
			kv = hidden(kv)
		}
		h.chaos = faultkv.New(kv)
		return h.chaos.Store
	}})
	h.runners = []*runner.Runner{h.rig.Runner, h.rig.another()}
	for _, p := range h.rig.say("Go.").finished(event.FinishPaused).end.Pending {
		h.calls = append(h.calls, p.Call)
	}
	return h
}

// run has clients do so many things at once, and then drives the session to its end.
func (h *callHistory) run() {
	const clients, each = 6, 8
	if h.o.faults {
		h.chaos.SetChaos(faultkv.Chaos{Seed: h.o.seed, Fail: .05, Lose: .05, Conflict: .05, Overtaken: .2, Delay: time.Millisecond})
	}
	ctx, leave := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for id := range clients {
		all.Go(func() {
			r := rand.New(rand.NewPCG(h.o.seed, uint64(id)))
			for i := range each {
				if id == 0 && i == each/2 && h.o.seed%2 == 0 {
					h.pass()
				}
				h.do(id, r)
			}
		})
	}
	var drives sync.WaitGroup
	for _, rn := range h.runners {
		drives.Go(func() {
			r := rand.New(rand.NewPCG(h.o.seed, 99))
			for ctx.Err() == nil {
				h.drive(ctx, rn, r)
			}
		})
	}
	all.Wait()
	leave()
	drives.Wait()
	h.chaos.Heal()
	h.clock.pass(time.Hour) // stored leases, and what still waits
	h.pass()
	h.finish()
	for i := range h.calls {
		h.read(99, h.calls[i], h.rig.Runner)
	}
	h.rig.acceptable()
	if got := h.entered.get("job"); got != len(h.calls) {
		h.t.Errorf("seed %d: %d bodies were entered", h.o.seed, got)
	}
}

// finish drives the session to its end.
func (h *callHistory) finish() {
	h.t.Helper()
	var ends []string
	for range 400 { // a drive that was left may hold it for a while
		for ev, err := range h.rig.Continue(context.Background(), chat) {
			e, ok := ev.(event.End)
			if ok && e.Finish == event.FinishStop {
				return
			}
			if ok || err != nil {
				ends = append(ends, fmt.Sprint(e.Finish, " ", err))
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	for _, f := range h.failures {
		h.t.Log(f)
	}
	for _, m := range h.rig.transcript().History {
		h.t.Logf("%s %v", m.Role, m.Parts)
	}
	h.t.Fatalf("seed %d: the session doesn't come to its end: %q", h.o.seed, ends[max(0, len(ends)-5):])
}

// drive carries the session on, or has the user say something, in the midst of it all. What comes of that is not judged.
func (h *callHistory) drive(ctx context.Context, rn *runner.Runner, r *rand.Rand) {
	events := rn.Continue(ctx, chat)
	if r.IntN(4) == 0 {
		events = rn.Run(ctx, user, chat, llm.UserText("Well?"), &runner.RunOptions{MessageID: "again"})
	}
	for ev, err := range events {
		if e, ok := ev.(event.End); err != nil && !errors.Is(err, session.ErrBusy) || ok && e.Finish == event.FinishFailed {
			h.mu.Lock()
			h.failures = append(h.failures, fmt.Sprint(ev, err))
			h.mu.Unlock()
		}
		if r.IntN(10) == 0 {
			return // it is left in the middle
		}
	}
}

// pass lets all deadlines pass, if they have not.
func (h *callHistory) pass() {
	h.mu.Lock()
	again := h.passed != 0
	h.mu.Unlock()
	if again {
		return
	}
	called := h.at()
	h.clock.pass(2 * time.Hour)
	h.mu.Lock()
	h.passed = h.at()
	h.mu.Unlock()
	for i, call := range h.calls {
		h.record(100+i, called, done{call: call, what: pass}, accepted)
	}
}

func (h *callHistory) at() time.Duration { return max(1, time.Since(h.begun)) }

// do does one thing.
func (h *callHistory) do(client int, r *rand.Rand) {
	call, rn := h.calls[r.IntN(len(h.calls))], h.runners[r.IntN(2)]
	in := done{call: call, what: []string{complete, complete, complete, fail, cancel, progress, read, read}[r.IntN(8)]}
	if in.what == complete {
		in.content = fmt.Sprint(r.IntN(2))
	}
	called := h.at()
	ctx := context.Background()
	switch in.what {
	case read:
		h.read(client, call, rn)
	case progress:
		h.record(client, called, in, h.outcome(false, rn.Progress(ctx, chat, call, tool.Progress{Message: "on its way"})))
	case cancel:
		rc, err := rn.Cancel(ctx, chat, call, "ada", "")
		h.record(client, called, in, h.outcome(rc.Duplicate, err))
	default:
		answer := runner.Fail(call, "no", "ci", false)
		if in.what == complete {
			answer = runner.Complete(call, text(in.content), "ci")
		}
		res, err := rn.Resume(ctx, chat, answer)
		h.record(client, called, in, h.outcome(err == nil && res.Receipts[0].Duplicate, err))
	}
}

// read looks at a call.
func (h *callHistory) read(client int, call string, rn *runner.Runner) {
	called := h.at()
	c, err := rn.Call(context.Background(), chat, call)
	if err != nil {
		h.t.Errorf("call %s: %v", call, err)
		return
	}
	out := string(c.Status)
	if c.Status == session.Settled {
		out = string(c.Settled) + content(c.Output)
	}
	h.record(client, called, done{call: call, what: read}, out)
}

// content is which answer a result is.
func content(output []byte) string {
	for _, v := range []string{"0", "1"} {
		if string(output) == string(text(v)) {
			return v
		}
	}
	return ""
}

// outcome puts into a word what came of an operation.
func (h *callHistory) outcome(again bool, err error) string {
	var settled *session.SettledError
	switch {
	case err == nil && again:
		return duplicate
	case err == nil:
		return accepted
	case errors.Is(err, session.ErrResumeConflict):
		return conflict
	case errors.As(err, &settled):
		return string(settled.Status)
	case h.o.faults && (errors.Is(err, kvstore.ErrUncertain) || errors.Is(err, faultkv.ErrFault)):
		return nobody
	}
	h.t.Errorf("it is refused in another way: %v", err)
	return nobody
}

func (h *callHistory) record(client int, called time.Duration, in done, out string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	in.early = h.passed == 0 || called < h.passed
	returned := int64(h.at())
	if out == nobody {
		returned = math.MaxInt64
	}
	h.operations = append(h.operations, porcupine.Operation{ClientId: client, Input: in, Output: out, Call: int64(called), Return: returned})
}

// check says whether, for each call, some order explains what all were told.
func (h *callHistory) check() bool {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{callState{status: "pending"}} },
		Step: func(s, in, out any) (next []any) {
			for _, n := range s.(callState).step(in.(done), out.(string)) {
				next = append(next, n)
			}
			return next
		},
	}
	for _, call := range h.calls {
		var of []porcupine.Operation
		for _, o := range h.operations {
			if o.Input.(done).call == call {
				of = append(of, o)
			}
		}
		switch porcupine.CheckOperationsTimeout(model.ToModel(), of, 20*time.Second) {
		case porcupine.Unknown:
			h.t.Error("it takes too long to check")
			return false
		case porcupine.Illegal:
			h.t.Errorf("seed %d: no order explains\n%s", h.o.seed, listed(of))
			return false
		}
	}
	return true
}

func listed(of []porcupine.Operation) string {
	var b strings.Builder
	for _, o := range of {
		in := o.Input.(done)
		fmt.Fprintf(&b, "%12d to %12d  client %3d  %-20s %-8s %v\n", o.Call, o.Return, o.ClientId, strings.TrimSpace(in.what+" "+in.content),
			map[bool]string{true: "early"}[in.early], o.Output)
	}
	return b.String()
}

// callState is a call as the contract has it, with its deadline, and the answer that was accepted for its one pause.
type callState struct {
	status string // pending, answered, or how it has ended
	answer string // its content; empty: none was accepted
	cancel bool   // a cancellation was accepted
	over   bool   // the deadline has passed
}

// step lists what may follow from an operation that came to out. A driver settles an answered call when it likes.
func (s callState) step(in done, out string) (next []callState) {
	if out == nobody {
		next = append(next, s)
		for _, out := range []string{accepted, string(event.Expired)} {
			next = append(next, s.step(in, out)...)
		}
		return next
	}
	for _, from := range s.meanwhile(in) {
		if to, ok := from.does(in, out); ok {
			next = append(next, to)
		}
	}
	return next
}

// meanwhile is what the call may have become by itself.
func (s callState) meanwhile(in done) []callState {
	all := []callState{s}
	switch {
	case s.status == "answered":
		driven := s
		driven.status = string(event.Done)
		all = append(all, driven)
	case s.status == "pending" && s.over:
		expired := s
		expired.status = string(event.Expired)
		if in.what == read || in.early {
			return append(all, expired) // who reads changes nothing
		}
		return []callState{expired}
	}
	return all
}

// does is what an operation that came to out makes of the call.
func (s callState) does(in done, out string) (callState, bool) {
	open := s.status == "pending" || s.status == "answered"
	switch in.what {
	case pass:
		s.over = true
		return s, true
	case read:
		want := s.status
		if want == string(event.Done) {
			want += s.answer
		}
		return s, out == want
	case progress:
		return s, open && out == accepted || !open && out == s.status
	case cancel:
		switch {
		case s.cancel:
			return s, out == duplicate
		case !open:
			return s, out == s.status
		}
		s.status, s.cancel = string(event.Cancelled), true
		return s, out == accepted
	}
	switch {
	case s.answer != "" && in.what+in.content == s.contentOf():
		return s, out == duplicate
	case s.answer != "":
		return s, out == conflict
	case s.status != "pending":
		return s, out == s.status
	case in.what == fail:
		s.status, s.answer = string(event.Failed), fail
	default:
		s.status, s.answer = "answered", in.content
	}
	return s, out == accepted
}

// contentOf is the accepted answer as an operation's name and content.
func (s callState) contentOf() string {
	if s.answer == fail {
		return fail
	}
	return complete + s.answer
}
