// Package lives kills a program for real, hundreds of times, and looks at the file that it leaves.
package lives

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore/bolt"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// childDirectory is the environment variable that makes this program the child, and says where its file is.
const childDirectory = "FERMATA_CHILD_DIRECTORY"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDirectory); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const (
	usual   = 75 // lives, where FERMATA_LIVES doesn't say
	atLeast = 20 // of them end in a body, in a commit, and while nothing happens
)

// A program that is killed with SIGKILL again and again, in bodies, in commits and between, while messages and webhooks keep
// coming, loses nothing that it acknowledged and does nothing twice.
func TestLivesEndedByKills(t *testing.T) {
	lives := usual
	if s := os.Getenv("FERMATA_LIVES"); s != "" {
		var err error
		lives, err = strconv.Atoi(s)
		must(t, err)
	}
	if testing.Short() {
		lives = 9
	}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t)
	t.Logf("seed %d", seed)

	stop := make(chan struct{})
	var users sync.WaitGroup
	for i := range 4 { // at once
		users.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				w.change(func() { w.sessions++ })
				w.user(fmt.Sprintf("chat-%d-%d", i, n), rand.New(rand.NewPCG(seed, uint64(1+i+4*n))))
			}
		})
	}
	for n := 0; n < lives || lives >= usual && n < 2*lives && w.kills[w.rarest()] < atLeast; n++ {
		w.kill(w.start(), r, w.rarest())
	}
	close(stop)
	last := w.start() // lives until all have what they want
	go func() {
		for range last.lines { // it must not wait for us
		}
	}()
	users.Wait()
	must(t, last.stdin.Close())
	must(t, last.cmd.Wait())

	w.inspect()
}

// inspect holds the file against what senders were told and what happened out there.
func (w *world) inspect() {
	t := w.t
	db, err := bolt.Open(filepath.Join(w.dir, "store.db"), nil)
	must(t, err)
	defer db.Close()
	store := session.NewStore(db, nil)
	rn, err := newRunner(store, t.TempDir())
	must(t, err)
	defer rn.Close()
	for p, err := range store.Check(t.Context()) {
		must(t, err)
		t.Errorf("the file: %s", p)
	}

	entries := map[string][]effect{} // by call
	for _, e := range w.effects("") {
		entries[e.Call] = append(entries[e.Call], e)
	}
	settled := map[event.Status]int{}
	calls, sessions := map[string]runner.CallStatus{}, 0
	for s, err := range rn.Sessions(t.Context(), session.Filter{}) {
		must(t, err)
		sessions++
		shown, err := rn.Show(t.Context(), s.ID)
		must(t, err)
		if err := fakellm.Check(llm.Request{Messages: shown.History}); err != nil || shown.Finish != event.FinishStop {
			t.Errorf("session %s ended as %q: %v", s.ID, shown.Finish, err)
		}
		for _, m := range shown.History {
			for _, c := range m.ToolCalls() {
				status, err := rn.Call(t.Context(), s.ID, c.ID)
				must(t, err)
				calls[c.ID] = status
				settled[status.Settled]++
				w.judge(status, entries[c.ID])
			}
		}
	}
	if sessions != w.sessions {
		t.Errorf("there are %d sessions, and %d were begun", sessions, w.sessions)
	}
	for call, a := range w.answers {
		w.kept(calls[call], call, a)
	}
	for call, why := range w.refused {
		if s := calls[call]; s.Settled != event.Unknown { // nothing else ends a call but its one answer
			t.Errorf("call %s ended as %q, and its answer was refused: %s", call, s.Settled, why)
		}
	}
	for call := range entries {
		if _, known := calls[call]; !known {
			t.Errorf("a body ran for call %s, which is in no transcript", call)
		}
	}
	w.report(sessions, settled)
}

// judge holds a call against the entries of its body.
func (w *world) judge(c runner.CallStatus, entries []effect) {
	t := w.t
	for _, e := range entries {
		if e.Key != entries[0].Key {
			t.Errorf("call %s of %s was entered with two keys", c.Call, c.Tool)
		}
		if e.Effect == tool.Once && len(entries) > 1 {
			t.Errorf("call %s of %s was entered %d times", c.Call, c.Tool, len(entries))
		}
	}
	switch {
	case c.Status != session.Settled:
		t.Errorf("call %s of %s is %s", c.Call, c.Tool, c.Status)
	case c.Settled == event.Done && len(entries) == 0:
		t.Errorf("call %s of %s is done, and its body was never entered", c.Call, c.Tool)
	case c.Settled == event.Unknown && (c.Tool == "look" || c.Tool == "batch"):
		t.Errorf("call %s of %s, which is idempotent, is unknown", c.Call, c.Tool)
	}
}

// kept holds a call against the answer that was acknowledged to its sender.
func (w *world) kept(c runner.CallStatus, call string, a answer) {
	t := w.t
	has := slices.ContainsFunc(c.Receipts, func(r session.Receipt) bool {
		return map[string]session.Kind{"": session.KindComplete, "/fail": session.KindFail, "/cancel": session.KindCancel}[a.operation] == r.Kind
	})
	if !has {
		t.Errorf("call %s of session %s has no receipt for %s %s, which was acknowledged", call, a.session, a.operation, a.body)
	}
	switch want := map[string]event.Status{"": event.Done, "/fail": event.Failed, "/cancel": event.Cancelled}[a.operation]; {
	case c.Settled == want && (a.operation != "" || string(c.Output) == a.body):
	case a.operation == "/cancel" && c.Settled == event.Unknown: // its body ran then, and a kill came before its end
	default:
		t.Errorf("call %s of session %s is %s %s; acknowledged was %s %s; its receipts are %+v", call, a.session, c.Settled, c.Output, a.operation,
			a.body, c.Receipts)
	}
}

// report says what there was.
func (w *world) report(sessions int, settled map[event.Status]int) {
	kills, lives := w.killed(), 0
	for _, n := range kills {
		lives += n
	}
	w.t.Logf("\n%6d  sessions\n%6d  answers acknowledged\n"+
		"%6d  of them once more\n%6d  answers refused for good\n%6d  calls done\n%6d  failed\n%6d  cancelled\n%6d  of unknown outcome",
		sessions, len(w.answers), w.repeats, len(w.refused),
		settled[event.Done], settled[event.Failed], settled[event.Cancelled], settled[event.Unknown])
	if least := min(kills[inBody], kills[inCommit], kills[idle]); lives >= usual && least < atLeast {
		w.t.Errorf("there are only %d kills of one kind", least)
	}
	violations := 0
	if w.t.Failed() {
		violations = 1
	}
	for _, m := range []moment{inBody, inCommit, idle} {
		w.t.Logf("counted: %d lives ended by a kill %s, %d violations", kills[m], m, violations)
	}
}
