package llm

import (
	"bytes"
	"encoding/json"
)

// Native is a provider's own form of a part, kept byte for byte. It goes back
// to the provider that made it and to no other; others get the neutral form
// beside it. Code that edits a part takes its Native off: otherwise the
// provider may be sent what it said, and not what was made of it.
type Native struct {
	Provider string          `json:"provider"`
	Data     json.RawMessage `json:"data,omitzero"`
}

// Clone returns a native form with bytes of its own; nil stays nil.
func (n *Native) Clone() *Native {
	if n == nil {
		return nil
	}
	return &Native{Provider: n.Provider, Data: bytes.Clone(n.Data)}
}

// Opaque is a part that only its provider understands. Other providers skip it.
type Opaque struct {
	Native Native
}

// MarshalJSON encodes the part as in [Message.AppendJSON].
func (p Opaque) MarshalJSON() ([]byte, error) { return marshalPart(p) }

// UnmarshalJSON decodes what MarshalJSON wrote.
func (p *Opaque) UnmarshalJSON(b []byte) error { return unmarshalPart(b, p) }

func (p Opaque) kind() string { return "opaque" }
func (p Opaque) from() []Role { return fromBoth }

func (p Opaque) lack() string { return "" }

func (p Opaque) fields(f *pass) {
	n := &p.Native
	f.native(&n)
	switch {
	case n == nil:
		f.fail("opaque without native")
	case f.changed:
		f.out = Opaque{Native: *n}
	}
}

// Unknown is a stored part of a type that this version does not know. It
// survives a round trip unchanged.
type Unknown struct {
	Type string
	Raw  json.RawMessage // the whole part, its "type" field included
}

// MarshalJSON encodes the part as in [Message.AppendJSON].
func (p Unknown) MarshalJSON() ([]byte, error) { return marshalPart(p) }

// UnmarshalJSON decodes what MarshalJSON wrote.
func (p *Unknown) UnmarshalJSON(b []byte) error { return unmarshalPart(b, p) }

func (p Unknown) kind() string { return p.Type }
func (p Unknown) from() []Role { return fromBoth }

func (p Unknown) lack() string { return "" }

func (p Unknown) fields(f *pass) { f.unknown(p) }
