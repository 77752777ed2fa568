package anthropic

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

// TestDamagedStreamsRunNothingElse: a stream with an event lost, repeated or
// moved, or cut off anywhere, is an error, or has no call but those that the
// model made.
func TestDamagedStreamsRunNothingElse(t *testing.T) {
	start := func(i int) string {
		return fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":"c%d","name":"f","input":{}}}`, i, i)
	}
	delta := func(i int, s string) string {
		return fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%q}}`, i, s)
	}
	end := func(i int) string { return fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i) }
	all := []string{begin, start(0), delta(0, `{"a"`), delta(0, `:1}`), end(0), start(1), delta(1, `{"b"`), delta(1, `:2}`), end(1), callsOut, stop}
	side := []string{begin, start(0), start(1), delta(0, `{"a"`), delta(1, `{"b"`), delta(0, `:1}`), delta(1, `:2}`), end(1), end(0), callsOut, stop}
	for name, list := range map[string][]string{"in turn": all, "side by side": side} {
		try := func(what, b string, both bool) {
			s := &service{body: b}
			msg, fin, err := llm.Collect(s.model(t, Options{}).Generate(t.Context(), hello()))
			if err != nil {
				return
			}
			var got []string
			for _, c := range msg.ToolCalls() {
				if strings.HasPrefix(string(c.Arguments), "{") {
					got = append(got, string(c.Arguments))
				}
			}
			g := strings.Join(got, " ")
			if g != `{"a":1} {"b":2}` && (both || g != `{"a":1}` && g != `{"b":2}` && g != "") {
				t.Errorf("%s, %s: %v %s", name, what, fin.Reason, g)
			}
		}
		whole := events(list...)
		for i := range whole {
			try(fmt.Sprintf("cut at %d", i), whole[:i], true)
		}
		try("whole", whole, true)
		for i := range list {
			without := append(append([]string{}, list[:i]...), list[i+1:]...)
			try(fmt.Sprintf("without %d", i), events(without...), false)
			try(fmt.Sprintf("twice %d", i), events(append(append(append([]string{}, list[:i]...), list[i]), list[i:]...)...), false)
			for j := range without {
				try(fmt.Sprintf("%d moved to %d", i, j), events(append(append(append([]string{}, without[:j]...), list[i]), without[j:]...)...), false)
			}
		}
	}
}
