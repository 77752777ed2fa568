package llm

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

// AppendJSON appends the message's JSON form to b. On an error, b is returned
// as it was.
//
// Raw JSON in the message goes out byte for byte, checked to be JSON; an empty
// [json.RawMessage] is left out. Storage uses this method rather than
// [json.Marshal], which compacts what MarshalJSON returns and escapes <, > and
// & in it.
func (m Message) AppendJSON(b []byte) ([]byte, error) {
	w := writer{b: b, depth: 4} // message, parts, part, native
	if cap(b) == 0 {
		w.b = make([]byte, 0, m.Size())
	}
	w.b = strictjson.AppendString(append(w.b, `{"role":`...), m.Role)
	w.b = append(w.b, `,"parts":[`...)
	for i, p := range m.Parts {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		if err := w.part(p); err != nil {
			return b, fmt.Errorf("llm: parts[%d]: %w", i, err)
		}
	}
	w.b = append(w.b, ']')
	if len(m.Extra) > 0 {
		var err error
		if w.b, err = appendExtra(w.b, m.Extra); err != nil {
			return b, fmt.Errorf("llm: %w", err)
		}
	}
	return append(w.b, '}'), nil
}

// MarshalJSON is AppendJSON for encoding/json.
func (m Message) MarshalJSON() ([]byte, error) {
	return m.AppendJSON(nil)
}

// writer writes a part's members; the first error stays.
type writer struct {
	b     []byte
	err   error
	depth int // of the members of what is being written
}

func (w *writer) part(p Part) error {
	if _, raw := p.(Unknown); !raw && isValue(p) {
		w.begin(p.kind())
	}
	f := pass{do: encoding, w: w}
	if !f.over(p) {
		return fmt.Errorf("%T is no part", p)
	}
	w.b = append(w.b, '}')
	return w.err
}

// begin begins a part.
func (w *writer) begin(kind string) {
	w.b = strictjson.AppendString(append(w.b, `{"type":`...), kind)
}

func (w *writer) key(k string) {
	w.b = append(append(append(w.b, `,"`...), k...), `":`...)
}

func (w *writer) text(key, s string) {
	w.key(key)
	w.b = strictjson.AppendString(w.b, s)
}

// raw writes a member that is JSON already, unless it is empty.
func (w *writer) raw(key string, v json.RawMessage) {
	if w.err != nil || len(bytes.TrimLeft(v, " \t\r\n")) == 0 {
		return
	}
	if err := strictjson.CheckWithin(v, w.depth); err != nil {
		w.err = fmt.Errorf("%s: %w", key, err)
		return
	}
	w.key(key)
	w.b = append(w.b, v...)
}

func (w *writer) bytes(key string, b []byte) {
	if len(b) > 0 {
		w.key(key)
		w.b = append(base64.StdEncoding.AppendEncode(append(w.b, '"'), b), '"')
	}
}

func (w *writer) native(key string, n *Native) {
	w.key(key)
	w.b = strictjson.AppendString(append(w.b, `{"provider":`...), n.Provider)
	w.raw("data", n.Data)
	w.b = append(w.b, '}')
}

// medias writes media within a part, each in the form that it has as a part.
func (w *writer) medias(key string, all []Media) {
	if len(all) == 0 {
		return
	}
	w.depth += 2
	defer func() { w.depth -= 2 }()
	w.key(key)
	f := pass{do: encoding, w: w}
	for i, p := range all {
		w.b = append(w.b, "[,"[min(i, 1)])
		w.begin(p.kind())
		p.fields(&f)
		w.b = append(w.b, '}')
	}
	w.b = append(w.b, ']')
}

// unknown writes a part as it came, but for the brace at its end.
func (w *writer) unknown(p Unknown) {
	raw, made := p.Raw, len(p.Raw) == 0
	if made {
		raw = strictjson.AppendString([]byte(`{"type":`), p.Type)
		raw = append(raw, '}')
	}
	err := strictjson.CheckWithin(raw, 2) // message, parts
	if err == nil {
		var got Part
		got, err = readPart(raw)
		if u, ok := got.(Unknown); err == nil && (!ok || !made && u.Type != p.Type) {
			err = errors.New("its Raw is of another type")
		}
	}
	if err != nil {
		w.err = fmt.Errorf("unknown part %q: %w", p.Type, err)
		return
	}
	w.b = append(w.b, raw[:bytes.LastIndexByte(raw, '}')]...)
}

// appendExtra appends the members of the object v.
func appendExtra(b []byte, v json.RawMessage) ([]byte, error) {
	err := strictjson.Walk(v, func(c *strictjson.Cursor) error {
		members, _, err := c.Members(nil)
		for _, m := range members {
			if own := ownMember(m.Name); own != "" {
				return c.Fail("the extra members include %q, and %q is the message's own", m.Name, own)
			}
			b = append(strictjson.AppendString(append(b, ','), m.Name), ':')
			b = append(b, m.Value...)
		}
		return err
	})
	return b, err
}

// Size is about how many bytes the message takes, in memory and in its JSON
// form, which is mostly written without growing by it.
func (m Message) Size() int {
	f := pass{do: sizing, size: 48 + len(m.Extra) + len(m.Parts)*partCost}
	for _, p := range m.Parts {
		f.over(p)
	}
	return f.size
}

// partCost is what a part takes beside its texts, about, in memory and in the
// JSON form. A part that comes in deltas counts it when it begins.
const partCost = 80

func partSize(p Part) int {
	f := pass{do: sizing, size: partCost}
	f.over(p)
	return f.size
}
