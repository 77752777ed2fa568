package llmtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

// texts are what models have written for a call's arguments.
var texts = []string{
	"", " ", "null", " null\n", `""`, `"null"`, "{}", "\uFEFF{}",
	"```json\n{\"p\":1}\n```", "```\n{\"p\":1}```", `{"p":1} done.`, `{"p":1}{"p":2}`, `{"p":1`,
	`{"p":"a\`, `{'p':1}`, `[1]`, `"x"`, `NaN`, `{"p":01}`,
	"{\"md\":\"```json\\n{}\\n```\"}", `{"p":1.0,"q":1e3,"r":-0}`, `{"id":9223372036854775807}`,
	`{"p":"\u003c&>\ud834\udd10"}`, `{"p":"\ud800"}`,
	`{"p":{"p":{"p":[[],{}]}}}`, `{ "p" : 1 , "q":2 }`,
}

// arguments has a provider send each of them. A reply arguments.stream.http or
// arguments.whole.http holds @@ARGUMENTS@@ within a JSON string. What comes of
// it is what llm.Arguments makes of the text, the same error included.
func arguments(t *testing.T, p Provider) {
	if why, ok := p.Lacks["arguments"]; ok {
		t.Skip(why)
	}
	found := false
	for _, form := range forms {
		answer, ok := recorded(t, p, "arguments", form.whole)
		if !ok {
			continue
		}
		found = true
		for _, text := range texts {
			t.Run(fmt.Sprintf("%s/%.20q", form.name, text), func(t *testing.T) {
				quoted, err := json.Marshal(text)
				check(t, err)
				sent := answer
				sent.body = bytes.ReplaceAll(answer.body, []byte("@@ARGUMENTS@@"),
					quoted[1:len(quoted)-1])
				m, fin, err := model(t, p, serve(t, atOnce, sent), form.whole).collect(t,
					scenarios[0].request())
				check(t, err)
				calls := m.ToolCalls()
				if len(calls) != 1 || calls[0].Name != "get_weather" ||
					fin.Reason != llm.StopToolCalls {
					t.Fatalf("%v, %v", m, fin)
				}
				want, wantErr := llm.Arguments(text)
				if _, err := llm.Arguments(calls[0].Arguments); string(calls[0].Arguments) != string(want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
					t.Errorf("%q became %s (%v), want %s (%v)", text, calls[0].Arguments, err, want,
						wantErr)
				}
				scenario{stop: llm.StopToolCalls}.again(t, p, form.whole, m)
			})
		}
	}
	if !found {
		t.Fatalf("%s has no arguments.stream.http, arguments.whole.http or arguments.http: record a call of get_weather whose arguments, within a "+
			"JSON string, are @@ARGUMENTS@@, or say in Lacks why the provider can't have it",
			p.Replies)
	}
}
