package llm

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/internal/property"
)

func TestMessageClean(t *testing.T) {
	bad, good := "a\xff", "a\uFFFD"
	badRaw, goodRaw := raw(`"\ud800"`), raw(`"\ufffd"`)
	fill := func(s string, r json.RawMessage) Message {
		n := func() *Native { return &Native{Provider: s, Data: r} }
		return Message{Role: RoleUser, Extra: r, Parts: []Part{
			Text{Text: "fine"}, Text{s, n()}, Reasoning{s, n()}, ToolCall{s, s, r, s, n()}, ToolResult{s, s, r, true, []Media{{Name: "fine"}, {s, s, []byte{0xff}, s, n()}}},
			Media{s, s, []byte{0xff}, s, n()}, Opaque{*n()}, Unknown{s, r}, nil,
		}}
	}
	m := fill(bad, badRaw)
	if d := cmp.Diff(fill(good, goodRaw), m.Clean()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if d := cmp.Diff(fill(bad, badRaw), m); d != "" {
		t.Errorf("the original was changed (-want +got):\n%s", d)
	}
}

func TestMessageCleanFindsEachField(t *testing.T) {
	bad, badRaw := "\xff", raw(`"\ud800"`)
	for i, p := range []Part{
		Text{Text: bad}, Text{Native: &Native{Provider: bad}}, Text{Native: &Native{Data: badRaw}},
		Reasoning{Text: bad}, Reasoning{Native: &Native{Data: badRaw}},
		ToolCall{ID: bad}, ToolCall{Name: bad}, ToolCall{Arguments: badRaw}, ToolCall{ProviderID: bad}, ToolCall{Native: &Native{Data: badRaw}},
		Notice{Text: bad}, Notice{Handle: bad}, ToolResult{Call: bad}, ToolResult{Name: bad}, ToolResult{Output: badRaw}, ToolResult{Media: []Media{{Name: bad}}},
		Media{MediaType: bad}, Media{Name: bad}, Media{URL: bad}, Media{Native: &Native{Data: badRaw}},
		Opaque{Native{Provider: bad}}, Opaque{Native{Data: badRaw}},
		Unknown{Type: bad}, Unknown{Raw: badRaw},
	} {
		m := Message{Parts: []Part{p}}
		if got := m.Clean(); cmp.Equal(got, m) {
			t.Errorf("%d: %#v was left as it is", i, p)
		}
	}
}

func TestCleanLeavesCleanMessagesAlone(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		m := anyMessage().Draw(t, "message")
		if got := m.Clean(); !cmp.Equal(m, got) || len(m.Parts) > 0 && &m.Parts[0] != &got.Parts[0] {
			t.Fatal("changed or copied")
		}
	})
}
