package modeltext

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

// CleanString replaces each invalid byte of s by U+FFFD.
func CleanString(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// CleanJSON replaces what no provider can parse by U+FFFD: invalid bytes, and
// escapes of lone surrogates such as \ud800, which name no character. All else
// stays byte for byte, numbers and white space included. Clean JSON is returned
// as it is, without a copy; what isn't JSON at all does no harm.
func CleanJSON(raw json.RawMessage) json.RawMessage {
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return raw
	}
	var out []byte
	from := 0
	for at, n := dirt(raw, 0); n > 0; at, n = dirt(raw, at+n) {
		out = append(out, raw[from:at]...)
		if raw[at] == '\\' {
			out = append(out, `\ufffd`...) // stays an escape, for a reader of ASCII
		} else {
			out = append(out, "\uFFFD"...)
		}
		from = at + n
	}
	if from == 0 {
		return raw
	}
	return append(out, raw[from:]...)
}

// dirt finds the first place from i on that must be replaced, and its length; 0
// if there is none.
func dirt(raw []byte, i int) (at, n int) {
	for i < len(raw) {
		if raw[i] != '\\' {
			r, n := utf8.DecodeRune(raw[i:])
			if r == utf8.RuneError && n == 1 {
				return i, 1
			}
			i += n
			continue
		}
		r, n := strictjson.Rune(raw[i:])
		switch {
		case n == 0:
			// Another escape: an escaped backslash must not lend its second
			// half to what follows.
			if i++; i < len(raw) && raw[i] < utf8.RuneSelf {
				i++
			}
		case r == utf8.RuneError && !strings.EqualFold(string(raw[i:i+n]), `\ufffd`):
			return i, n
		default:
			i += n
		}
	}
	return len(raw), 0
}
