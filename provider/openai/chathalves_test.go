package openai

import (
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

// Some gateways cut text by UTF-16 units, and so cut runes in two.
func TestRunesThatAreCutInTwo(t *testing.T) {
	for _, c := range []struct {
		name   string
		pieces []string
		want   string
	}{
		{"in two", []string{`a\ud834`, `\udd1eb`}, "a𝄞b"},
		{"alone", []string{`\ud834`, `\udd1e`}, "𝄞"},
		{"with nothing between", []string{`\uD834`, ``, `\uDD1E`}, "𝄞"},
		{"several", []string{`\ud834`, `\udd1e\ud83d`, `\ude00!`}, "𝄞😀!"},
		{"whole", []string{`\ud834\udd1e`, `\ud83d\ude00`}, "𝄞😀"},
		{"no first half", []string{`a`, `\udd1eb`}, "a\uFFFDb"},
		{"no second half", []string{`a\ud834`, `b`}, "a\uFFFDb"},
		{"two first halves", []string{`\ud834`, `\ud834`, `\udd1e`}, "\uFFFD𝄞"},
		{"a half at the end", []string{`a\ud834`}, "a\uFFFD"},
		{"no escape", []string{`\\ud834`, `\\udd1e`}, `\ud834\udd1e`},
		{"a backslash before it", []string{`\\\ud834`, `\udd1e`}, `\𝄞`},
		{"other escapes", []string{`\u00e9`, `\n\"`}, "é\n\""},
	} {
		var texts, args []string
		for _, p := range c.pieces {
			texts = append(texts, `{"content":"`+p+`"}`)
			args = append(args, `{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"`+p+`"}}]}`)
		}
		for _, strict := range []bool{false, true} {
			s := newChatServer(t, pieces("stop", texts...))
			m, _, err := ask(t, s.model(t, ChatOptions{Strict: strict}), llm.Request{})
			if err != nil || m.Text() != c.want {
				t.Errorf("%s: %v, %q", c.name, err, m.Text())
			}
			s.answer = pieces("stop", args...)
			all := ""
			for e, err := range s.model(t, ChatOptions{Strict: strict}).Generate(t.Context(), llm.Request{Messages: []llm.Message{llm.UserText("a")}}) {
				if err != nil {
					t.Fatal(err)
				}
				if d, ok := e.(llm.ToolCallDelta); ok {
					all += d.Arguments
				}
			}
			if all != c.want {
				t.Errorf("%s, in arguments, strict %v: %q", c.name, strict, all)
			}
		}
	}
}
