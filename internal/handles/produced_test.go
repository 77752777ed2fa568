package handles

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/internal/property"
	"github.com/fermata-ai/fermata/tool"
)

func TestProduced(t *testing.T) {
	a := strings.Repeat("a", 100)
	for _, c := range []struct {
		p           tool.Content
		ended       bool
		shown, most int
		want        string
		next        int
	}{
		{tool.Content{Total: 6, Head: "abcdef"}, false, 0, 0, "abcdef", 6},
		{tool.Content{Total: 6, Tail: "abcdef"}, false, 0, 0, "abcdef", 6},
		{tool.Content{Total: 6, Head: "abc", Tail: "def"}, false, 1, 0, "bcdef", 6},
		{tool.Content{Total: 6, Head: "abcd", Tail: "cdef"}, false, 3, 0, "def", 6},
		{tool.Content{Total: 6, Head: "abcdef", Tail: "abcdef"}, false, 0, 0, "abcdef", 6},
		{tool.Content{Total: 6, Head: "abcdef"}, false, 6, 0, "", 6},
		{tool.Content{Total: 6, Head: "abcdef"}, false, 9, 0, "", 9},
		{tool.Content{Total: 9, Head: "abc", Tail: "ghi"}, false, 0, 0,
			"abc\n[3 bytes left out here]\nghi", 9},
		{tool.Content{Total: 9, Head: "abc", Tail: "ghi"}, false, 2, 0, "c\n[3 bytes left out here]\nghi", 9},
		{tool.Content{Total: 9, Head: "abc", Tail: "ghi"}, false, 4, 0, "\n[2 bytes left out here]\nghi", 9},
		{tool.Content{Total: 9, Head: "abc", Tail: "ghi"}, false, 6, 0, "ghi", 9},
		{tool.Content{Total: 9, Head: "abc", Tail: "ghi"}, false, 8, 0, "i", 9},
		{tool.Content{Total: 9, Head: "ab\xc3", Tail: "\xa9hi"}, false, 0, 0,
			"ab\n[5 bytes left out here]\nhi", 9},
		{tool.Content{Total: 3, Head: "a\xe2\x82"}, false, 0, 0, "a", 1},
		{tool.Content{Total: 3, Head: "a\xe2", Tail: "\x82"}, false, 0, 0, "a", 1},
		{tool.Content{Total: 4, Head: "a\xe2", Tail: "\x82\xac"}, false, 1, 0, "€", 4},
		{tool.Content{Total: 3, Head: "a\xe2\x82"}, true, 0, 0, "a\ufffd", 3},
		{tool.Content{Total: 2, Head: "a\xff"}, false, 0, 0, "a\ufffd", 2},
		{tool.Content{Total: 100, Head: a}, false, 0, 50,
			a[:11] + "\n[79 bytes left out here]\n" + a[:10], 100},
		{tool.Content{Total: 300, Head: a, Tail: "zz"}, false, 0, 50,
			a[:19] + "\n[279 bytes left out here]\nzz", 300},
		{tool.Content{Total: 300, Head: "a", Tail: strings.Repeat("z", 100)}, false, 0, 50,
			"a\n[279 bytes left out here]\n" + strings.Repeat("z", 20), 300},
		{tool.Content{Total: 70, Tail: "screen", Screen: true}, false, 70, 0, "screen", 70},
		{tool.Content{}, false, 0, 0, "", 0},
	} {
		got, next := Since(&c.p, c.ended, c.shown, c.most)
		if got != c.want || next != c.next {
			t.Errorf("%+v since %d: got %q, %d, want %q, %d", c.p, c.shown, got, next, c.want,
				c.next)
		}
	}
}

// Whatever pieces a text comes in, the replies together have all of it, with no
// character cut in two.
func TestProducedInPieces(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		text := strings.ToValidUTF8(anyText.Draw(t, "text"), "")
		var got strings.Builder
		shown := 0
		for _, at := range rapid.SliceOf(rapid.IntRange(0, len(text))).Draw(t, "cuts") {
			so := text[:max(at, shown)]
			head := rapid.IntRange(0, len(so)).Draw(t, "head")
			p := tool.Content{Total: len(so), Head: so[:head], Tail: so[head:]}
			var s string
			s, shown = Since(&p, false, shown, 0)
			got.WriteString(s)
		}
		s, next := Since(&tool.Content{Total: len(text), Head: text}, true, shown, 0)
		got.WriteString(s)
		if next != len(text) || got.String() != text {
			t.Fatalf("%d of %d bytes; %q has become %q", next, len(text), text, got.String())
		}
	})
}

// Whatever is kept of it, what is shown is valid, within its bound, begins and
// ends as what is new does, and tells of each byte that is missing.
func TestProducedInPart(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		text := strings.ToValidUTF8(anyText.Draw(t, "text"), "")
		p := tool.Content{Total: len(text)}
		p.Head = text[:rapid.IntRange(0, len(text)).Draw(t, "head")]
		p.Tail = text[rapid.IntRange(0, len(text)).Draw(t, "tail"):]
		most := rapid.IntRange(60, 400).Draw(t, "most")
		got, next := Since(&p, true, 0, most)
		if !utf8.ValidString(got) || width(got) > most || next != len(text) {
			t.Fatalf("%d bytes of %d, %d shown: %q", width(got), most, next, got)
		}
		if got == text {
			return
		}
		for n := range len(text) + 1 {
			before, after, ok := strings.Cut(got, "\n"+LeftOut(n)+"\n")
			if ok && len(before)+len(after)+n == len(text) &&
				strings.HasPrefix(text, before) && strings.HasSuffix(text, after) {
				return
			}
		}
		t.Fatalf("of %q there is %q", text, got)
	})
}
