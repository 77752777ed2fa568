package lives

import (
	"path/filepath"
	"slices"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore/bolt"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// call is all that is known of one in the end.
type call struct {
	runner.CallDetails
	entries []effect         // of its body
	shown   []result         // by events
	results []llm.ToolResult // in the transcript
}

// inspect holds the file against the answers to senders, and against the
// outside world.
func (w *world) inspect() {
	t := w.t
	must(t, bolt.Check(filepath.Join(w.dir, "store.db")))
	db, err := bolt.Open(filepath.Join(w.dir, "store.db"), nil)
	must(t, err)
	defer db.Close()
	store := session.NewStore(db, nil)
	nowhere, err := newOutside(t.TempDir())
	must(t, err)
	rn, err := newRunner(store, nowhere)
	must(t, err)
	defer rn.Close()
	for p, err := range store.Check(t.Context()) {
		must(t, err)
		w.violation("the file: %s", p)
	}

	calls, sessions, below := map[string]*call{}, 0, 0
	for s, err := range rn.Sessions(t.Context(), session.Filter{Children: true}, "test") {
		must(t, err)
		if len(s.Path) > 0 {
			below++
			w.transcript(rn, s.ID, callsBelow, calls)
			continue
		}
		sessions++
		w.transcript(rn, s.ID, callsInAll, calls)
	}
	if sessions != w.begun || below != w.begun {
		w.violation("there are %d sessions, with %d below them, and %d were begun",
			sessions, below, w.begun)
	}
	w.gather(calls)
	settled := map[event.Status]int{}
	for _, c := range calls {
		settled[c.Settled]++
		w.body(c)
		w.outcome(c)
	}
	for id, a := range w.answers {
		w.kept(id, calls[id], a)
	}
	w.report(sessions, settled)
}

// transcript judges the transcript of a session, and finds its calls.
func (w *world) transcript(rn *runner.Runner, id string, want int, calls map[string]*call) {
	t := w.t
	shown, err := rn.Show(t.Context(), id, "test")
	must(t, err)
	if err := fakellm.Check(llm.Request{Messages: shown.History}); err != nil ||
		shown.Finish != event.FinishStop {
		w.violation("session %s ended as %q: %v", id, shown.Finish, err)
	}
	said, asked := 0, 0
	for _, m := range shown.History {
		if m.Role == llm.RoleUser {
			said++
		}
		for _, c := range m.ToolCalls() {
			status, err := rn.Call(t.Context(), id, c.ID, "test")
			must(t, err)
			asked++
			calls[c.ID] = &call{CallDetails: status}
		}
		for _, p := range m.Parts {
			if r, ok := p.(llm.ToolResult); ok && calls[r.Call] != nil {
				calls[r.Call].results = append(calls[r.Call].results, r)
			}
		}
	}
	if said != 1 || asked != want {
		w.violation("session %s has %d messages of its user and %d calls", id, said, asked)
	}
}

// gather adds what the outside world has of calls.
func (w *world) gather(calls map[string]*call) {
	keys := map[string]string{} // whose they are
	for _, e := range w.effects() {
		if calls[e.Call] == nil {
			w.violation("a body ran for call %s, which is in no transcript", e.Call)
			continue
		}
		calls[e.Call].entries = append(calls[e.Call].entries, e)
		if keys[e.Key] != "" && keys[e.Key] != e.Call {
			w.violation("calls %s and %s have one key", e.Call, keys[e.Key])
		}
		keys[e.Key] = e.Call
	}
	results, err := entries[result](w.dir, resultsFile, 0)
	must(w.t, err)
	for _, r := range results {
		if calls[r.Result.Call] == nil {
			w.violation("a result was shown of call %s, which is in no transcript", r.Result.Call)
			continue
		}
		calls[r.Result.Call].shown = append(calls[r.Result.Call].shown, r)
	}
}

// body judges how often a call's body was entered.
func (w *world) body(c *call) {
	for _, e := range c.entries {
		if first := c.entries[0]; e.Key != first.Key || e.Token != first.Token {
			w.violation("call %s of %s was entered with two keys, or two tokens", c.Call, c.Tool)
		}
		if e.Once && len(c.entries) > 1 {
			w.violation("call %s of %s was entered %d times", c.Call, c.Tool, len(c.entries))
		}
	}
	if c.Settled != event.Unknown && len(c.entries) == 0 && c.Tool != nestedTool {
		w.violation("call %s of %s is %s, and its body was never entered",
			c.Call, c.Tool, c.Settled)
	}
}

// outcome judges how a call ended: once, by an actor who may end it, and no
// event ever showed another end.
func (w *world) outcome(c *call) {
	answer, answered := w.answers[c.Call]
	waits := c.Tool == "ship" || c.Tool == "batch"
	switch {
	case c.Status != session.CallSettled:
		w.violation("call %s of %s is %s", c.Call, c.Tool, c.Status)
		return
	case c.Settled == event.Unknown && c.Tool != "pay" && c.Tool != "ship":
		w.violation("call %s of %s, which is idempotent, is unknown", c.Call, c.Tool)
	case c.Settled == event.Unknown:
	case waits && !answered:
		w.violation("call %s of %s is %s %s, and no sender was told that an answer is accepted; "+
			"refused was: %q", c.Call, c.Tool,
			c.Settled, c.Output, w.refused[c.Call])
	case waits && c.Settled != answer.operation.settles(): // which is judged by whether it was kept
	case !waits && (c.Settled != event.Done || string(c.Output) != outputOf(c.Tool)):
		w.violation("call %s of %s is %s %s", c.Call, c.Tool, c.Settled, c.Output)
	}
	if len(c.results) != 1 {
		w.violation("call %s of %s has %d results", c.Call, c.Tool, len(c.results))
		return
	}
	final := c.results[0]
	if final.Error == (c.Settled == event.Done) ||
		!final.Error && string(final.Output) != string(c.Output) {
		w.violation("call %s of %s is %s %s, and its result is %+v",
			c.Call, c.Tool, c.Settled, c.Output, final)
	}
	for _, r := range c.shown {
		if r.Status != c.Settled || r.Result.Error != final.Error ||
			string(r.Result.Output) != string(final.Output) {
			w.violation("call %s of %s was shown as %s %s, and is %s %s",
				c.Call, c.Tool, r.Status, r.Result.Output,
				c.Settled, final.Output)
		}
	}
}

// outputOf returns the output of a tool that no answer makes.
func outputOf(name string) string {
	switch name {
	case eventTool:
		return doneByEvents
	case nestedTool:
		return doneByAgent
	}
	return doneByBody
}

// kept holds a call against the answer that was acknowledged to its sender.
func (w *world) kept(id string, c *call, a answer) {
	if c == nil {
		w.violation("call %s of session %s, whose answer was acknowledged, is gone", id, a.session)
		return
	}
	has := slices.ContainsFunc(c.Receipts, func(r session.Receipt) bool {
		return r.Kind == a.operation.receipt() && r.At.Equal(a.at)
	})
	if !has {
		w.violation("call %s has no receipt for %s %s, which was acknowledged; its "+
			"receipts are %+v",
			id, a.operation, a.body, c.Receipts)
	}
	switch {
	case c.Settled == a.operation.settles() &&
		(a.operation != complete || string(c.Output) == a.body):
	case a.operation == cancel && c.Settled == event.Unknown:
		// Its body ran then, and a kill came before its end.
	default:
		w.violation("call %s is %s %s; acknowledged was %s %s; its receipts are %+v",
			id, c.Settled, c.Output, a.operation, a.body, c.Receipts)
	}
}

// report logs what was counted. Violations at the end can't be laid to one kind
// of kill, and are counted with each.
func (w *world) report(sessions int, settled map[event.Status]int) {
	lives := 0
	for _, n := range w.kills {
		lives += n
	}
	w.t.Logf("\n%6d  lives\n%6d  kills in a body\n%6d  kills in a commit\n%6d  kills while "+
		"idle\n%6d  sessions\n"+
		"%6d  answers acknowledged\n%6d  of them once more\n%6d  answers refused, as the outcome "+
		"was unknown\n"+
		"%6d  calls done\n%6d  failed\n%6d  cancelled\n%6d  of unknown outcome\n%6d  entries of "+
		"bodies\n%6d  violations",
		lives, w.kills[inBody], w.kills[inCommit], w.kills[idle], sessions, len(w.answers),
		w.repeats, len(w.refused),
		settled[event.Done], settled[event.Failed], settled[event.Cancelled],
		settled[event.Unknown], len(w.seen), w.violations)
	w.t.Logf("counted: %d events to calls, acknowledged and shown once, %d violations", w.events, w.violations)
	w.t.Logf("counted: %d sessions below others, %d violations", sessions, w.violations)
	for _, m := range moments {
		w.t.Logf("counted: %d lives ended by a kill %s, %d violations", w.kills[m], m, w.violations)
	}
}
