package llm

// Notice is what the runtime tells the model about a handle: not the user, and
// no tool. It stands in a message of [RoleTool], after the results of a turn,
// or in one of notices alone, where the runtime speaks between two messages of
// the model's. A notice is about one handle; several are several parts.
//
// The model reads it in a frame that marks it as the runtime's, see NoticeText
// in llm/wire. Whatever a field holds is data there, and can't leave the frame.
type Notice struct {
	Handle string // the handle's id, which the model chose
	Tool   string // the name of the handle's tool
	Call   string // the id of the call that made the handle; the model isn't told
	State  string // what became of the handle, in a word of the runtime's
	Text   string // what there is to read of it, such as its output
}

// Notices lists the message's notices in order.
func (m Message) Notices() []Notice {
	var all []Notice
	for _, p := range m.Parts {
		if n, ok := p.(Notice); ok {
			all = append(all, n)
		}
	}
	return all
}

// MarshalJSON encodes the part as in [Message.AppendJSON].
func (p Notice) MarshalJSON() ([]byte, error) { return marshalPart(p) }

// UnmarshalJSON decodes what MarshalJSON wrote.
func (p *Notice) UnmarshalJSON(b []byte) error { return unmarshalPart(b, p) }

func (p Notice) kind() string { return "notice" }
func (p Notice) from() []Role { return fromTools }

func (p Notice) lack() string {
	if isBlank(p.State) && isBlank(p.Text) {
		return "the notice has neither a state nor a text"
	}
	return ""
}

func (p Notice) fields(f *pass) {
	f.str("handle", &p.Handle)
	f.str("tool", &p.Tool)
	f.str("call", &p.Call)
	f.str("state", &p.State)
	if f.str("text", &p.Text); f.changed {
		f.out = p
	}
}
