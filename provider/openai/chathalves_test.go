package openai

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// Some gateways cut text by UTF-16 units, others by bytes, and so cut runes in
// two.
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
		{"by bytes", []string{"a\xf0\x9d", "\x84\x9eb"}, "a𝄞b"},
		{"by bytes, in three", []string{"\xf0", "\x9d\x84", "\x9e"}, "𝄞"},
		{"by bytes, and only half", []string{"a\xc3", "b"}, "a\uFFFDb"},
		{"other escapes", []string{`\u00e9`, `\n\"`}, "é\n\""},
	} {
		for place, delta := range map[string]string{
			"text": `{"content":"%s"}`, "a list of texts": `{"content":[{"type":"text","text":"%s"}]}`, "a refusal": `{"refusal":"%s"}`,
			"reasoning_content": `{"reasoning_content":"%s"}`, "reasoning": `{"reasoning":"%s"}`, "both": `{"reasoning":"%[1]s","reasoning_content":"%[1]s"}`,
			"reasoning_details": `{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"%s"}]}`,
			"a summary":         `{"reasoning_details":[{"type":"reasoning.summary","index":0,"summary":"%s"}]}`,
			"thinking":          `{"content":[{"type":"thinking","thinking":[{"type":"text","text":"%s"}]}]}`,
			"bare thinking":     `{"content":[{"type":"thinking","thinking":"%s"}]}`,
			"arguments":         `{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"%s"}}]}`,
		} {
			var deltas []string
			for _, p := range c.pieces {
				deltas = append(deltas, fmt.Sprintf(delta, p))
			}
			s := newChatServer(t, pieces("stop", deltas...))
			for _, strict := range []bool{false, true} {
				all, native := "", ""
				for e, err := range s.model(t, Options{Strict: strict}).Generate(t.Context(), llm.Request{Messages: []llm.Message{llm.UserText("a")}}) {
					if err != nil {
						t.Fatal(err)
					}
					switch e := e.(type) {
					case llm.TextDelta:
						all += e.Text
					case llm.ReasoningDelta:
						all += e.Text
					case llm.ToolCallDelta:
						all += e.Arguments
					case llm.PartDone:
						native = string(e.Part.(llm.Reasoning).Native.Data)
					}
				}
				if all != c.want {
					t.Errorf("%s, in %s, strict %v: %q", c.name, place, strict, all)
				}
				quoted, _ := wire.Encode(c.want)
				if native != "" && !strings.Contains(native, string(quoted)) && len(deltas) > 1 {
					t.Errorf("%s, in %s: the native form is %s", c.name, place, native)
				}
			}
		}
	}
}
