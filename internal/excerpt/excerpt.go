// Package excerpt cuts text short that an error, or a model, is told of.
//
// What is quoted of a text that came from outside is bounded, in bytes:
// otherwise an error would tell as much as was sent. What is cut off is marked.
package excerpt

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Most is how many bytes of a value are quoted.
const Most = 60

// MostWords is how many bytes are quoted of what code of others says about a
// value.
const MostWords = 800

// Of quotes the beginning of a value.
func Of(s string) string { return To(s, Most) }

// To returns s, or its first bytes, so many at most, and "...". The result is
// valid UTF-8.
func To(s string, most int) string {
	if len(s) <= most {
		return strings.ToValidUTF8(s, "\ufffd")
	}
	return strings.ToValidUTF8(Head(s, most), "") + "..."
}

// InBrief takes the middle out of a text of others that is long: they may quote
// all that was sent, before they say what is wrong with it.
func InBrief(s string) string {
	if len(s) <= MostWords {
		return strings.ToValidUTF8(s, "\ufffd")
	}
	const half = MostWords / 2
	return strings.ToValidUTF8(Head(s, half), "") + " ... " +
		strings.ToValidUTF8(s[len(s)-half:], "")
}

// Head returns the first bytes of a text, so many at most, and does not cut
// through a character.
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

// Quote quotes the beginning of a value, in quotes.
func Quote(s string) string { return strconv.Quote(Of(s)) }
