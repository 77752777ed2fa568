package llm

import (
	"bytes"
	"fmt"
)

// UnmarshalJSON decodes what AppendJSON wrote, by this version or another: part types that it doesn't know become
// [Unknown], members that it doesn't know become [Message.Extra]. The message doesn't share memory with b.
func (m *Message) UnmarshalJSON(b []byte) error {
	s := scanner{b: b}
	if s.space(); isNull(b[s.i:]) {
		return nil // by convention
	}
	out, err := s.message()
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return fmt.Errorf("llm: message: %w", err)
	}
	*m = out
	return nil
}

func isNull(b []byte) bool { return string(bytes.TrimRight(b, " \n\r\t")) == "null" }

func (s *scanner) message() (m Message, err error) {
	if err := s.enter('{'); err != nil {
		return m, err
	}
	for first := true; ; first = false {
		key, more, err := s.member(first)
		if err != nil || !more {
			return closeExtra(m), err
		}
		switch string(canonical(key)) {
		case `"role"`:
			m.Role, err = s.role()
		case `"parts"`:
			m.Parts, err = s.parts()
		default:
			err = s.extra(&m, key)
		}
		if err != nil {
			return m, err
		}
	}
}

func (s *scanner) role() (Role, error) {
	v, err := s.value()
	if err != nil {
		return "", err
	}
	switch string(v) { // the known ones take no memory
	case `"user"`:
		return RoleUser, nil
	case `"assistant"`:
		return RoleAssistant, nil
	case `"tool"`:
		return RoleTool, nil
	}
	role, err := str("role", v)
	return Role(role), err
}

// extra keeps a member that this version doesn't know.
func (s *scanner) extra(m *Message, key []byte) error {
	v, err := s.value()
	sep := byte(',')
	if len(m.Extra) == 0 {
		sep = '{'
	}
	m.Extra = append(append(append(m.Extra, sep), key...), ':')
	m.Extra = append(m.Extra, v...)
	return err
}

func closeExtra(m Message) Message {
	if len(m.Extra) > 0 {
		m.Extra = append(m.Extra, '}')
	}
	return m
}

func (s *scanner) parts() (parts []Part, err error) {
	if s.peek() == 'n' {
		return nil, s.skip()
	}
	if err := s.enter('['); err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		if more, err := s.element(first); err != nil || !more {
			return parts, err
		}
		p, err := s.part()
		if err != nil {
			return nil, fmt.Errorf("parts[%d]: %w", len(parts), err)
		}
		parts = append(parts, p)
	}
}
