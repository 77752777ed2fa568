package openai

import (
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// chatText is a piece of text. Gateways that cut text by UTF-16 units may cut a rune such as 𝄞 in two, and send "\ud834" in one piece
// and "\udd1e" in the next. Read alone, both would be lost.
type chatText struct {
	first rune // the second half of a rune, before s; 0: none
	s     string
	last  rune // the first half of a rune, after s; 0: none
}

func (t chatText) isEmpty() bool { return t == chatText{} }

func (t *chatText) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	if data[0] != '"' {
		return json.Unmarshal(data, &t.s) // for its error
	}
	*t = chatText{}
	inner := data[1 : len(data)-1]
	if u := unit(inner); 0xDC00 <= u && u < 0xE000 {
		t.first, inner = u, inner[6:]
	}
	if n := len(inner) - 6; n >= 0 {
		slashes := 0
		for n > slashes && inner[n-slashes-1] == '\\' {
			slashes++
		}
		if u := unit(inner[n:]); slashes%2 == 0 && 0xD800 <= u && u < 0xDC00 {
			t.last, inner = u, inner[:n]
		}
	}
	return json.Unmarshal(append(append([]byte{'"'}, inner...), '"'), &t.s)
}

// unit is the UTF-16 unit of the escape \uXXXX that b begins with, 0 if it begins with none.
func unit(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0
	}
	u, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(u)
}

// chatHalf is the first half of a rune that waits for the second; 0: none.
type chatHalf rune

// join is the text that a piece adds. A half that has no other is U+FFFD.
func (h *chatHalf) join(t chatText) string {
	if t.isEmpty() {
		return ""
	}
	s := t.s
	switch {
	case *h != 0 && t.first != 0:
		s = string(utf16.DecodeRune(rune(*h), t.first)) + s
	case *h != 0, t.first != 0:
		s = string(utf8.RuneError) + s
	}
	*h = chatHalf(t.last)
	return s
}

// rest is what is left when no more pieces come.
func (h *chatHalf) rest() string {
	if *h == 0 {
		return ""
	}
	*h = 0
	return string(utf8.RuneError)
}
