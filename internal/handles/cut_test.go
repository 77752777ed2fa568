package handles

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/internal/property"
	"github.com/fermata-ai/fermata/internal/strictjson"
)

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abc", 2, "ab"}, {"abc", 0, ""}, {"abc", -1, ""},
		{strings.Repeat("a", 50) + strings.Repeat("b", 50), 50,
			"aaaaaaaaaaa\n[79 bytes left out here]\nbbbbbbbbbb"},
		{strings.Repeat("é", 50), 50, "ééééé\n[80 bytes left out here]\nééééé"},
		{"a\xffb", 5, "a\ufffdb"},
	} {
		if got := Cut(c.text, c.most, LeftOut); got != c.want {
			t.Errorf("%q to %d: got %q, want %q", c.text, c.most, got, c.want)
		}
	}
	long := raw(`{"a":"` + strings.Repeat("x", 100) + `"}`)
	if got := string(CutJSON(long, 80, LeftToFetch)); got !=
		`"{\"a\":\"xxxxxx\n[83 bytes left out here; fetch has it whole]\nxxxxxxxxxxx\"}"` {
		t.Errorf("%s", got)
	}
	if got := string(CutJSON(long, 1000, LeftToFetch)); got != string(long) {
		t.Errorf("%s", got)
	}
}

// anyText is characters of all widths, with bytes that are no UTF-8.
var anyText = rapid.Custom(func(t *rapid.T) string {
	piece := rapid.SampledFrom([]string{"a", "\n", "\x1b", `"`, `\`, "é", "€", "😀", "\xff",
		"\xe2\x82", "<", "\u2028", "\x7f"})
	return strings.Join(rapid.SliceOfN(piece, 0, 300).Draw(t, "pieces"), "")
})

// A text that is cut is valid, has what it may have, and has as much of the
// head as of the tail.
func TestCutKeepsHeadAndTail(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		text, most := anyText.Draw(t, "text"), rapid.IntRange(-1, 400).Draw(t, "most")
		got := Cut(text, most, LeftOut)
		long := len(strictjson.AppendString(nil, got)) - 2
		clean := strings.ToValidUTF8(text, "\ufffd")
		if !utf8.ValidString(got) || long > max(most, 0) || long != width(got) {
			t.Fatalf("%d bytes of %d: %q", long, most, got)
		}
		if len(strictjson.AppendString(nil, clean))-2 <= most {
			if got != clean {
				t.Fatalf("it would fit, and is cut: %q", got)
			}
			return
		}
		room := most - width("\n"+LeftOut(len(clean))+"\n")
		if room <= 0 {
			if !strings.HasPrefix(clean, got) || most-long > 6 {
				t.Fatalf("%q is no head of so many bytes", got)
			}
			return
		}
		for n := range len(clean) + 1 {
			before, after, ok := strings.Cut(got, "\n"+LeftOut(n)+"\n")
			if !ok || len(before)+len(after)+n != len(clean) {
				continue
			}
			if strings.HasPrefix(clean, before) && strings.HasSuffix(clean, after) &&
				width(before) > room/2-6 && width(after) > room/2-6 {
				return
			}
		}
		t.Fatalf("it has not the head and the tail, or another number: %q", got)
	})
}

// A result that is cut stays JSON, within its bound.
func TestCutJSON(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		text, most := anyText.Draw(t, "text"), rapid.IntRange(0, 400).Draw(t, "most")
		value := strictjson.AppendString(nil, text)
		if rapid.Bool().Draw(t, "object") {
			value = append(append([]byte(`{"a":`), value...), '}')
		}
		got := CutJSON(value, most, LeftToFetch)
		if !json.Valid(got) || len(got) > max(most, 2) {
			t.Fatalf("%d bytes of %d: %s", len(got), most, got)
		}
		if len(value) <= most && string(got) != string(value) {
			t.Fatalf("it would fit, and is cut: %s", got)
		}
	})
}
