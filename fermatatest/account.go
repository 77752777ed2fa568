package fermatatest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/handles"
	"github.com/fermata-ai/fermata/internal/hold"
	core "github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// account is what a history came to, with ids replaced by turn and place, and
// without times. Sessions go by the place of the call that has made them.
type account struct {
	transcripts map[string][]line
	rests       map[string]string      // how the sessions were left
	used        map[string]string      // what their last runs have used
	calls       map[string]callAccount // by place
	outcomes    [][]string             // of the inputs
	errors      map[string]bool        // of runs
	writes      int
}

// line is a part of a message.
type line struct {
	turn int
	call string // the place of the call whose result it is
	text string
	// the runtime tells the model of a handle
	notice bool
}

// callAccount is what became of one call.
type callAccount struct {
	id      string
	above   string // the place of the call that has made its session; empty: none
	turn    int
	status  event.Status
	by      string
	summary string
	effect  tool.Effect
	acts    bool           // on handles
	entries map[string]int // how often the body was entered, by key
	again   int            // how often an operator stated that an entry did not happen
	pauses  int            // zero: they aren't compared
	shifted bool           // a pause that isn't in the uncut history shifts the numbers of others
}

// account takes stock, in a life that does nothing else.
func (l *life) account() (*account, error) {
	family, err := l.family()
	if err != nil {
		return nil, err
	}
	if err := l.inspect(family); err != nil {
		return nil, err
	}
	a := &account{transcripts: map[string][]line{}, rests: map[string]string{},
		used:  map[string]string{},
		calls: map[string]callAccount{}, outcomes: l.outcomes, errors: map[string]bool{}}
	if l.gone(family) {
		a.rests["what is left"], err = l.leftovers()
		return a, err
	}
	histories, places, err := l.histories(family)
	if err != nil {
		return nil, err
	}
	for _, st := range family {
		if err := l.takeStock(a, st, histories[st.ID], places); err != nil {
			return nil, err
		}
	}
	for text := range l.errors {
		a.errors[places.in(text)] = true
	}
	for id, p := range places {
		if a.calls[p.String()], err = l.callAccount(id, places); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// theRoot stands for the place of the session that inputs come to.
const theRoot = "the session"

// at returns what a session goes by.
func (p places) at(root string, st *core.State) string {
	switch {
	case st.ID == root:
		return theRoot
	case st.Parent == nil:
		return "the session " + st.ID
	}
	return sessionBelow(p[callAbove(st)].String())
}

const below = "the session below "

// sessionBelow names the session that a call has made; without one, the root.
func sessionBelow(call string) string {
	if call == "" {
		return theRoot
	}
	return below + call
}

// callOf returns the call that has made a session; empty: it is the root.
func callOf(at string) string {
	call, _ := strings.CutPrefix(at, below)
	if call == at {
		return ""
	}
	return call
}

// callAbove returns the call that has made a session below the root.
func callAbove(st *core.State) string { return st.Parent.Path[len(st.Parent.Path)-1].Call }

// histories reads the messages of all sessions, and finds the places of all
// calls.
func (l *life) histories(family []*core.State) (map[string][]llm.Message, places, error) {
	all, p := map[string][]llm.Message{}, places{}
	depth := func(st *core.State) int {
		if st.Parent == nil {
			return 0
		}
		return len(st.Parent.Path)
	}
	family = slices.Clone(family)
	slices.SortStableFunc(family, func(a, b *core.State) int { return depth(a) - depth(b) })
	for _, st := range family {
		if !st.Deleted.IsZero() {
			continue
		}
		history, err := l.store.History(l.ctx, st, 0)
		if err != nil {
			return nil, nil, err
		}
		all[st.ID] = history
		var above place
		if st.Parent != nil {
			above = p[callAbove(st)]
		}
		p.note(l.s.root(), st.ID, above, history)
	}
	return all, p, nil
}

// takeStock takes stock of one session.
func (l *life) takeStock(a *account, st *core.State, history []llm.Message, p places) (err error) {
	at := p.at(l.s.root(), st)
	if !st.Deleted.IsZero() {
		a.rests[at] = "deleted"
		return nil
	}
	next := llm.Request{Messages: history, Tools: hold.Of(l.agents[st.Agent]).Tools.Defs()}
	handle := st.Parent != nil && st.Parent.Handle != "" // no model ever reads that
	if err := fakellm.Check(next); err != nil && st.Open() == 0 && !handle {
		l.violation("a provider would refuse the transcript of %s: %v", at, err)
	}
	shown, err := l.runner.Show(l.ctx, st.ID, "test")
	if err != nil {
		return err
	}
	a.rests[at] = p.in(restOf(shown))
	a.used[at] = fmt.Sprintf("%d turns, %d calls, %d tokens", st.Run.Turns, st.Run.Calls,
		st.Run.Usage.Total())
	a.transcripts[at], err = transcriptLines(history, p)
	return err
}

// place is where a call stands: the path to it, by turns and calls.
type place struct {
	session    string
	above      string // of the call that has made the session
	path       string
	turn, call int
}

func (p place) String() string { return "<" + p.path + ">" }

// places says where calls stand, by their ids.
type places map[string]place

// note notes the places of a session's calls.
func (p places) note(root, session string, above place, history []llm.Message) {
	before, at := "", ""
	switch {
	case session != root && above.path == "":
		before = session + ", "
	case above.path != "":
		before, at = above.path+", below it ", above.String()
	}
	turn := 0
	for _, m := range history {
		if m.Role != llm.RoleAssistant {
			continue
		}
		turn++
		for i, c := range m.ToolCalls() {
			path := fmt.Sprintf("%sturn %d, call %d", before, turn, i+1)
			p[c.ID] = place{session, at, path, turn, i + 1}
		}
	}
}

// in puts places where ids are.
func (p places) in(text string) string {
	for _, id := range slices.Sorted(maps.Keys(p)) {
		text = strings.ReplaceAll(text, id, p[id].String())
	}
	return text
}

func transcriptLines(history []llm.Message, p places) (lines []line, err error) {
	turn := 0
	for _, m := range history {
		if m.Role == llm.RoleAssistant {
			turn++
		}
		for _, part := range m.Parts {
			b, err := (llm.Message{Role: m.Role, Parts: []llm.Part{part}}).AppendJSON(nil)
			if err != nil {
				return nil, err
			}
			ln := line{turn: turn, text: p.in(string(b))}
			switch part := part.(type) {
			case llm.ToolResult:
				ln.call = p[part.Call].String()
			case llm.Notice:
				ln.notice = true
			}
			lines = append(lines, ln)
		}
	}
	return lines, nil
}

func restOf(t runner.Transcript) string {
	s := "finish " + string(t.Finish)
	for _, p := range t.Pending {
		s += fmt.Sprintf("; %s waits: %s %s %q, key %q, gate %q, arguments %s",
			p.ID, p.Await.Reason, p.Await.Mode,
			p.Await.Prompt, p.Await.Key, p.Await.Gate, p.Arguments)
	}
	return s
}

// callAccount takes stock of one call.
func (l *life) callAccount(id string, p places) (callAccount, error) {
	in := p[id].session
	s, err := l.runner.Call(l.ctx, in, id, "test")
	if err != nil {
		return callAccount{}, err
	}
	c := callAccount{id: id, above: p[id].above, turn: p[id].turn, status: s.Settled, by: s.Actor,
		entries: map[string]int{}, again: len(s.Again),
		shifted: len(s.Again) > 0 || l.rewaits[id]}
	var b strings.Builder
	fmt.Fprintf(&b, "%s is %s %s by %q", s.Tool, s.Status, s.Settled, s.Actor)
	// A call that waits for handles may find that they have stopped.
	if c.acts = s.Tool == handles.AwaitTool || l.acted[id]; !c.acts {
		c.pauses = s.Pauses
	}
	for _, d := range s.Decisions {
		fmt.Fprintf(&b, "; %s: %v by %q, %q, arguments %s", d.Gate, d.Approved, d.Actor,
			d.Reason, d.Arguments)
	}
	for _, r := range s.Receipts {
		fmt.Fprintf(&b, "; receipt %d of %s %s by %q, fate %q", r.Pause, r.Kind, r.Hash,
			r.Actor, r.Fate)
	}
	for _, a := range s.Artifacts {
		fmt.Fprintf(&b, "; artifact %s, %d bytes", a.Name, len(a.Data))
	}
	for _, m := range s.Media {
		fmt.Fprintf(&b, "; media %s, %d bytes", m.Name, len(m.Data))
	}
	for m, err := range l.runner.Received(l.ctx, in, id, "test") {
		if err != nil {
			return c, err
		}
		fmt.Fprintf(&b, "; event %s %s by %q, %s", m.Name, l.named(m.ID), m.Actor, m.Payload)
	}
	if s.Mail != nil {
		fmt.Fprintf(&b, "; of %d events %d were shown", s.Mail.Count, s.Mail.Shown)
	}
	c.summary = p.in(b.String())
	for _, e := range l.entries {
		if e.call == id {
			c.entries[p.in(e.key)]++
			c.effect = e.effect
		}
	}
	return c, l.receipts(in, id, s)
}

// receipts makes sure that what was acknowledged for a call is there.
func (l *life) receipts(in, id string, s runner.CallDetails) error {
	all := slices.Clone(s.Receipts)
	for r, err := range l.store.MailReceipts(l.ctx, in, id, nil) {
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	for _, r := range l.acked {
		if r.Call != id {
			continue
		}
		found := false
		for _, kept := range all {
			kept.Fate, r.Fate, r.Duplicate = "", "", false
			found = found || kept == r
		}
		if !found {
			l.violation("an answer was acknowledged, and its receipt is gone: %+v; there are: %+v",
				r, all)
		}
	}
	return nil
}
