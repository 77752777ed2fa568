package llm

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// syntaxError is a place where text isn't JSON.
type syntaxError struct {
	at      int // byte offset
	problem string
}

func (e *syntaxError) Error() string { return "at byte " + strconv.Itoa(e.at) + ", " + e.problem }

func (s *scanner) fail(at int, format string, args ...any) error {
	return &syntaxError{at, fmt.Sprintf(format, args...)}
}

func (s *scanner) noNumber(from int) error {
	if s.i == len(s.b) {
		return s.fail(s.i, "the text ends inside the number that begins at byte %d", from)
	}
	if w := word(s.b[s.i:]); w != "" {
		return s.fail(from, "%s is no JSON value", s.b[from:s.i+len(w)])
	}
	return s.instead("a digit")
}

// noValue says what stands where a value belongs.
func (s *scanner) noValue() error {
	rest := s.b[s.i:]
	switch w := word(rest); {
	case len(rest) > 0 && rest[0] == '\'':
		return s.fail(s.i, "a string is in single quotes, where JSON wants double quotes")
	case w != "" && len(w) == len(rest):
		return s.fail(s.i, "the text ends with %s, which is no JSON value", w)
	case w != "":
		return s.fail(s.i, "%s is no JSON value", w)
	}
	return s.instead("a value")
}

// noKey says what stands where a member's name belongs.
func (s *scanner) noKey() error {
	switch w := word(s.b[s.i:]); {
	case s.peek() == '\'':
		return s.fail(s.i, "a name is in single quotes, where JSON wants double quotes")
	case w != "":
		return s.fail(s.i, "the name %s is not in double quotes", w)
	}
	return s.instead("a name in double quotes")
}

// instead says what was expected at s.i, and what is there.
func (s *scanner) instead(want string, args ...any) error {
	want = fmt.Sprintf(want, args...)
	if s.i >= len(s.b) {
		return s.fail(len(s.b), "the text ends where %s is expected", want)
	}
	r, _ := utf8.DecodeRune(s.b[s.i:])
	return s.fail(s.i, "%q stands where %s is expected", r, want)
}

// clip shortens what a message quotes.
func clip(b []byte) []byte { return b[:min(len(b), 40)] }

// word is the word that b begins with.
func word(b []byte) string {
	b = clip(b)
	n := 0
	for n < len(b) && (b[n] == '_' || 'A' <= b[n] && b[n] <= 'Z' || 'a' <= b[n] && b[n] <= 'z') {
		n++
	}
	return string(b[:n])
}
