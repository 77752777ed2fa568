package agui_test

import (
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/httpapi/internal/agui"
	"github.com/fermata-ai/fermata/llm"
)

// allocated returns how many bytes a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Twice the messages take twice the work, whichever they are, and not each of
// them that of a stored file.
func TestWorkGrowsAsTheInputDoes(t *testing.T) {
	picture := []llm.Media{{MediaType: "image/png", Data: make([]byte, 64<<10)}}
	stored := agui.Stored{Open: []event.Result{{Status: event.Done,
		Result: llm.ToolResult{Call: "c", Name: "look", Output: []byte(`"seen"`), Media: picture}}}}
	for name, one := range map[string]agui.Message{
		"said":    {Role: "user", Body: &agui.Body{Text: "x"}},
		"results": {Role: "tool", Call: "c", Body: &agui.Body{Parts: []agui.Part{}}},
	} {
		cost := func(n int) uint64 {
			in := &agui.Input{Thread: "t", Run: "r"}
			for i := range n {
				one.ID = strconv.Itoa(i)
				in.Messages = append(in.Messages, one)
			}
			return allocated(func() {
				in.Said()
				agui.NewTranslator(in, "ada", count()).Begin(in, nil, stored)
			})
		}
		if few, many := cost(1000), cost(4000); many > 8*few || many > 32<<20 {
			t.Errorf("%s: %d bytes for 1000 messages, %d for 4000", name, few, many)
		}
	}
}

// Results that a client has in the order in which they came are what is stored.
func TestResultsInTheOrderOfTheirEnds(t *testing.T) {
	var calls, results []llm.Part
	for _, id := range []string{"a", "b", "c"} {
		calls = append(calls, llm.ToolCall{ID: id, Name: "look", Arguments: []byte(`{}`)})
		results = append(results, llm.ToolResult{Call: id, Name: "look", Output: []byte(`"` + id + `"`)})
	}
	stored := agui.Stored{History: []llm.Message{
		llm.UserText("Go."), {Role: llm.RoleAssistant, Parts: calls},
		{Role: llm.RoleTool, Parts: results}}}
	shown := &agui.Input{Thread: "t", Run: "r"}
	for _, e := range agui.NewTranslator(shown, "ada", count()).Begin(shown, nil, stored) {
		if s, is := e.(agui.MessagesSnapshot); is {
			shown.Messages = s.Messages
		}
	}
	slices.Reverse(shown.Messages[2:])
	begin := func() (snapshots int) {
		for _, e := range agui.NewTranslator(shown, "ada", count()).Begin(shown, nil, stored) {
			if e.Kind() == agui.TypeMessagesSnapshot {
				snapshots++
			}
		}
		return snapshots
	}
	if n := begin(); n != 0 {
		t.Errorf("there are %d snapshots", n)
	}
	shown.Messages[3].Body = &agui.Body{Text: strings.ToUpper(shown.Messages[3].Body.Text)}
	if n := begin(); n != 1 {
		t.Errorf("of another result there are %d snapshots", n)
	}
}
