package tool

import (
	"unicode/utf16"
	"unicode/utf8"
)

// str parses a string. One without escapes is a part of the text.
func (p *parser) str() (string, *syntaxError) {
	start := p.i
	p.i++ // "
	ascii := true
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case c == '"':
			s := p.s[start+1 : p.i]
			p.i++
			if !ascii && !utf8.ValidString(s) {
				s = string([]rune(s)) // U+FFFD for each byte that is wrong, as in encoding/json
			}
			return s, nil
		case c == '\\':
			return p.escaped(start)
		case c < ' ':
			return "", p.fail(p.i, "a string holds the control character %q unescaped", c)
		default:
			ascii = ascii && c < utf8.RuneSelf
			p.i++
		}
	}
	return "", p.fail(start, "a string begins here and does not end")
}

// escaped parses a string that holds escapes, from its start, in the way of encoding/json: what is no valid Unicode becomes
// U+FFFD.
func (p *parser) escaped(start int) (string, *syntaxError) {
	p.i = start + 1
	var b []byte
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case c == '"':
			p.i++
			return string(b), nil
		case c == '\\':
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			b = utf8.AppendRune(b, r)
		case c < ' ':
			return "", p.fail(p.i, "a string holds the control character %q unescaped", c)
		case c < utf8.RuneSelf:
			b = append(b, c)
			p.i++
		default:
			r, n := utf8.DecodeRuneInString(p.s[p.i:])
			b = utf8.AppendRune(b, r)
			p.i += n
		}
	}
	return "", p.fail(start, "a string begins here and does not end")
}

const simple = `""\\//b` + "\b" + `f` + "\f" + `n` + "\n" + `r` + "\r" + `t` + "\t" // pairs: what follows the backslash, and what it means

// escape parses an escape, a surrogate pair included.
func (p *parser) escape() (rune, *syntaxError) {
	if p.i+1 < len(p.s) {
		if c := p.s[p.i+1]; c != 'u' {
			for j := 0; j < len(simple); j += 2 {
				if simple[j] == c {
					p.i += 2
					return rune(simple[j+1]), nil
				}
			}
			return 0, p.fail(p.i, "a string holds the unknown escape \\%c", c)
		}
	}
	r, ok := p.hex()
	if !ok {
		return 0, p.fail(p.i, "a string holds an escape that is cut off")
	}
	p.i += 6
	if !utf16.IsSurrogate(r) {
		return r, nil
	}
	if low, ok := p.hex(); ok {
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			p.i += 6
			return pair, nil
		}
	}
	return utf8.RuneError, nil
}

// hex reads \uXXXX without moving on.
func (p *parser) hex() (rune, bool) {
	if len(p.s) < p.i+6 || p.s[p.i] != '\\' || p.s[p.i+1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range []byte(p.s[p.i+2 : p.i+6]) {
		switch {
		case isDigit(c):
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
