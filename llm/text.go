package llm

import "strings"

// Text is plain text, by a user or by the model.
type Text struct {
	Text   string
	Native *Native
}

// MarshalJSON encodes the part as in [Message.AppendJSON].
func (p Text) MarshalJSON() ([]byte, error) { return marshalPart(p) }

// UnmarshalJSON decodes what MarshalJSON wrote.
func (p *Text) UnmarshalJSON(b []byte) error { return unmarshalPart(b, p) }

func (p Text) kind() string { return "text" }
func (p Text) from() []Role { return fromBoth }

func (p Text) lack() string {
	if p.Native == nil && isBlank(p.Text) {
		return "the text is blank"
	}
	return ""
}

func (p Text) fields(f *pass) {
	f.text("text", &p.Text)
	if f.native(&p.Native); f.changed {
		f.out = p
	}
}

// Reasoning is what a model thought aloud. Signatures and encrypted content
// travel in Native.
type Reasoning struct {
	Text   string
	Native *Native
}

// MarshalJSON encodes the part as in [Message.AppendJSON].
func (p Reasoning) MarshalJSON() ([]byte, error) { return marshalPart(p) }

// UnmarshalJSON decodes what MarshalJSON wrote.
func (p *Reasoning) UnmarshalJSON(b []byte) error { return unmarshalPart(b, p) }

func (p Reasoning) kind() string { return "reasoning" }
func (p Reasoning) from() []Role { return fromModel }

func (p Reasoning) lack() string {
	if p.Native == nil && isBlank(p.Text) {
		return "the reasoning is blank"
	}
	return ""
}

func (p Reasoning) fields(f *pass) {
	f.text("text", &p.Text)
	if f.native(&p.Native); f.changed {
		f.out = p
	}
}

func isBlank(s string) bool { return strings.TrimSpace(s) == "" }
