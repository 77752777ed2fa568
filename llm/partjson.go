package llm

import "fmt"

// A part by itself, in a record of calls, say, has the same JSON form as in a message.

// MarshalJSON encodes the part as in [Message.AppendJSON].
func (p Text) MarshalJSON() ([]byte, error) { return marshalPart(p) }

// MarshalJSON encodes the part as in [Message.AppendJSON].
func (p Reasoning) MarshalJSON() ([]byte, error) { return marshalPart(p) }

// MarshalJSON encodes the part as in [Message.AppendJSON].
func (p ToolCall) MarshalJSON() ([]byte, error) { return marshalPart(p) }

// MarshalJSON encodes the part as in [Message.AppendJSON].
func (p ToolResult) MarshalJSON() ([]byte, error) { return marshalPart(p) }

// MarshalJSON encodes the part as in [Message.AppendJSON].
func (p Media) MarshalJSON() ([]byte, error) { return marshalPart(p) }

// MarshalJSON encodes the part as in [Message.AppendJSON].
func (p Opaque) MarshalJSON() ([]byte, error) { return marshalPart(p) }

// MarshalJSON encodes the part as in [Message.AppendJSON].
func (p Unknown) MarshalJSON() ([]byte, error) { return marshalPart(p) }

// UnmarshalJSON decodes what MarshalJSON wrote.
func (p *Text) UnmarshalJSON(b []byte) error { return unmarshalPart(b, p) }

// UnmarshalJSON decodes what MarshalJSON wrote.
func (p *Reasoning) UnmarshalJSON(b []byte) error { return unmarshalPart(b, p) }

// UnmarshalJSON decodes what MarshalJSON wrote.
func (p *ToolCall) UnmarshalJSON(b []byte) error { return unmarshalPart(b, p) }

// UnmarshalJSON decodes what MarshalJSON wrote.
func (p *ToolResult) UnmarshalJSON(b []byte) error { return unmarshalPart(b, p) }

// UnmarshalJSON decodes what MarshalJSON wrote.
func (p *Media) UnmarshalJSON(b []byte) error { return unmarshalPart(b, p) }

// UnmarshalJSON decodes what MarshalJSON wrote.
func (p *Opaque) UnmarshalJSON(b []byte) error { return unmarshalPart(b, p) }

// UnmarshalJSON decodes what MarshalJSON wrote.
func (p *Unknown) UnmarshalJSON(b []byte) error { return unmarshalPart(b, p) }

func marshalPart(p Part) ([]byte, error) {
	w := writer{b: make([]byte, 0, partSize(p)), depth: 4}
	if w.part(p); w.err != nil {
		return nil, fmt.Errorf("llm: %w", w.err)
	}
	return w.b, nil
}

func unmarshalPart[P Part](b []byte, into *P) error {
	s := scanner{b: b}
	if s.space(); isNull(b[s.i:]) {
		return nil // by convention
	}
	p, err := s.part()
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return fmt.Errorf("llm: %w", err)
	}
	got, ok := p.(P)
	if !ok {
		return fmt.Errorf("llm: %T, where %T is expected", p, *into)
	}
	*into = got
	return nil
}
