package fakellm_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/property"
	"github.com/fermata-ai/fermata/llm"
)

// transcript draws one that every provider takes.
func transcript(t *rapid.T) []llm.Message {
	var out []llm.Message
	n := 0
	for range rapid.IntRange(1, 4).Draw(t, "rounds") {
		for range rapid.IntRange(1, 2).Draw(t, "user messages") {
			out = append(out, user("go"))
		}
		for range rapid.IntRange(0, 3).Draw(t, "turns") {
			m, res := assistant(), results()
			if rapid.Bool().Draw(t, "text") {
				m.Parts = append(m.Parts, llm.Text{Text: "on it"})
			}
			for range rapid.IntRange(1, 3).Draw(t, "calls") {
				n++
				id := fmt.Sprint("c", n)
				m.Parts, res.Parts = append(m.Parts, call(id, "deploy")), append(res.Parts, result(id, "deploy"))
			}
			out = append(out, m, res)
		}
		out = append(out, assistant(llm.Text{Text: "done"}))
	}
	return out
}

func TestCheckFindsAnyBreachOfPairing(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		messages := transcript(t)
		if err := fakellm.Check(llm.Request{Messages: messages, Tools: tools}); err != nil {
			t.Fatalf("a good transcript: %v", err)
		}
		var toolMessages []int
		for i, m := range messages {
			if m.Role == llm.RoleTool {
				toolMessages = append(toolMessages, i)
			}
		}
		if len(toolMessages) == 0 {
			t.Skip("no calls")
		}
		at := rapid.SampledFrom(toolMessages).Draw(t, "results")
		parts := &messages[at].Parts
		one := rapid.IntRange(0, len(*parts)-1).Draw(t, "result")
		breach := rapid.SampledFrom([]string{"drop", "double", "swap", "rename", "drop all", "later", "split"}).Draw(t, "breach")
		switch breach {
		case "drop":
			*parts = slices.Delete(*parts, one, one+1)
		case "double":
			*parts = slices.Insert(*parts, one, (*parts)[one])
		case "swap":
			if len(*parts) < 2 {
				t.Skip("one result")
			}
			other := (one + 1) % len(*parts)
			(*parts)[one], (*parts)[other] = (*parts)[other], (*parts)[one]
		case "rename":
			r := (*parts)[one].(llm.ToolResult)
			r.Call += "x"
			(*parts)[one] = r
		case "drop all":
			messages = slices.Delete(messages, at, at+1)
		case "later":
			messages = slices.Insert(slices.Delete(slices.Clone(messages), at, at+1), at+1, messages[at])
		case "split":
			messages = slices.Insert(messages, at, user("wait"))
		}
		if err := fakellm.Check(llm.Request{Messages: messages, Tools: tools}); err == nil {
			t.Fatalf("%s of result %d in messages[%d] went unnoticed", breach, one, at)
		}
	})
}

// Nothing that can be stored makes Check panic, and what it accepts, a model
// takes up.
func FuzzCheck(f *testing.F) {
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		var req llm.Request
		for _, raw := range [][]byte{a, b, c} {
			var m llm.Message
			if m.UnmarshalJSON(raw) != nil {
				return
			}
			req.Messages = append(req.Messages, m)
		}
		err := fakellm.Check(req)
		if err != nil && err.Error() == "" {
			t.Fatal("no word of why")
		}
		_, _, got := llm.Collect(fakellm.Echo().Generate(t.Context(), req))
		if refused := err != nil || req.Messages[2].Role == llm.RoleAssistant; refused != (got != nil) {
			t.Fatalf("Check says %v, a model %v", err, got)
		}
	})
}
