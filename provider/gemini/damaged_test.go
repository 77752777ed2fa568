package gemini

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

// TestDamagedStreamsRunNothingElse: a stream with an event lost, repeated or
// moved, or cut off anywhere, is an error, or has no call but those that the
// model made.
func TestDamagedStreamsRunNothingElse(t *testing.T) {
	call := func(name, arg string) string {
		return fmt.Sprintf(`{"functionCall":{"id":"%s","name":%q,"args":{%q:1}},"thoughtSignature":"c2ln"}`, name, name, arg)
	}
	list := []string{says("", `{"text":"hm","thought":true}`), says("", call("f", "a")), says("", call("g", "b"), `{"text":"so"}`), says("STOP")}
	try := func(what, body string, whole bool) {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
		m, fin, err := s.ask(t, Options{})
		if err != nil {
			return
		}
		var got []string
		for _, c := range m.ToolCalls() {
			got = append(got, c.Name+string(c.Arguments))
		}
		g := strings.Join(got, " ")
		if whole && g != `f{"a":1} g{"b":1}` {
			t.Errorf("%s: %v %s", what, fin.Reason, g)
		}
		for _, one := range got {
			if one != `f{"a":1}` && one != `g{"b":1}` {
				t.Errorf("%s: %v %s", what, fin.Reason, g)
			}
		}
	}
	body := func(list ...string) string { return "data: " + strings.Join(list, "\n\ndata: ") + "\n\n" }
	all := body(list...)
	for i := range all {
		try(fmt.Sprintf("cut at %d", i), all[:i], true)
	}
	try("whole", all, true)
	for i := range list {
		without := append(append([]string{}, list[:i]...), list[i+1:]...)
		try(fmt.Sprintf("without %d", i), body(without...), false)
		try(fmt.Sprintf("twice %d", i), body(append(append(append([]string{}, list[:i]...), list[i]), list[i:]...)...), false)
		for j := range without {
			try(fmt.Sprintf("%d moved to %d", i, j), body(append(append(append([]string{}, without[:j]...), list[i]), without[j:]...)...), false)
		}
	}
}

// TestOneCandidateIsRead: what another candidate says, were it in an event of
// its own, is no part of this answer.
func TestOneCandidateIsRead(t *testing.T) {
	const other = `{"candidates":[{"index":1,"content":{"role":"model","parts":[{"functionCall":{"name":"wipe","args":{}}}]}}]}`
	s := serve(t, stream(says("", `{"text":"No."}`), other, says("STOP")))
	if m, fin, err := s.ask(t, Options{}); kind(err) != llm.ErrMalformed {
		t.Errorf("%v, %v, %v", m, fin, err)
	}
}

// TestPartsOfOddShapesAreSendable: whatever a part looks like, it is an error,
// or can be sent back.
func TestPartsOfOddShapesAreSendable(t *testing.T) {
	for _, part := range []string{
		`{"FunctionCall":{"id":"i","args":{}}}`, `{"functionCall":null,"FunctionCall":{"name":"f"}}`,
		`{"functionCall":{"Name":"f","Args":{}}}`, `{"functionCall":{"name":"f","args":{"a":1},"Args":{}}}`,
		`{"functionCall":null}`, `{"functionCall":{}}`, `{"functionCall":[]}`, `{"functionCall":"f"}`, `{"functionCall":{"name":null}}`, `{"functionCall":{"name":"f","args":"x"}}`,
		`{"functionCall":{"name":"f","args":[1]}}`, `{"functionCall":{"name":"f","args":{"a":1,"a":2}},"thoughtSignature":"eA=="}`, `{"thought":true,"functionCall":{"name":"f"}}`,
		`{"inlineData":null}`, `{"inlineData":{}}`, `{"inlineData":{"mimeType":"image/png"}}`, `{"inlineData":{"mimeType":"image/png","data":""},"thoughtSignature":"eA=="}`, `{"fileData":{}}`,
		`{"fileData":{"mimeType":"image/png"}}`, `{"text":1}`, `{"text":[]}`, `{"text":"a","functionCall":{"name":"f"}}`, `null`, `[]`, `1`, `"x"`, `{"thought":null}`, `{"thought":true}`, `{"thoughtSignature":null}`,
		`{"text":"a","Text":"b"}`, `{"Text":"b"}`, `{"functionCall":{"name":"f","id":7}}`, `{"functionCall":{"name":"` + strings.Repeat("n", 300) + `"},"thoughtSignature":"eA=="}`,
	} {
		for _, finish := range []string{"STOP", "MAX_TOKENS", "OTHER", "SAFETY"} {
			s := serve(t, stream(says(finish, part)))
			m, _, err := s.ask(t, Options{})
			if err != nil {
				continue
			}
			for i, p := range m.Parts {
				if c, ok := p.(llm.ToolCall); ok {
					c.ID = fmt.Sprint("call_", i)
					if c.Name == "" {
						c.Name = "invalid_"
					}
					m.Parts[i] = c
				}
			}
			history := []llm.Message{llm.UserText("Hi"), m}
			results := llm.Message{Role: llm.RoleTool}
			for _, c := range m.ToolCalls() {
				results.Parts = append(results.Parts, llm.ToolResult{Call: c.ID, Name: c.Name, Output: []byte(`1`)})
			}
			if len(results.Parts) > 0 {
				history = append(history, results)
			}
			func() {
				defer func() {
					if p := recover(); p != nil {
						t.Errorf("%s, %s: sending it back panics: %v", part, finish, p)
					}
				}()
				if _, _, err := s.ask(t, Options{}, append(history, llm.UserText("And?"))...); err != nil {
					t.Errorf("%s, %s: %v: it can't be sent back: %v", part, finish, m, err)
				}
				if got := s.contents(t); strings.Contains(got, `:null`) {
					t.Errorf("%s, %s: sent back is %s", part, finish, got)
				}
			}()
		}
	}
}
