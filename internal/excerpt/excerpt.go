// Package excerpt cuts text short that stands in errors and in words for a
// model.
//
// The quoted part of a text that came from outside is bounded, in bytes:
// otherwise an error would be as long as what was sent. A cut is marked by
// dots.
package excerpt

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Most is how many bytes of a value are quoted.
const Most = 60

// MostWords is how many bytes are quoted of an error of others' code.
const MostWords = 800

// Of returns the beginning of a value.
func Of(s string) string { return To(s, Most) }

// Mark stands where a text is cut.
const Mark = "..."

// To returns s, or its first bytes, so many at most, and [Mark]. The result is
// valid UTF-8.
func To(s string, most int) string {
	if len(s) <= most {
		return strings.ToValidUTF8(s, "\ufffd")
	}
	return strings.ToValidUTF8(Head(s, most), "") + Mark
}

// InBrief returns a text of others, without its middle if it is long: it may
// quote all that was sent before it comes to what is wrong.
func InBrief(s string) string {
	if len(s) <= MostWords {
		return strings.ToValidUTF8(s, "\ufffd")
	}
	const half = MostWords / 2
	return strings.ToValidUTF8(Head(s, half), "") + " " + Mark + " " +
		strings.ToValidUTF8(s[len(s)-half:], "")
}

// Around returns the text before a byte, and the text from there on: of each so
// many bytes at most.
func Around(s string, at, most int) (before, after string) {
	from := max(at-most, 0)
	before, after = strings.ToValidUTF8(s[from:at], ""), To(s[at:], most)
	if from > 0 {
		before = Mark + before
	}
	return before, after
}

// Head returns the first bytes of a text, so many at most, cut between two
// characters.
func Head(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for cut := most; cut > 0 && cut > most-utf8.UTFMax; cut-- {
		if utf8.RuneStart(s[cut]) {
			return s[:cut]
		}
	}
	return s[:most] // no UTF-8
}

// Quote returns the beginning of a value as a Go string, in quotes.
func Quote(s string) string { return strconv.Quote(Of(s)) }
