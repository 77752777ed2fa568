package strictjson

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/internal/excerpt"
)

// The words about a text that is no JSON. The decoder's own words are for the
// authors of programs, and change from one version to the next. So when it has
// stopped, the few bytes after the last good token are looked at again. Nothing
// here decides what is JSON.

// wanted is what may follow the last good token.
type wanted int

const (
	valueOnly   wanted = iota // a value
	element                   // a comma and a value, or the end of the array
	memberValue               // a colon and a value
	firstName                 // a name, or the end of the object
	nextName                  // a comma and a name, or the end of the object
)

// instead fails with what stands after a token, at a byte of the text, where
// something else is wanted.
func (p *parser) instead(after int, want wanted, key string) bool {
	w := words{p: p, at: after}
	w.space()
	switch {
	case want == element && !w.pass(','):
		return w.between("',' or ']' is expected")
	case want == nextName && !w.pass(','):
		return w.between("',' or '}' is expected")
	case want == memberValue && !w.pass(':'):
		return w.between(fmt.Sprintf("':' is expected after the key %q", excerpt.Of(key)))
	}
	switch name := want == firstName || want == nextName; {
	case w.next() == '"':
		return w.badString()
	case name:
		return w.expected("a key in double quotes is expected")
	case w.next() == '-' || isDigit(w.next()):
		return w.badNumber()
	case w.at == len(p.text) && after == 0:
		return p.fail(w.at, "it is empty: a JSON value is expected")
	}
	return w.expected("a JSON value is expected")
}

// trailing fails with what follows the value.
func (p *parser) trailing() bool {
	rest := strings.TrimLeft(p.text[p.end:], " \t\r\n")
	return p.fail(len(p.text)-len(rest), "there is text after the end of the JSON value: %s",
		excerpt.Quote(rest))
}

// words looks for what is wrong at a byte of the text.
type words struct {
	p  *parser
	at int
}

// next returns the next byte; 0 at the end.
func (w *words) next() byte {
	if w.at < len(w.p.text) {
		return w.p.text[w.at]
	}
	return 0
}

func (w *words) pass(c byte) bool {
	if w.next() != c {
		return false
	}
	w.at++
	w.space()
	return true
}

func (w *words) space() {
	for w.at < len(w.p.text) && strings.IndexByte(" \t\r\n", w.next()) >= 0 {
		w.at++
	}
}

// between fails with what stands between two parts of an array or object.
func (w *words) between(what string) bool {
	w.p.between = true
	return w.expected(what)
}

// expected fails with what stands where something else is expected.
func (w *words) expected(what string) bool {
	found := "the text ends"
	if r, n := utf8.DecodeRuneInString(w.p.text[w.at:]); r == '\ufeff' {
		found = "a byte order mark stands"
	} else if n > 0 {
		found = fmt.Sprintf("%q stands", r)
	}
	return w.p.fail(w.at, "%s where %s", what, found)
}

// badString fails with what is wrong in the string that begins here.
func (w *words) badString() bool {
	start := w.at
	for w.at++; w.at < len(w.p.text); w.at++ {
		switch c := w.next(); {
		case c == '"':
			return w.p.fail(start, "a string is not as JSON has it")
		case c < ' ':
			return w.p.fail(w.at, "a string holds the control character %q unescaped", c)
		case c == '\\':
			if !w.escape() {
				return false
			}
		}
	}
	return w.p.fail(start, "a string begins here and does not end")
}

// escape passes an escape but for its last byte.
func (w *words) escape() bool {
	rest := w.p.text[w.at+1:]
	switch {
	case rest == "":
		return true
	case strings.IndexByte(`"\/bfnrt`, rest[0]) >= 0:
		w.at++
		return true
	case rest[0] != 'u':
		return w.p.fail(w.at, "a string holds the unknown escape \\%c", rest[0])
	}
	if _, ok := Unit([]byte(w.p.text[w.at:min(len(w.p.text), w.at+6)])); !ok {
		return w.p.fail(w.at, "a string holds an escape that is cut off")
	}
	w.at += 5
	return true
}

// badNumber fails with what stands where the number that begins here wants a
// digit.
func (w *words) badNumber() bool {
	w.pass1("-")
	if !w.pass1("0") {
		w.digits()
	}
	if isDigit(w.p.text[w.at-1]) && w.pass1(".") {
		w.digits()
	}
	if isDigit(w.p.text[w.at-1]) && w.pass1("eE") {
		w.pass1("+-")
	}
	return w.expected("a digit is expected")
}

// pass1 passes one of some bytes.
func (w *words) pass1(any string) bool {
	ok := w.at < len(w.p.text) && strings.IndexByte(any, w.next()) >= 0
	if ok {
		w.at++
	}
	return ok
}

func (w *words) digits() {
	for isDigit(w.next()) {
		w.at++
	}
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
