package openai_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/provider/openai"
)

// numbered returns a call whose ids have the number.
func numbered(n int, args string) string {
	return fmt.Sprintf(`{"type":"function_call","id":"fc_%d","status":"completed","call_id":"c%[1]d","name":"f%[1]d","arguments":%q}`, n, args)
}

func argsOf(own string, place int, s string) string {
	return fmt.Sprintf(`{"type":"response.function_call_arguments.delta","item_id":%q,"output_index":%d,"delta":%q}`, own, place, s)
}

// Others number all items alike, and tell them apart by their ids.
func TestItemsOfOnePlaceAreToldApartByTheirIDs(t *testing.T) {
	response := `{"type":"response.completed","response":{"status":"completed","output":[` + numbered(1, `{"a":1}`) + "," + numbered(2, `{"b":2}`) + `]}}`
	other := strings.NewReplacer("fc_1", "fc_8", "fc_2", "fc_9").Replace
	for name, events := range map[string][]string{
		"one after the other": {added(0, numbered(1, "")), argsOf("fc_1", 0, `{"a":`), argsOf("fc_1", 0, `1}`), ended(0, numbered(1, `{"a":1}`)),
			added(0, numbered(2, "")), argsOf("fc_2", 0, `{"b":2}`), ended(0, numbered(2, `{"b":2}`)), response},
		"by turns": {added(0, numbered(1, "")), added(0, numbered(2, "")), argsOf("fc_2", 0, `{"b":`), argsOf("fc_1", 0, `{"a":1}`), argsOf("fc_2", 0, `2}`),
			ended(0, numbered(1, `{"a":1}`)), ended(0, numbered(2, `{"b":2}`)), completed},
		"without their ends":          {added(0, numbered(1, "")), added(0, numbered(2, "")), argsOf("fc_2", 0, `{"b":2}`), response},
		"with other ids at the end":   {added(0, numbered(1, "")), added(0, numbered(2, "")), ended(0, other(numbered(1, `{"a":1}`))), ended(0, other(numbered(2, `{"b":2}`))), other(response)},
		"deltas that tell no place":   {added(0, numbered(1, "")), strings.Replace(argsOf("fc_1", 0, `{"a":1}`), `"output_index":0,`, "", 1), ended(0, numbered(1, `{"a":1}`)), response},
		"a wrong place beside the id": {added(0, numbered(1, "")), added(1, numbered(2, "")), argsOf("fc_2", 0, `{"b":2}`), ended(0, numbered(2, `{"b":2}`)), ended(0, numbered(1, `{"a":1}`)), response},
		"the last alone streamed":     {added(0, numbered(2, "")), ended(0, numbered(2, `{"b":2}`)), response},
		"nothing in the response":     {added(5, numbered(1, "")), ended(5, numbered(1, `{"a":1}`)), added(5, numbered(2, "")), ended(5, numbered(2, `{"b":2}`)), completed},
	} {
		for _, strict := range []bool{false, true} {
			m, f, err := plays(t, events...).ask(t, openai.Options{Strict: strict})
			got := map[string]string{}
			for _, c := range m.ToolCalls() {
				got[c.ProviderID+" "+c.Name] += string(c.Arguments)
			}
			if err != nil || f.Reason != llm.StopToolCalls || len(got) != 2 || got["c1 f1"] != `{"a":1}` || got["c2 f2"] != `{"b":2}` {
				t.Errorf("%s, strict %v: %v, %v, %v", name, strict, got, f, err)
			}
		}
	}
	// Texts are, too.
	s := plays(t, added(0, begun), text(0, "One."), ended(0, said("msg_1", "One.")), added(0, strings.Replace(begun, "msg_1", "msg_2", 1)), text(0, "Tw"), text(0, "o."),
		ended(0, said("msg_2", "Two.")), `{"type":"response.completed","response":{"status":"completed","output":[`+said("msg_8", "One.")+","+said("msg_9", "Two.")+`]}}`)
	if m, _ := s.must(t); len(m.Parts) != 2 || m.Text() != "One.Two." {
		t.Errorf("%#v", m.Parts)
	}
}

// What the end of an item says of a call's arguments counts, and not what came
// in pieces before.
func TestTheEndOfAnItemWins(t *testing.T) {
	const namespace = `"namespace":"files","status"`
	for name, c := range map[string]struct{ pieces, end, want string }{
		"other arguments":      {`{"a":1}`, call("c1", "read", `{"a":2}`), `{"a":2}`},
		"more arguments":       {`{"a":`, call("c1", "read", `{"a":2}`), `{"a":2}`},
		"a first {}":           {`{}`, call("c1", "read", `{"a":2}`), `{"a":2}`},
		"none in pieces":       {``, call("c1", "read", `{"a":2}`), `{"a":2}`},
		"the same":             {`{"a":2}`, call("c1", "read", `{"a":2}`), `{"a":2}`},
		"half of a rune":       {`{"a":"\ud834`, call("c1", "read", `{"a":"𝄞"}`), `{"a":"𝄞"}`},
		"nothing said":         {`{"a":2}`, strings.Replace(call("c1", "read", ""), `,"arguments":""`, "", 1), `{"a":2}`},
		"with a special form":  {`{"a":1}`, strings.Replace(call("c1", "read", `{"a":2}`), `"status"`, namespace, 1), `{"a":2}`},
		"none at all":          {``, call("c1", "read", ""), `{}`},
		"cut off in the end":   {`{"a":2}`, call("c1", "read", `{"a":2`), ""},
		"cut off in the piece": {`{"a"`, call("c1", "read", `{"a":2}`), `{"a":2}`},
	} {
		piece := strings.ReplaceAll(args(0, c.pieces), `\\u`, `\u`)
		for _, strict := range []bool{false, true} {
			m, _, err := plays(t, added(0, call("c1", "read", "")), piece, ended(0, c.end), completed).ask(t, openai.Options{Strict: strict})
			if err != nil || len(m.ToolCalls()) != 1 {
				t.Errorf("%s, strict %v: %v, %v", name, strict, m, err)
				continue
			}
			got := m.ToolCalls()[0].Arguments
			if _, err := llm.Arguments(got); (err == nil) != (c.want != "") || err == nil && string(got) != c.want {
				t.Errorf("%s, strict %v: %s, %v, want %s", name, strict, got, err, c.want)
			}
		}
	}
}

// Some gateways cut text within a rune: by UTF-16 units, or by bytes.
func TestHalvesOfRunesInResponses(t *testing.T) {
	for _, halves := range [][]string{{`a\ud834`, `\udd1eb`}, {`a\ud834`, ``, `\udd1e`, `b`}, {"a\xf0\x9d", "\x84\x9eb"}} {
		for kind, begin := range map[string]string{
			"output_text": begun, "refusal": begun, "reasoning_summary_text": `{"type":"reasoning","id":"rs_1","summary":[]}`,
			"reasoning_text": `{"type":"reasoning","id":"rs_1","summary":[]}`, "function_call_arguments": call("c1", "read", ""),
		} {
			events := []string{added(0, begin)}
			for _, h := range halves {
				if kind == "function_call_arguments" {
					h = strings.NewReplacer("a", `{\"a\":\"a`, "b", `b\"}`).Replace(h)
				}
				events = append(events, `{"type":"response.`+kind+`.delta","output_index":0,"delta":"`+h+`"}`)
			}
			got := ""
			for e, err := range plays(t, append(events, cutOff)...).model(t, openai.Options{}).Generate(t.Context(), llm.Request{Messages: []llm.Message{llm.UserText("Go.")}}) {
				switch e := e.(type) {
				case llm.TextDelta:
					got += e.Text
				case llm.ReasoningDelta:
					got += e.Text
				case llm.ToolCallDelta:
					got += e.Arguments
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if got != "a𝄞b" && got != `{"a":"a𝄞b"}` {
				t.Errorf("%q in %s became %q", halves, kind, got)
			}
		}
	}
}

// A response that is queued, or goes on, is at no end, and why one is
// incomplete is told.
func TestWhyAResponseEnds(t *testing.T) {
	m, f := plays(t, `{"type":"response.queued","response":{"status":"queued","output":[]}}`, `{"type":"response.in_progress","response":{"status":"in_progress"}}`,
		added(0, begun), ended(0, said("msg_1", "a")), completed).must(t)
	if m.Text() != "a" || f.Reason != llm.StopEnd || f.Word != "completed" {
		t.Errorf("%v, %v", m, f)
	}
	for why, want := range map[string]llm.StopReason{"max_output_tokens": llm.StopLength, "MAX_TOKENS": llm.StopLength, "content_filter": llm.StopRefusal, "dreaming": llm.StopOther, "": llm.StopOther} {
		event := `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"` + why + `"},"output":[]}}`
		if _, f := plays(t, event).must(t); f.Reason != want || why != "" && f.Word != why {
			t.Errorf("%q: %+v", why, f)
		}
	}
	whole, half := call("c1", "read", "{}"), call("c2", "wipe", "")
	m, f = plays(t, added(0, whole), ended(0, whole), added(1, half),
		`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"dreaming"},"output":[]}}`).must(t)
	if f.Reason != llm.StopOther || f.Word != "dreaming" || len(m.ToolCalls()) != 2 {
		t.Fatalf("%v, %v", m, f)
	}
	for i, runs := range []bool{true, false} {
		if _, err := llm.Arguments(m.ToolCalls()[i].Arguments); (err == nil) != runs {
			t.Errorf("call %d: %s", i, m.ToolCalls()[i].Arguments)
		}
	}
	if _, _, err := plays(t, `{"type":"response.queued","response":{"status":"queued","output":[]}}`).ask(t, openai.Options{}); kind(err) != llm.ErrTruncated {
		t.Error(err)
	}
}

// A model that refuses doesn't mean what it calls beside that, wherever the
// refusal stands, and whatever ends the response.
func TestRefusalsInResponses(t *testing.T) {
	const no = "I can't do that."
	whole := `{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"refusal","refusal":"` + no + `"}]}`
	empty := strings.Replace(begun, "in_progress", "completed", 1)
	delta := func(s string) string {
		return `{"type":"response.refusal.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"` + s + `"}`
	}
	at := func(end, output string) string {
		return strings.Replace(end, `"output":[]`, `"output":[`+output+`]`, 1)
	}
	wipe := []string{added(1, call("c1", "wipe", "")), ended(1, call("c1", "wipe", `{"a":1}`))}
	for name, c := range map[string]struct {
		message []string
		end     string
		refuses bool
	}{
		"in the end of its item":               {[]string{added(0, begun), ended(0, whole)}, completed, true},
		"in pieces, and an end without it":     {[]string{added(0, begun), delta("I can't"), delta(" do that."), ended(0, empty)}, completed, true},
		"in pieces, and no end of its item":    {[]string{added(0, begun), delta(no)}, at(completed, empty+","+call("c1", "wipe", `{"a":1}`)), true},
		"at the end of its text":               {[]string{added(0, begun), `{"type":"response.refusal.done","output_index":0,"content_index":0,"refusal":"` + no + `"}`, ended(0, empty)}, completed, true},
		"in the response, its item being done": {[]string{added(0, begun), ended(0, empty)}, at(completed, whole+","+call("c1", "wipe", `{"a":1}`)), true},
		"in the response alone":                {nil, at(completed, whole+","+call("c1", "wipe", `{"a":1}`)), true},
		"and the limit":                        {[]string{added(0, begun), delta(no)}, cutOff, true},
		"and a reason to come":                 {[]string{added(0, begun), delta(no)}, strings.Replace(cutOff, "max_output_tokens", "dreaming", 1), true},
		"a piece that is empty":                {[]string{added(0, begun), delta(""), ended(0, said("msg_1", "Sure."))}, completed, false},
	} {
		events := c.message
		if events != nil {
			events = append(events, wipe...)
		}
		m, f, err := plays(t, append(events, c.end)...).ask(t, openai.Options{})
		if err != nil || len(m.ToolCalls()) != 1 || (f.Reason == llm.StopRefusal) != c.refuses {
			t.Errorf("%s: %q, %s, %v, %v", name, m.Text(), f.Reason, m.ToolCalls(), err)
		}
	}
}
