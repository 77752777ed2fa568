package handles

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

// Left returns the line that stands where bytes are left out of a text.
type Left func(bytes int) string

// LeftOut is of a text that isn't kept anywhere else.
func LeftOut(bytes int) string { return fmt.Sprintf("[%d bytes left out here]", bytes) }

// LeftToFetch is of a text that a model gets whole by the action fetch.
func LeftToFetch(bytes int) string {
	return fmt.Sprintf("[%d bytes left out here; fetch has it whole]", bytes)
}

// Cut returns a text as it is, or its head and its tail with a line between
// them. What comes out is valid UTF-8, and has so many bytes at most as a JSON
// string, without the quotes. Where not even the line fits, it is the head
// alone. Invalid UTF-8 becomes U+FFFD.
func Cut(text string, most int, left Left) string { return cut(text, 0, "", most, left) }

// cut returns the two ends of a text as Cut does. Gap is how many bytes between
// them are left out already.
func cut(first string, gap int, last string, most int, left Left) string {
	first, last = valid(first), valid(last)
	all := len(first) + gap + len(last)
	line := func(n int) string { return "\n" + left(n) + "\n" }
	if gap > 0 {
		text := first + line(gap) + last
		if width(text) <= most {
			return text
		}
	} else {
		first += last
		if last = first; width(first) <= most {
			return first
		}
	}
	room := most - width(line(all))
	if room <= 0 {
		return head(first, most)
	}
	// What a short end leaves is for the other one.
	first = head(first, max((room+1)/2, room-width(last)))
	last = Tail(last, room-width(first))
	return first + line(all-len(first)-len(last)) + last
}

func valid(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// head returns the longest beginning of a text of so many bytes as JSON.
func head(s string, most int) string {
	for i, r := range s {
		if most -= runeWidth(r); most < 0 {
			return s[:i]
		}
	}
	return s
}

// Tail returns the longest end of a text of so many bytes as JSON.
func Tail(s string, most int) string {
	at := len(s)
	for at > 0 {
		r, size := utf8.DecodeLastRuneInString(s[:at])
		if most -= runeWidth(r); most < 0 {
			break
		}
		at -= size
	}
	return s[at:]
}

// width returns how many bytes a text has as a JSON string, without the quotes.
func width(s string) (n int) {
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	switch {
	case r == '"', r == '\\', r == '\b', r == '\f', r == '\n', r == '\r', r == '\t':
		return 2
	case r < ' ':
		return 6
	}
	return utf8.RuneLen(r)
}

// CutJSON returns a JSON value as it is, or, if it has more bytes, a JSON
// string with its head and tail: of the text, where it is a string, and
// otherwise of the JSON. The string has so many bytes at most, but at least its
// quotes.
func CutJSON(value json.RawMessage, most int, left Left) json.RawMessage {
	if len(value) <= most {
		return value
	}
	s, ok := isText(value)
	if !ok {
		s = string(value)
	}
	return strictjson.AppendString(nil, Cut(s, most-2, left))
}
