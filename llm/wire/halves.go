package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

// Piece is a JSON string that may be a piece of a longer text. What cuts text
// by UTF-16 units, or by bytes, may cut a rune such as 𝄞 in two: "\ud834" ends
// one event, and "\udd1e" begins the next. encoding/json replaces each half by
// U+FFFD, a Piece keeps it, and [Halves] joins the two.
//
// A half of a surrogate pair is kept as the three bytes that UTF-8 has no use
// for (WTF-8, https://simonsapin.github.io/wtf-8/), a half of a rune's bytes as
// it came. So a Piece is no text to be shown or stored.
type Piece string

// UnmarshalJSON takes a string, or null, which leaves the piece as it is.
func (p *Piece) UnmarshalJSON(data []byte) error {
	switch {
	case string(data) == "null":
		return nil
	case len(data) < 2 || data[0] != '"':
		return json.Unmarshal(data, (*string)(p)) // for its error
	}
	rest := data[1 : len(data)-1]
	plain := bytes.IndexByte(rest, '\\')
	if plain < 0 {
		*p = Piece(rest)
		return nil
	}
	text := make([]byte, 0, len(rest))
	for ; plain >= 0; plain = bytes.IndexByte(rest, '\\') {
		text = append(text, rest[:plain]...)
		rest = rest[plain:]
		r, n, err := unescape(rest)
		if err != nil {
			return err
		}
		text, rest = appendUnit(text, r), rest[n:]
	}
	*p = Piece(append(text, rest...))
	return nil
}

// unescape returns the rune, or the half of one, of the escape that b begins
// with, and its length.
func unescape(b []byte) (r rune, n int, err error) {
	if u, ok := strictjson.Unit(b); ok {
		if r, n := strictjson.Rune(b); n == 12 {
			return r, n, nil
		}
		return u, 6, nil
	}
	var s string
	err = json.Unmarshal([]byte{'"', b[0], b[1], '"'}, &s)
	r, _ = utf8.DecodeRuneInString(s)
	return r, 2, err
}

func appendUnit(b []byte, r rune) []byte {
	if utf16.IsSurrogate(r) {
		return append(b, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
	}
	return utf8.AppendRune(b, r)
}

// Halves joins the pieces of one text. Its zero value is ready. Texts that are
// written side by side need one each.
type Halves struct {
	half string // what the pieces so far ended with, and may be the first half of a rune
}

// Join returns the text that a piece adds. It is valid UTF-8: a half that has
// no other is U+FFFD.
func (h *Halves) Join(p Piece) string {
	if p == "" || h.half == "" && utf8.ValidString(string(p)) {
		return string(p)
	}
	rest := h.half + string(p)
	h.half = ""
	var text strings.Builder
	for rest != "" {
		r, n := utf8.DecodeRuneInString(rest)
		if u := surrogate(rest); u != 0 {
			if r, n = utf16.DecodeRune(u, surrogate(rest[3:])), 6; r == utf8.RuneError {
				n = 3
			}
		}
		if r == utf8.RuneError && isFirstHalf(rest) {
			h.half = rest
			break
		}
		text.WriteRune(r)
		rest = rest[n:]
	}
	return text.String()
}

// Rest returns what is left when the text has ended: U+FFFD for a half that
// waits, and otherwise nothing.
func (h *Halves) Rest() string {
	half := h.half
	h.half = ""
	if half == "" {
		return ""
	}
	return string(utf8.RuneError)
}

// surrogate returns the half of a surrogate pair that s begins with, 0 if it
// begins with none.
func surrogate(s string) rune {
	if len(s) < 3 || s[0] != 0xED || s[1] < 0xA0 || s[1] > 0xBF || s[2]&0xC0 != 0x80 {
		return 0
	}
	return rune(s[0]&0xF)<<12 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F)
}

// isFirstHalf reports whether s is no more than the beginning of a rune.
func isFirstHalf(s string) bool {
	u := surrogate(s)
	return u != 0 && u < 0xDC00 && len(s) == 3 || !utf8.FullRuneInString(s)
}
