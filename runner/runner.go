// Package runner drives sessions: it calls models, runs tools, and commits
// after each step, so that a call may pause for a second or a month and the
// process may die at any moment. [Runner.Run] takes a user's message;
// [Runner.Resume], [Runner.Deliver], [Runner.Progress] and [Runner.Cancel] bring
// a paused call back, from a webhook handler or an inbox; [Runner.Work] carries
// on what was accepted, what is overdue and what a crash left behind.
//
// All of them are one loop over session.Next: see loop.go.
package runner

// Where things are:
//
//   - what callers do: runner.go, run.go, resume.go, resumein.go, answered.go,
//     bykey.go, runagain.go, deliver.go, send.go, typed.go, progress.go,
//     find.go, cancel.go, sessions.go, status.go, ended.go, shown.go,
//     tellend.go, token.go, work.go; who may: authorize.go
//   - a drive and its parts: drive.go; the loop: loop.go, wait.go, moved.go;
//     inside turn layers: turn.go; how a user's message comes in: say.go,
//     sayanswer.go, supersede.go, onemessage.go; out of the queue: queued.go
//   - the steps of the loop: model.go, retry.go, reply.go, ahead.go (the
//     model); calls.go, firstclaim.go, stop.go, park.go (the calls); closing.go
//     (the turn); what the loop has read for them: reading.go, told.go; for the
//     drives after it: histories.go
//   - an attempt at a call: attempt.go; its way into the body: door.go,
//     enter.go; how its outcome is committed: conclude.go, pausing.go; while
//     the store fails: unstored.go; what it came to: product.go; limits that
//     bodies share: limits.go; what a body reaches: host.go; those under way:
//     crew.go; of a call that was lost: recover.go
//   - what the parts share: subject.go; how they commit: commit.go; which
//     context ends when: life.go
//   - what is shown: listener.go, display.go, screen.go; progress: live.go,
//     reports.go
//   - a session that others drive: follow.go, followcursor.go; what its
//     followers share: followlook.go, followview.go, followpoll.go; bodies that
//     begin: followbegun.go; what calls made: followmade.go; what a model says:
//     livespeech.go; other processes: fanout.go
//   - sessions below a session: family.go, stir.go, lacks.go, ear.go,
//     children.go; what is looked at again later: timers.go; what sessions owe
//     each other: courier.go; what tools call off outside: undo.go, undos.go
//   - handles, which are calls beside their session: handles.go, bound.go,
//     handlehost.go, seenhandles.go, handleinput.go, handlefail.go; those whose
//     process has died: handlecarry.go; what their bodies produce: produced.go,
//     before.go, reported.go; what the model is told: notices.go; what it is
//     asked beside the conversation: beside.go, assist.go; at the end of a
//     turn: linger.go; what a program does to them: spawn.go, await.go; wait
//     handles: waithost.go, waitreport.go, waittimeout.go, waits.go; those of
//     wider scopes: wide.go, widehost.go, widewaits.go, waittoken.go,
//     archive.go
//   - the end of a drive: leave.go, drain.go, ending.go, drives.go
//   - a worker: worker.go, dueline.go, turns.go, watching.go, left.go; where it
//     begins to read its index: front.go, wholelook.go; what it leaves to other
//     workers: share.go; its places: places.go, seat.go; errors that come back at
//     each look: recurring.go
//   - how answers and tokens are judged: judge.go, ring.go

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/internal/hold"
	core "github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/wide"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// Options configure a Runner. The zero value means the defaults.
type Options struct {
	// Agents are further agents whose sessions this runner drives, each under
	// its name.
	Agents []*agent.Agent
	// Authorizer is asked before every operation, and for each answer that a
	// user's message makes; its error, or its panic, refuses it, unless it can't
	// tell just now: see ErrUndecided. Nil allows all.
	Authorizer func(context.Context, Operation) error
	// Children is how many sessions below others (those of nested agents) this
	// runner drives at once, beside the ones that callers and workers drive, and
	// not counting those that only wait for tools that run; default 16. It holds
	// 16 times as many at once, with those.
	Children int
	// Handles is how many calls that run beside their sessions this runner
	// drives at once; default 256.
	Handles int
	// SharedLimits are the limits that tools share, by their names: how many
	// bodies of tools whose Scheduling.Limit is the name run at once, in all
	// sessions that this runner drives.
	SharedLimits map[string]int
	// CancelGrace is how long a cancelled body may take to end before its call
	// settles without it; default 10 s.
	CancelGrace time.Duration
	// CloseTimeout is how long Close waits for bodies to end; default 10 s.
	CloseTimeout time.Duration
	// ParkedTimeout is how long a call waits for its tool, if the agent lost
	// the tool after the call was asked for. Then the call fails. Zero: for
	// ever.
	ParkedTimeout time.Duration
	// FanOut, if set, carries what models say to the followers of other
	// processes as it streams, and tells them of commits. Where one process has
	// the engine, it isn't used.
	FanOut FanOut
	// Queue is how many messages of its user may wait in a session; default 32.
	Queue int
	// HistoryCache bounds, in bytes, what the runner keeps in memory of histories
	// that it has read: the next drive of a session then doesn't read them again.
	// Default 64 MiB; negative: none.
	HistoryCache int
	// MaxAnswer bounds what Resume takes, in bytes; default 1 MiB.
	MaxAnswer int
	// TokenLifetime is how long a callback token is good, from when its call
	// was asked for; default a year.
	TokenLifetime time.Duration
	// TokenKeys, if set, are the keys that callback tokens are signed with, the
	// one that signs last; the others verify. Each has a secret of 32 random
	// bytes or more, and an id that stands for it for ever. Without them the
	// runner makes keys, and keeps them in the store: then a copy of the
	// store's file is enough to make tokens. A new key goes to every process
	// before it is put last in any. A key that is taken away is retired.
	// Store.TokenKeys returns those that a store has, to begin with.
	TokenKeys []session.TokenKey
	// Waits is how long wait handles of wider scopes are kept.
	Waits WaitRetention
	// Logger gets what no caller is told: stacks of panics, results that came
	// too late. Default slog.Default.
	Logger *slog.Logger
}

// Runner drives the sessions of one Store. It may be used from many goroutines,
// and several may share a store. After New only what guards itself changes.
type Runner struct {
	store    *core.Store
	first    *agent.Agent            // for new sessions that name none; may be nil
	agents   map[string]*agent.Agent // by name
	options  Options
	ring     *ring
	live     live
	looks    looks
	reports  reports
	produced produced
	limits   limits

	histories histories

	left func(wait func()) // drives.leftBehind, bound once

	drives   drives
	children *children
	courier  courier
	wide     *wide.Store // wait handles of wider scopes
	teller   teller
	archiver archiver
	undoer   *undoer
	nesting  map[string]map[string]bool        // by agent, the tools whose calls are waits from the start
	acting   map[string]map[string]tool.Acting // by agent, the tools whose calls may act on handles
	awaiting map[string]map[string]awaits      // by agent, the tools whose calls wait for handles
	unhook   func()                            // from the store
	closing  context.Context                   // ends when Close begins
	close    context.CancelFunc
}

// New returns a runner for an agent's sessions. A nil agent makes a runner that
// only takes answers.
func New(a *agent.Agent, store *session.Store, o *Options) (*Runner, error) {
	if store == nil {
		return nil, errors.New("runner: the store is nil")
	}
	if o == nil {
		o = &Options{}
	}
	rn := &Runner{store: hold.Of(store), first: a, options: *o, agents: map[string]*agent.Agent{}}
	rn.drives.leases = map[*drive]*core.Lease{}
	rn.left = rn.drives.leftBehind
	rn.options.defaults()
	all := o.Agents
	if a != nil {
		all = append([]*agent.Agent{a}, all...)
	}
	rn.histories.most = max(rn.options.HistoryCache, 0)
	rn.options.Agents = nil // they are the caller's
	var err error
	if rn.limits, err = newLimits(rn.options.SharedLimits); err != nil {
		return nil, err
	}
	for _, a := range all {
		if a == nil {
			return nil, errors.New("runner: Options.Agents has a nil agent")
		}
		if err := rn.add(a, ""); err != nil {
			return nil, err
		}
	}
	if err := rn.checkHandoffs(); err != nil {
		return nil, err
	}
	rn.produced = produced{rn: rn, by: map[callName]*output{}}
	rn.reports = reports{write: rn.storeProgress, now: rn.store.Now}
	if rn.ring, err = newRing(rn.store, rn.options.TokenKeys); err != nil {
		return nil, err
	}
	rn.children = newChildren(rn, rn.options.Children, rn.options.Handles)
	rn.undoer = newUndoer(rn)
	rn.courier = courier{rn: rn, underway: map[string]*carriage{}}
	rn.wide = wide.New(rn.store, &wide.Options{Ended: rn.options.Waits.Ended,
		Changes: rn.options.Waits.Changes, Archive: archiveWait(rn.options.Waits.Archive)})
	rn.teller = teller{rn: rn, underway: map[wide.ID]bool{}}
	rn.archiver = newArchiver(rn)
	rn.store.OnRelease(rn.release)
	rn.live.feeds = map[string]*feed{}
	rn.closing, rn.close = context.WithCancel(context.Background())
	unhook, unnudge := rn.store.OnErrands(rn.children.owes), rn.nudge()
	untell := rn.wide.OnTell(rn.teller.send)
	rn.unhook = func() { unhook(); unnudge(); untell() }
	return rn, nil
}

// nests is a tool whose calls make children that another agent works in.
type nests interface{ Nests() *agent.Agent }

// nestsAny is nests, of several agents.
type nestsAny interface{ Nested() []*agent.Agent }

// nestedIn returns the agents that work for a tool's calls.
func nestedIn(t tool.Tool) []*agent.Agent {
	if one, ok := tool.As[nests](t); ok {
		return []*agent.Agent{one.Nests()}
	}
	if any, ok := tool.As[nestsAny](t); ok {
		return any.Nested()
	}
	return nil
}

// add takes an agent in, and those that work for it. Behind says of which agent
// it is a tool; empty: of none.
func (rn *Runner) add(a *agent.Agent, behind string) error {
	switch other := rn.agents[a.Name()]; {
	case other == a:
		return nil
	case other != nil:
		return fmt.Errorf("runner: two agents are named %q%s", a.Name(), behind)
	}
	rn.agents[a.Name()] = a
	if err := rn.limits.check(a); err != nil {
		return err
	}
	tools := hold.Of(a).Tools
	for _, name := range tools.Names() {
		if on, ok := tool.As[tool.Acting](tools.Tool(name)); ok {
			set(&rn.acting, a.Name(), name, on)
		}
		if w, ok := tool.As[awaits](tools.Tool(name)); ok {
			set(&rn.awaiting, a.Name(), name, w)
			set(&rn.nesting, a.Name(), name, true)
		}
		for _, nested := range nestedIn(tools.Tool(name)) {
			set(&rn.nesting, a.Name(), name, true)
			err := rn.add(nested,
				fmt.Sprintf("; one is behind the tool %q of agent %q", name, a.Name()))
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// set sets a value in a map of maps.
func set[V any](m *map[string]map[string]V, agent, tool string, v V) {
	if *m == nil {
		*m = map[string]map[string]V{}
	}
	if (*m)[agent] == nil {
		(*m)[agent] = map[string]V{}
	}
	(*m)[agent][tool] = v
}

// handsTo is a tool whose calls hand a session over to the agent of that name.
type handsTo interface{ HandsTo() string }

// checkHandoffs returns the error of a tool that hands sessions over to an
// agent that this runner doesn't have.
func (rn *Runner) checkHandoffs() error {
	for from, a := range rn.agents {
		tools := hold.Of(a).Tools
		for _, name := range tools.Names() {
			t, ok := tool.As[handsTo](tools.Tool(name))
			if ok && rn.agents[t.HandsTo()] == nil {
				return fmt.Errorf("runner: the tool %q of agent %q hands over to the agent %q, "+
					"and the runner has none of that name; add it to Options.Agents",
					name, from, t.HandsTo())
			}
		}
	}
	return nil
}

func (o *Options) defaults() {
	if o.Children <= 0 {
		o.Children = 16
	}
	if o.Handles <= 0 {
		o.Handles = 256
	}
	if o.CancelGrace <= 0 {
		o.CancelGrace = 10 * time.Second
	}
	if o.CloseTimeout <= 0 {
		o.CloseTimeout = 10 * time.Second
	}
	if o.Queue <= 0 {
		o.Queue = 32
	}
	if o.HistoryCache == 0 {
		o.HistoryCache = 64 << 20
	}
	if o.MaxAnswer <= 0 {
		o.MaxAnswer = 1 << 20
	}
	if o.TokenLifetime <= 0 {
		o.TokenLifetime = 365 * 24 * time.Hour
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

// ErrClosed refuses to drive a session by a runner that was closed. Methods
// that only read the store, or write an answer into it, work as long as the
// store is open.
var ErrClosed = errors.New("runner: closed")

// ErrUnknownAgent refuses to drive a session whose agent the runner doesn't
// have.
var ErrUnknownAgent = errors.New("runner: no such agent")

// Agents names the agents that the runner has, those behind tools included.
func (rn *Runner) Agents() []string { return slices.Sorted(maps.Keys(rn.agents)) }

// Logger returns where the runner logs what no caller is told, for tools that
// work with it (see [Of]).
func (rn *Runner) Logger() *slog.Logger { return rn.options.Logger }

// Now returns the time by the store's clock, which deadlines go by.
func (rn *Runner) Now() time.Time { return rn.store.Now() }

// agent returns the agent of that name.
func (rn *Runner) agent(name string) (*agent.Agent, error) {
	if a := rn.agents[name]; a != nil {
		return a, nil
	}
	if len(rn.agents) == 0 {
		return nil, fmt.Errorf("%w: this runner was made without any", ErrUnknownAgent)
	}
	return nil, fmt.Errorf("%w: %q", ErrUnknownAgent, name)
}

// Close ends the drives of this runner, and waits for them. The contexts of
// bodies end at once. A body that has not returned after CloseTimeout loses its
// drive's lease, and what it returns later is refused. Progress that is not
// stored yet is stored. Close does not close the store.
func (rn *Runner) Close() error {
	rn.drives.close()
	rn.unhook()
	rn.close()
	rn.undoer.timers.close()
	rn.children.later.close()
	ctx, cancel := context.WithTimeout(context.Background(), rn.options.CloseTimeout)
	defer cancel()
	late := rn.drives.wait(ctx)
	rn.reports.close(ctx)
	if late != nil {
		return rn.drives.giveUp()
	}
	return nil
}
