package fleet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// audit holds the store against the answers to senders, and against the outside
// world.
type audit struct {
	*world

	calls   map[string]*call
	settled map[event.Status]int
	late    int // entries of bodies that a stopped process made after another drive had begun
	// effects that a process finished when another drive had begun
	overtaken int
	upgraded  int // sessions that went on in the newer form
	// what would be wrong, had the machine not been slow
	waived int
	failed int // requests that failed while something befell their process
	// calls whose histories were checked, and operations in these
	checked, operations int
	again               int // entries of idempotent bodies, after the first
	entries             int
	below               int // sessions below others
	held                int // entries of bodies that hold a permit
	fired               int // nominal times of the schedule
}

// call is all that is known of one in the end.
type call struct {
	runner.CallDetails
	chat    *chat
	session string
	turn    int  // of the session
	step    bool // it is a step of a workflow
	below   bool // it is of the agent that works for another one
	notes   []note
	results []llm.ToolResult // in the transcript
}

func (w *world) audit() *audit {
	t := w.t
	store := session.NewStore(w.kv, nil)
	a := &audit{world: w, calls: map[string]*call{}, settled: map[event.Status]int{}}
	for p, err := range store.Check(t.Context()) {
		must(t, err)
		w.violation("the store: %s", p)
	}
	for _, c := range w.sessions {
		if c.finished {
			a.transcripts(c)
			a.paid(c)
		}
	}
	a.firings()
	notes, err := w.ledger.all()
	must(t, err)
	a.notedTroubles(notes)
	a.overtakings(notes)
	a.versions(notes)
	fences := map[string]int64{} // the greatest so far, by session
	for _, n := range notes {
		switch n.What {
		case troubled, starved, raised, written, failed:
			continue
		}
		if n.What == entered && n.Fence < fences[n.Session] {
			a.fenced(n, fences[n.Session])
		}
		fences[n.Session] = max(fences[n.Session], n.Fence)
		if c := a.calls[n.Call]; c != nil {
			c.notes = append(c.notes, n)
		} else if s := w.sessions[n.User]; s != nil && s.finished || n.User == tickUser {
			w.violation("%s tells of a call that is in no transcript: %+v", n.What, n)
		}
	}
	for _, c := range a.calls {
		a.settled[c.Settled]++
		a.body(c)
		a.outcome(c)
	}
	recorded, err := readJournals(a.dir)
	must(t, err)
	a.permitHeld(notes)
	a.failures(notes, recorded)
	a.histories(recorded)
	for _, c := range w.sessions {
		for id, x := range c.answers {
			if c.finished {
				a.kept(id, x)
			}
		}
	}
	a.waivers()
	return a
}

// fenced judges a body that was entered when a later drive had begun to run
// other bodies, or to reconcile.
func (a *audit) fenced(n note, latest int64) {
	if !a.excused(n) {
		a.violation("the body of %s was entered by a drive that had lost the session, fence %d "+
			"after %d: %+v", n.Tool, n.Fence, latest, n)
	}
	a.late++
}

// transcripts judges the transcripts of a session and of what is below it.
func (a *audit) transcripts(c *chat) {
	n := 0
	for s, err := range a.rn.Sessions(a.t.Context(), session.Filter{Root: c.id}, "audit") {
		must(a.t, err)
		if len(s.Path) > 0 {
			n++
		}
		a.transcript(c, s)
	}
	a.below += n
	if n != below && !c.cancels {
		a.violation("session %s has %d sessions below it", c.id, n)
	}
}

// transcript judges the transcript of a session, and finds its calls.
func (a *audit) transcript(c *chat, of runner.Session) {
	t, id, want := a.t, of.ID, shapeOf(of)
	s, err := a.rn.Show(t.Context(), id, "audit")
	must(t, err)
	if err := fakellm.Check(llm.Request{Messages: s.History}); err != nil && !want.step {
		a.violation("a provider would refuse the transcript of session %s: %v", c.id, err)
	}
	said, asked := 0, 0
	for turn, m := range s.History {
		if m.Role == llm.RoleUser {
			said++
		}
		for _, tc := range m.ToolCalls() {
			st, err := a.rn.Call(t.Context(), id, tc.ID, "audit")
			must(t, err)
			asked++
			a.calls[tc.ID] = &call{CallDetails: st, chat: c, session: id, turn: turn,
				below: id != c.id, step: want.step}
		}
		for _, p := range m.Parts {
			if r, ok := p.(llm.ToolResult); ok && a.calls[r.Call] != nil {
				a.calls[r.Call].results = append(a.calls[r.Call].results, r)
			}
		}
	}
	whole := asked == want.calls || want.calls < 0 || c.cancels
	if said != want.messages || !whole || s.Finish == event.FinishCancelled && !c.cancels {
		a.violation("session %s ended as %q, with %d messages of its user and %d calls",
			id, s.Finish, said, asked)
	}
}

// body judges how often a call's body was entered, and when.
func (a *audit) body(c *call) {
	k, known := kinds[c.Tool]
	byKey := map[string][]note{}
	for _, n := range c.notes {
		switch n.What {
		case entered:
			byKey[n.Key] = append(byKey[n.Key], n)
			a.entries++
			if n.Left > a.slack() && !a.deaf(n) {
				a.violation("the body of %s was entered %v after the caller had left: %+v",
					c.Tool, n.Left, n)
			}
			// What another process has committed is heard with the lease's
			// renewal at the latest.
			if at := c.chat.cancelled; !c.below && at != 0 && n.At > at.add(a.Lease+a.slack()) &&
				!a.excused(n) && !a.deaf(n) {
				a.violation("the body of %s was entered %v after its session was cancelled: %+v",
					c.Tool, n.At.sub(at), n)
			}
		case reconciled:
			a.word(c, n)
		}
	}
	for _, entries := range byKey {
		extra := len(entries) - 1
		switch {
		case extra == 0:
		case k.effect.NeedsClaim():
			a.violation("the body of %s, of effect once, was entered %d times with one key: %+v",
				c.Tool, len(entries), entries)
		case a.Calm && !a.lostIn(entries[0], entries[extra].At):
			a.violation("the body of %s was entered %d times, and nothing befell the fleet: %+v",
				c.Tool, len(entries), entries)
		default:
			a.again += extra
		}
	}
	if c.Settled == event.Done && len(byKey) == 0 && known &&
		!(k.reconcile && string(c.Output) == `{"n":0}`) {
		a.violation("call %s of %s is done, and its body was never entered", c.Call, c.Tool)
	}
}

// word judges a Reconcile: a body that it has not found was not entered, and
// isn't afterwards.
func (a *audit) word(c *call, said note) {
	found := 0
	for _, e := range c.notes {
		if e.What == entered && e.Key == said.Key && !(e.At > said.At && a.excused(e)) {
			found++
		}
	}
	if found != said.Found {
		a.violation("Reconcile told of %d entries of %s, and there are %d: %+v",
			said.Found, c.Tool, found, c.notes)
	}
	if a.Calm && !slices.ContainsFunc(c.notes, func(e note) bool { return a.lostIn(e, said.At) }) {
		a.violation("a call of %s was reconciled, and nothing befell the fleet: %+v",
			c.Tool, c.notes)
	}
}

// outcome judges how a call ended: once, as it may end, and no other end was
// ever shown.
func (a *audit) outcome(c *call) {
	k := kinds[c.Tool]
	_, answered := c.chat.answers[c.Call]
	switch {
	case c.Status != session.CallSettled:
		a.violation("call %s of %s is %s, and its session over", c.Call, c.Tool, c.Status)
		return
	case c.chat.cancels:
	case c.Tool == nestedTool && (c.Settled != event.Done || string(c.Output) != doneByAgent):
		a.violation("call %s, which an agent has worked on, is %s %s", c.Call, c.Settled, c.Output)
	case c.Tool == workflowTool && (c.Settled != event.Done || string(c.Output) != doneByWorkflow):
		a.violation("call %s, which a workflow has worked on, is %s %s", c.Call, c.Settled, c.Output)
	case c.Tool == waitTool:
		a.waitedFor(c)
	case a.notBegun(c):
		a.unknown(c)
	case k.wait == byEvents && (c.Settled != event.Done ||
		content(c.Output) != fmt.Sprint("n", events)):
		a.violation("call %s, which %d events were sent, is %s %s", c.Call, events, c.Settled, c.Output)
	case c.Settled == event.Unknown && (!k.effect.NeedsClaim() || k.reconcile):
		a.violation("call %s of %s is of unknown outcome: %+v", c.Call, c.Tool, c.notes)
	case c.Settled == event.Unknown:
		a.unknown(c)
	case (k.wait == byToken || k.wait == byKey) && !answered:
		a.violation("call %s of %s is %s %s, and no answer to it was acknowledged; refused was %q",
			c.Call, c.Tool, c.Settled, c.Output,
			c.chat.refused[c.Call])
	case k.wait == noWait && c.Settled != event.Done, k.wait == byTime && c.Settled != event.Done:
		a.violation("call %s of %s is %s %s", c.Call, c.Tool, c.Settled, c.Output)
	}
	if want := map[bool]int{false: 1}[c.step]; len(c.results) != want {
		a.violation("call %s of %s has %d results", c.Call, c.Tool, len(c.results))
		return
	}
	result := ""
	if !c.step {
		result = outputOf(c.results[0])
	}
	for _, n := range c.notes {
		if n.What == shown && c.chat.cancels && n.Status == event.Done &&
			c.Settled == event.Cancelled {
			continue // the result of an answered call is shown before the commit that stores it
		}
		if n.What == shown && (n.Status != c.Settled || n.Output != result && !c.step) {
			a.violation("call %s of %s was shown as %s %s, and is %s %s",
				c.Call, c.Tool, n.Status, n.Output, c.Settled, result)
		}
	}
}

// kept holds a call against the answer that was acknowledged to its sender. Id
// is that of the call, or of one of its pauses.
func (a *audit) kept(id string, x answer) {
	id, _, _ = strings.Cut(id, ".")
	c := a.calls[id]
	if c == nil {
		a.violation("call %s, whose answer was acknowledged, is gone", id)
		return
	}
	if !slices.ContainsFunc(c.Receipts, func(r session.Receipt) bool { return r.At.Equal(x.at) }) {
		a.violation("call %s has no receipt for %+v, which was acknowledged; its receipts are %+v",
			id, x, c.Receipts)
	}
	ends := map[string]event.Status{"": event.Done, "/fail": event.Failed,
		"/cancel": event.Cancelled}
	switch want, settles := ends[x.operation]; {
	case c.chat.cancels:
	case !settles: // an approval
		if !slices.ContainsFunc(c.Decisions, func(d tool.Decision) bool { return d.Approved }) {
			a.violation("call %s was approved, and is %s %s", id, c.Settled, c.Output)
		}
	case c.Settled == want && (want != event.Done || string(c.Output) == x.body):
	case want == event.Cancelled && c.Settled == event.Unknown:
	default:
		a.violation("call %s is %s %s; acknowledged was %+v; its receipts are %+v",
			id, c.Settled, c.Output, x, c.Receipts)
	}
}
