package strictjson

import "bytes"

// scanner passes JSON values, byte by byte, by the grammar of RFC 8259. It
// accepts what the decoder does: invalid UTF-8, halves of surrogate pairs and
// equal names too.
type scanner struct {
	text  []byte
	at    int // the byte that comes next
	depth int // how many more levels may be entered
}

// next returns the byte that comes next; 0 at the end, which begins nothing.
func (s *scanner) next() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

func space(text []byte, at int) int {
	for at < len(text) &&
		(text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r') {
		at++
	}
	return at
}

// value passes a value, without white space around it.
func (s *scanner) value() bool {
	switch c := s.next(); c {
	case '"':
		return s.string()
	case '{':
		return s.within('}')
	case '[':
		return s.within(']')
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	return s.number()
}

// within passes an object or an array, by the byte that it ends with.
func (s *scanner) within(end byte) bool {
	if s.depth--; s.depth < 0 {
		return false
	}
	s.at = space(s.text, s.at+1)
	for first := true; s.next() != end; first = false {
		if !first && !s.separator(',') || end == '}' && !s.name() || !s.value() {
			return false
		}
		s.at = space(s.text, s.at)
	}
	s.at++
	s.depth++
	return true
}

// name passes a member's name, and the colon.
func (s *scanner) name() bool {
	if s.next() != '"' || !s.string() {
		return false
	}
	s.at = space(s.text, s.at)
	return s.separator(':')
}

// separator passes c, and the white space behind it.
func (s *scanner) separator(c byte) bool {
	if s.next() != c {
		return false
	}
	s.at = space(s.text, s.at+1)
	return true
}

// string passes a string, at whose first quote it stands.
func (s *scanner) string() bool {
	for at := s.at + 1; at < len(s.text); at++ {
		switch c := s.text[at]; {
		case c == '"':
			s.at = at + 1
			return true
		case c < ' ':
			return false
		case c != '\\':
		case at+1 < len(s.text) && bytes.IndexByte([]byte(`"\/bfnrt`), s.text[at+1]) >= 0:
			at++
		default:
			if _, ok := Unit(s.text[at:]); !ok {
				return false
			}
			at += 5
		}
	}
	return false
}

func (s *scanner) literal(word string) bool {
	if !bytes.HasPrefix(s.text[s.at:], []byte(word)) {
		return false
	}
	s.at += len(word)
	return true
}

func (s *scanner) number() bool {
	if s.next() == '-' {
		s.at++
	}
	switch {
	case s.next() == '0':
		s.at++
	case !s.digits():
		return false
	}
	if s.next() == '.' {
		if s.at++; !s.digits() {
			return false
		}
	}
	if c := s.next(); c == 'e' || c == 'E' {
		if s.at++; s.next() == '+' || s.next() == '-' {
			s.at++
		}
		return s.digits()
	}
	return true
}

// digits passes one or more.
func (s *scanner) digits() bool {
	start := s.at
	for isDigit(s.next()) {
		s.at++
	}
	return s.at > start
}
