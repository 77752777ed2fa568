package fermatatest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/hold"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// account is what a history came to, with ids replaced by turn and place, and
// without times.
type account struct {
	transcript []line
	calls      map[string]callAccount // by place
	rest       string                 // how the session was left
	outcomes   [][]string             // of the inputs
	errors     map[string]bool        // of runs
	writes     int
}

// line is a part of a message.
type line struct {
	turn int
	call string // the place of the call whose result it is
	text string
}

// callAccount is what became of one call.
type callAccount struct {
	id      string
	turn    int
	status  event.Status
	by      string
	summary string
	effect  tool.Effect
	entries map[string]int // how often the body was entered, by key
	again   int            // how often an operator stated that an entry did not happen
}

// account takes stock, in a life that does nothing else.
func (l *life) account() (*account, error) {
	shown, err := l.runner.Show(l.ctx, theSession, "test")
	if err != nil {
		return nil, err
	}
	next := llm.Request{Messages: shown.History, Tools: hold.Of(l.agent).Tools.Defs()}
	if err := fakellm.Check(next); err != nil && len(shown.Pending) == 0 {
		l.violation("a provider would refuse the transcript: %v", err)
	}
	if err := l.inspect(shown.Pending); err != nil {
		return nil, err
	}
	places := callPlaces(shown.History)
	a := &account{calls: map[string]callAccount{}, outcomes: l.outcomes, errors: map[string]bool{}}
	if a.transcript, err = transcriptLines(shown.History, places); err != nil {
		return nil, err
	}
	a.rest = places.in(restOf(shown))
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

// inspect makes sure that nothing in the store is wrong, and that the inbox
// lists what waits, and nothing else.
func (l *life) inspect(waiting []tool.Pause) error {
	for p, err := range l.store.Check(l.ctx) {
		if err != nil {
			return err
		}
		l.violation("the store has a flaw: %v", p)
	}
	listed := map[string]bool{}
	for p, err := range l.runner.Pending(l.ctx, session.PauseFilter{}, "test") {
		if err != nil {
			return err
		}
		listed[p.ID] = true
	}
	for _, p := range waiting {
		if !listed[p.ID] {
			l.violation("pause %s is open, and not in the inbox", p.ID)
		}
		delete(listed, p.ID)
	}
	for id := range listed {
		l.violation("pause %s is in the inbox, and not open", id)
	}
	return nil
}

// place is where a call stands.
type place struct{ turn, call int }

func (p place) String() string { return fmt.Sprintf("<turn %d, call %d>", p.turn, p.call) }

// places says where calls stand, by their ids.
type places map[string]place

// callPlaces finds the places of all calls.
func callPlaces(history []llm.Message) places {
	p := places{}
	turn := 0
	for _, m := range history {
		if m.Role != llm.RoleAssistant {
			continue
		}
		turn++
		for i, c := range m.ToolCalls() {
			p[c.ID] = place{turn, i + 1}
		}
	}
	return p
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
			if r, ok := part.(llm.ToolResult); ok {
				ln.call = p[r.Call].String()
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
	s, err := l.runner.Call(l.ctx, theSession, id, "test")
	if err != nil {
		return callAccount{}, err
	}
	c := callAccount{id: id, turn: p[id].turn, status: s.Settled, by: s.Actor,
		entries: map[string]int{}, again: len(s.Again)}
	var b strings.Builder
	fmt.Fprintf(&b, "%s is %s %s by %q, after %d pauses", s.Tool, s.Status, s.Settled,
		s.Actor, s.Pauses)
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
	for m, err := range l.runner.Received(l.ctx, theSession, id, "test") {
		if err != nil {
			return c, err
		}
		fmt.Fprintf(&b, "; event %s %s by %q, %s", m.Name, m.ID, m.Actor, m.Payload)
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
	return c, l.receipts(id, s)
}

// receipts makes sure that what was acknowledged for a call is there.
func (l *life) receipts(id string, s runner.CallDetails) error {
	all := slices.Clone(s.Receipts)
	for r, err := range l.store.MailReceipts(l.ctx, theSession, id, nil) {
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

// look makes sure that what has settled stays as it was.
func (l *life) look() {
	for _, c := range l.calls() {
		s, err := l.runner.Call(l.ctx, theSession, c.ID, "test")
		if err != nil || s.Settled == "" {
			continue
		}
		now := fmt.Sprintf("%s by %q at %s with %s",
			s.Settled, s.Actor, s.At, tool.HashArguments(s.Output))
		l.mu.Lock()
		before, seen := l.settled[c.ID]
		l.settled[c.ID] = now
		l.mu.Unlock()
		if seen && before != now {
			l.violation("call %s settled twice: %s, and then %s", c.ID, before, now)
		}
	}
}
