package llm

// scanner walks over JSON text (RFC 8259) in one pass, without building values: messages are decoded from, and arguments
// judged by, the very bytes. It accepts what encoding/json accepts, and says what is wrong in words that a model can act
// on. It doesn't look into UTF-8; see clean.go.
type scanner struct {
	b     []byte
	i     int // the next byte
	depth int
}

// maxDepth bounds nesting, as encoding/json does, so that hostile input can't exhaust the stack.
const maxDepth = 10000

// only reports that b isn't one JSON value with nothing but white space around it. The value is to stand depth levels deep.
func only(b []byte, depth int) error {
	s := scanner{b: b, depth: depth}
	s.space()
	if err := s.skip(); err != nil {
		return err
	}
	return s.end()
}

// end reports what follows the value that was just read.
func (s *scanner) end() error {
	if s.space(); s.i == len(s.b) {
		return nil
	}
	at := s.i
	if s.skip() == nil {
		return s.fail(at, "a second JSON value follows the first")
	}
	return s.fail(at, "text follows the JSON value")
}

// peek is the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) space() {
	for s.i < len(s.b) && isSpace(s.b[s.i]) {
		s.i++
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// value passes over a value and returns its bytes, which are the scanner's own.
func (s *scanner) value() ([]byte, error) {
	from := s.i
	err := s.skip()
	return s.b[from:s.i:s.i], err
}

// skip passes over a value, which begins at s.i.
func (s *scanner) skip() error {
	switch c := s.peek(); {
	case c == '"':
		return s.str()
	case c == '{':
		return s.object()
	case c == '[':
		return s.array()
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	}
	for _, w := range [...]string{"true", "false", "null"} {
		if n := s.i + len(w); n <= len(s.b) && string(s.b[s.i:n]) == w {
			s.i = n
			return nil
		}
	}
	return s.noValue()
}

func (s *scanner) object() error {
	if err := s.enter('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		if _, more, err := s.member(first); err != nil || !more {
			return err
		}
		if err := s.skip(); err != nil {
			return err
		}
	}
}

func (s *scanner) array() error {
	if err := s.enter('['); err != nil {
		return err
	}
	for first := true; ; first = false {
		if more, err := s.element(first); err != nil || !more {
			return err
		}
		if err := s.skip(); err != nil {
			return err
		}
	}
}

// enter passes the brace or bracket that opens an object or an array.
func (s *scanner) enter(open byte) error {
	if s.peek() != open {
		return s.fail(s.i, "not %q", open)
	}
	s.i++
	if s.depth++; s.depth > maxDepth {
		return s.fail(s.i-1, "values are nested more than %d deep", maxDepth)
	}
	return nil
}

// member passes over a member's name and colon, to its value; or over the closing brace, and then more is false. The key
// is as it stands, quotes included.
func (s *scanner) member(first bool) (key []byte, more bool, err error) {
	if more, err := s.next(first, '}'); !more {
		return nil, false, err
	}
	if s.peek() != '"' {
		return nil, false, s.noKey()
	}
	from := s.i
	if err := s.str(); err != nil {
		return nil, false, err
	}
	key = s.b[from:s.i]
	if s.space(); s.peek() != ':' {
		return nil, false, s.instead("a colon after %s", clip(key))
	}
	s.i++
	s.space()
	return key, true, nil
}

// element moves to an array's next element; or over the closing bracket, and then more is false.
func (s *scanner) element(first bool) (more bool, err error) { return s.next(first, ']') }

func (s *scanner) next(first bool, closing byte) (more bool, err error) {
	s.space()
	switch c := s.peek(); {
	case c == closing && c != 0:
		s.i++
		s.depth--
		return false, nil
	case first && s.i < len(s.b):
		return true, nil
	case !first && c == ',':
		s.i++
		if s.space(); s.peek() == closing {
			return false, s.fail(s.i, "a comma stands before the closing %c", closing)
		}
		return true, nil
	}
	if first {
		return false, s.instead("a value or %c", closing)
	}
	return false, s.instead("a comma or %c", closing)
}

// str passes over a string.
func (s *scanner) str() error {
	from := s.i
	for i := from + 1; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '"':
			s.i = i + 1
			return nil
		case c < ' ':
			return s.fail(i, "a string holds the control character %q, which must be escaped", c)
		case c == '\\':
			n := escapeLen(s.b[i:])
			if n == 0 && (i+1 == len(s.b) || s.b[i+1] == 'u' && i+6 > len(s.b)) {
				return s.fail(len(s.b), "the text ends inside the string that begins at byte %d", from)
			}
			if n == 0 {
				return s.fail(i, "a string holds a backslash that begins no JSON escape")
			}
			i += n - 1
		}
	}
	return s.fail(len(s.b), "the text ends inside the string that begins at byte %d", from)
}

func (s *scanner) number() error {
	from := s.i
	if s.peek() == '-' {
		s.i++
	}
	if s.peek() == '0' {
		s.i++
	} else if !s.digits() {
		return s.noNumber(from)
	}
	if s.peek() == '.' {
		if s.i++; !s.digits() {
			return s.noNumber(from)
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		if !s.digits() {
			return s.noNumber(from)
		}
	}
	return nil
}

// digits passes over digits, and says whether there were any.
func (s *scanner) digits() bool {
	from := s.i
	for c := s.peek(); '0' <= c && c <= '9'; c = s.peek() {
		s.i++
	}
	return s.i > from
}
