package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/internal/property"
	"github.com/fermata-ai/fermata/llm"
)

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func TestResultText(t *testing.T) {
	for _, c := range []struct {
		output string
		failed bool
		want   string
		marked string
	}{
		{`"It is \"warm\"\n"`, false, "It is \"warm\"\n", "It is \"warm\"\n"},
		{`"no"`, true, "no", "Error: no"},
		{`"Error: no"`, true, "Error: no", "Error: no"},
		{`{"n": 9007199254740993}`, false, `{"n": 9007199254740993}`, `{"n": 9007199254740993}`},
		{`{"a":"\u003cb\u003e"}`, false, `{"a":"<b>"}`, `{"a":"<b>"}`},
		{`null`, false, `null`, `null`},
		{``, false, ``, ``},
		{`{"$ref":"#/x"}`, true, `{"$ref":"#/x"}`, `Error: {"$ref":"#/x"}`},
	} {
		r := llm.ToolResult{Output: raw(c.output), Error: c.failed}
		if got, marked := ResultText(r, false), ResultText(r, true); got != c.want || marked != c.marked {
			t.Errorf("%s: %q, %q", c.output, got, marked)
		}
	}
}

func TestArgumentsAreAnObject(t *testing.T) {
	for in, want := range map[string]string{
		`{"n": 9007199254740993}`:     `{"n": 9007199254740993}`,
		``:                            `{}`,
		`null`:                        `{}`,
		`"{\"city\":\"Os"`:            `{"arguments":"{\"city\":\"Os"}`,
		`[1]`:                         `{"arguments":[1]}`,
		`"{\"n\": 9007199254740993}"`: `{"n": 9007199254740993}`,
		`"(cut off)"`:                 `{"arguments":"(cut off)"}`,
	} {
		if got := Arguments(llm.ToolCall{Arguments: raw(in)}); string(got) != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestIDs(t *testing.T) {
	turn := func(ids ...string) llm.Message {
		m := llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text{Text: "x"}}}
		for _, id := range ids {
			own, theirs, _ := strings.Cut(id, "=")
			m.Parts = append(m.Parts, llm.ToolCall{ID: own, ProviderID: theirs})
		}
		return m
	}
	form := Form{Max: 12, Also: "_-"}
	ids := NewIDs([]llm.Message{
		turn("call_1=call_0", "call_2=tool:0", "call_3="),
		turn("call_4=call_0", "call_5=call_5", "call_6=a_very_long_id"),
		turn("a_long_call_7=", "b_long_call_7="),
	}, form)
	for call, want := range map[string]string{
		"call_1": "call_0", "call_2": "call_2", "call_3": "call_3", "call_4": "call_4", "call_5": "call_5", "call_6": "call_6",
		"a_long_call_7": "_long_call_7", "b_long_call_7": "_long_call_0", "unknown": "unknown",
	} {
		if got := ids.Of(call); got != want {
			t.Errorf("%s is %q on the wire, want %q", call, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	form := Form{Max: 8, Also: "_-"}
	for name, want := range map[string]string{"a-b_C9": "a-b_C9", "a.b c": "a_b_c", "é𝄞": "__", "": "unnamed", "123456789": "12345678"} {
		if got := form.Name(name); got != want || form.Fits(name) != (got == name) {
			t.Errorf("%q is called %q, want %q", name, got, want)
		}
	}
}

func TestIDsAreUniqueFitAndStay(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		form := Form{Max: rapid.IntRange(3, 40).Draw(t, "max"), Also: rapid.SampledFrom([]string{"", "_-"}).Draw(t, "also")}
		theirs := rapid.SampledFrom([]string{"", "call_0", "0", "c0", "tool:0", "é", strings.Repeat("x", 50)})
		var messages []llm.Message
		for i := range rapid.IntRange(1, 12).Draw(t, "calls") {
			c := llm.ToolCall{ID: strings.Repeat("call_", i%3) + string(rune('a'+i)), ProviderID: theirs.Draw(t, "id")}
			messages = append(messages, llm.Message{Parts: []llm.Part{c}})
		}
		all := NewIDs(messages, form)
		seen := map[string]bool{}
		for i, m := range messages {
			id := all.Of(m.ToolCalls()[0].ID)
			if !form.Fits(id) || seen[id] {
				t.Fatalf("%q doesn't fit, or comes twice", id)
			}
			seen[id] = true
			if before := NewIDs(messages[:i+1], form).Of(m.ToolCalls()[0].ID); before != id {
				t.Fatalf("the id was %q, and is %q when the history has grown", before, id)
			}
		}
	})
}

// later is a message that holds a part as a kind to come would: with methods of
// its own, and no adapter knows its type.
type later struct{ llm.Text }

// What an adapter doesn't know is left out of history, and no request fails for
// it. The user's newest message fails: the user can mend it.
func TestPartsOfKindsToComeAreLeftOut(t *testing.T) {
	part := later{llm.Text{Text: "a"}}
	for _, c := range []struct {
		role llm.Role
		part llm.Part
		old  bool
		out  bool
	}{
		{llm.RoleUser, part, true, true}, {llm.RoleUser, part, false, false}, {llm.RoleAssistant, part, false, true}, {llm.RoleTool, part, true, false},
		{llm.RoleUser, llm.Unknown{}, false, true}, {llm.RoleTool, llm.Unknown{}, false, true}, {llm.RoleTool, llm.Opaque{}, false, true},
		{llm.RoleUser, llm.ToolCall{Arguments: []byte("{}")}, true, false}, {llm.RoleUser, nil, true, false},
	} {
		if err := LeftOut(c.role, c.part, c.old); (err == nil) != c.out {
			t.Errorf("%T of %s, old: %v: %v", c.part, c.role, c.old, err)
		}
	}
}
