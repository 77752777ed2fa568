package agui_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/httpapi/internal/agui"
	"github.com/fermata-ai/fermata/internal/property"
	"github.com/fermata-ai/fermata/llm"
)

// Whatever a client had on its screen, whatever it has missed, and whatever
// else is said in its session meanwhile: at the end of a run it shows what is
// stored, in order. Then the next run begins without a snapshot.
func TestAClientShowsWhatIsStored(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		s := scene{t: t}
		for range rapid.IntRange(0, 3).Draw(t, "before") {
			s.exchange()
		}
		c := s.client()
		s.run(c, true)
		if diff := cmp.Diff(inTurns(s.shown()), inTurns(c.shown())); diff != "" {
			t.Fatalf("the client shows something else (-stored +client):\n%s", diff)
		}
		s.snapshots = 0
		s.run(c, false)
		if diff := cmp.Diff(inTurns(s.shown()), inTurns(c.shown())); diff != "" || s.snapshots > s.voids {
			t.Fatalf("after %d snapshots for %d voids:\n%s", s.snapshots, s.voids, diff)
		}
	})
}

// scene is a session and those who talk in it.
type scene struct {
	t         *rapid.T
	history   []llm.Message
	tr        *agui.Translator
	to        *screen
	calls     int
	says      int
	snapshots int
	voids     int
	steps     []step
	open      []event.Result
}

// step is an event, and the session as it was when it was shown.
type step struct {
	event  event.Event
	stored agui.Stored
}

// run is one of the client's: its user says something, others may, too.
func (s *scene) run(c *screen, others bool) {
	s.says++
	s.voids = 0
	c.messages = append(c.messages, shownMessage{
		ID: "mine-" + strconv.Itoa(s.says), Role: "user", Text: "mine"})
	in := c.input()
	s.tr, s.to = agui.NewTranslator(in, "ada", func() string {
		s.says++
		return strconv.Itoa(s.says)
	}), c
	said := fresh(s.t, in.Said())
	s.take(s.tr.Begin(in, said[len(said)-1:], agui.Stored{History: slices.Clone(s.history)}))
	mine := rapid.IntRange(0, 2).Draw(s.t, "place")
	for i := range 3 {
		if i == mine {
			s.commit(llm.UserText("mine"))
			s.answer()
		} else if others && rapid.Bool().Draw(s.t, "others") {
			s.exchange()
		}
	}
	for _, step := range s.steps {
		s.take(s.tr.Event(step.event))
		if s.tr.Stale() {
			stored := step.stored
			if rapid.Bool().Draw(s.t, "ahead") {
				stored = agui.Stored{History: slices.Clone(s.history)}
			}
			s.take(s.tr.Restate(stored))
		}
	}
	s.steps = nil
	s.take(s.tr.Event(event.End{Finish: event.FinishStop}))
}

// exchange is what another client's user says, and the answer.
func (s *scene) exchange() {
	s.says++
	s.commit(llm.UserText("others' " + strconv.Itoa(s.says)))
	s.answer()
}

// answer is a turn of the model's, perhaps with calls.
func (s *scene) answer() {
	m := llm.Message{Role: llm.RoleAssistant}
	text := rapid.SampledFrom([]string{"", "yes", "no, never"}).Draw(s.t, "text")
	for rapid.IntRange(0, 3).Draw(s.t, "failures") == 0 {
		s.show(event.TextDelta{Delta: "void"})
		if rapid.Bool().Draw(s.t, "retries") {
			s.show(event.Retry{Failures: 1, Err: fmt.Errorf("overloaded")})
		} else {
			s.show(event.TextDelta{Start: true})
		}
		s.voids++
	}
	if text != "" {
		m.Parts = append(m.Parts, llm.Text{Text: text})
		s.show(event.ReasoningDelta{Delta: "hm"})
		n := rapid.IntRange(0, len(text)).Draw(s.t, "streamed")
		s.show(event.TextDelta{Delta: text[:n], Start: true})
		if rapid.Bool().Draw(s.t, "as a whole") {
			s.show(event.TextDelta{Delta: text, Start: true})
		}
	}
	calls := rapid.IntRange(0, 2).Draw(s.t, "calls")
	results := llm.Message{Role: llm.RoleTool}
	for range calls {
		s.calls++
		c := llm.ToolCall{ID: "call-" + strconv.Itoa(s.calls), Name: "look",
			Arguments: json.RawMessage(`{}`)}
		m.Parts = append(m.Parts, c)
		results.Parts = append(results.Parts, llm.ToolResult{Call: c.ID, Name: "look",
			Output: json.RawMessage(`"found"`)})
	}
	s.commit(m)
	if calls == 0 {
		return
	}
	for i, p := range results.Parts {
		r := event.Result{Status: event.Done, Result: p.(llm.ToolResult)}
		if rapid.IntRange(0, 3).Draw(s.t, "taken back") == 0 {
			early := r
			early.Result.Output = json.RawMessage(`"early"`)
			s.show(early)
			s.voids++
		}
		s.open = append(s.open, r)
		if i > 0 || rapid.Bool().Draw(s.t, "by itself") { // else the message shows it
			s.show(r)
		}
	}
	s.open = nil
	s.commit(results)
	s.commit(llm.AssistantText("so it is"))
}

func (s *scene) commit(m llm.Message) {
	s.history = append(s.history, m)
	e := event.Message{Number: len(s.history) - 1, Message: m}
	s.show(e)
	if rapid.IntRange(0, 5).Draw(s.t, "again") == 0 { // as a follower that looks anew
		s.show(e)
	}
}

func (s *scene) show(e event.Event) {
	if s.tr != nil {
		s.steps = append(s.steps, step{e, agui.Stored{History: slices.Clone(s.history),
			Open: slices.Clone(s.open)}})
	}
}

func (s *scene) take(events []agui.Event) {
	for _, e := range events {
		if e.Kind() == agui.TypeMessagesSnapshot {
			s.snapshots++
		}
		if err := s.to.see(e); err != nil {
			s.t.Fatal(err)
		}
	}
}

// client is one that has seen a part of the session, or something else.
func (s *scene) client() *screen {
	c := &screen{}
	for i, m := range s.shown() {
		switch rapid.IntRange(0, 9).Draw(s.t, "seen") {
		case 0:
			continue // missed
		case 1:
			m.Text = "another text"
		case 2:
			return c
		}
		m.ID = rapid.SampledFrom([]string{"c", "fermata:message:"}).Draw(s.t, "id") + strconv.Itoa(i)
		c.messages = append(c.messages, m)
	}
	return c
}

// shown is what a client has to show.
func (s *scene) shown() []shownMessage {
	all := []shownMessage{}
	for _, m := range s.history {
		out := shownMessage{Role: string(m.Role), Text: m.Text()}
		for _, c := range m.ToolCalls() {
			out.Calls = append(out.Calls, c.ID)
		}
		if m.Role != llm.RoleTool {
			if out.Text != "" || len(out.Calls) > 0 {
				all = append(all, out)
			}
			continue
		}
		for _, p := range m.Parts {
			all = append(all, shownMessage{Role: "tool", Text: "found", Call: p.(llm.ToolResult).Call})
		}
	}
	return all
}

// inTurns sorts the results of each turn: they are shown in the order in which
// the calls ended, and stored in the order of the calls.
func inTurns(all []shownMessage) []shownMessage {
	for i := range all {
		for j := i; j > 0 && all[j].Role == "tool" && all[j-1].Role == "tool" &&
			all[j].Call < all[j-1].Call; j-- {
			all[j], all[j-1] = all[j-1], all[j]
		}
	}
	return all
}
