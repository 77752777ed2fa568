package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Check returns why a text isn't one JSON value, as an [*Error], or nil. Equal
// names and invalid UTF-8 are no errors of a raw value.
func Check(text []byte) error {
	if jsontext.Value(text).IsValid(tolerant) {
		return nil
	}
	return decode(text, func(d *jsontext.Decoder) error { return d.SkipValue() })
}

// Compact returns a JSON value without the white space between its tokens, and
// else as it is.
func Compact(value json.RawMessage) (json.RawMessage, error) {
	if err := Check(value); err != nil {
		return nil, err
	}
	return jsontext.AppendFormat(make([]byte, 0, len(value)), value, tolerant)
}

// maxDepth is how deep the decoder takes values that are nested.
const maxDepth = 10000

// CheckWithin is [Check] for a value that is to stand so deep within another.
func CheckWithin(value []byte, depth int) error {
	err := Check(value)
	if err != nil ||
		bytes.Count(value, []byte("{"))+bytes.Count(value, []byte("[")) <= maxDepth-depth {
		return err
	}
	whole := slices.Concat(bytes.Repeat([]byte("["), depth), value,
		bytes.Repeat([]byte("]"), depth))
	err = Check(whole)
	if at, ok := errors.AsType[*Error](err); ok {
		at.Offset = max(0, at.Offset-depth)
		at.Pointer = strings.TrimPrefix(at.Pointer, strings.Repeat("/0", depth))
	}
	return err
}

// AppendString appends s as a JSON string. What has to be escaped is, and
// nothing else. Invalid UTF-8 becomes U+FFFD, since JSON has no form for it.
func AppendString[S ~string | ~[]byte](b []byte, s S) []byte {
	b, _ = jsontext.AppendQuote(b, s) // the error is about UTF-8
	return b
}

// Unquote returns the text of a JSON string, which is given with its quotes and
// is valid. Invalid UTF-8 and halves of surrogate pairs become U+FFFD.
func Unquote(quoted []byte) string {
	if s := quoted[1 : len(quoted)-1]; bytes.IndexByte(s, '\\') < 0 && utf8.Valid(s) {
		return string(s)
	}
	b, _ := jsontext.AppendUnquote(nil, quoted) // the error is about UTF-8
	return string(b)
}

// Rune returns the rune that an escape stands for, the \uXXXX that b begins with,
// together with the one after it where the two are a surrogate pair; and how
// many bytes it has. Half a pair is U+FFFD. Where b begins with no such escape,
// size is 0.
func Rune(b []byte) (r rune, size int) {
	r, ok := Unit(b)
	switch {
	case !ok:
		return 0, 0
	case !utf16.IsSurrogate(r):
		return r, 6
	}
	if low, ok := Unit(b[6:]); ok {
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

// Unit reads the \uXXXX that b begins with: a rune, or half a surrogate pair.
func Unit(b []byte) (r rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	for _, c := range b[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
