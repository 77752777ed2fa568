package llm

import (
	"encoding/json"
	"fmt"
)

// AppendJSON appends the message's JSON form to b. On an error, b is returned as it was.
//
// Raw JSON in the message goes out byte for byte, checked to be JSON; an empty [json.RawMessage] is left out. Storage uses
// this method rather than [json.Marshal], which compacts what MarshalJSON returns and escapes <, > and & in it.
func (m Message) AppendJSON(b []byte) ([]byte, error) {
	w := writer{b: b, depth: 4} // message, parts, part, native
	if cap(b) == 0 {
		w.b = make([]byte, 0, m.sizeHint())
	}
	w.b = append(w.b, `{"role":`...)
	w.b = appendString(w.b, string(m.Role))
	w.b = append(w.b, `,"parts":[`...)
	for i, p := range m.Parts {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		if w.part(p); w.err != nil {
			return b, fmt.Errorf("llm: parts[%d]: %w", i, w.err)
		}
	}
	w.b = append(w.b, ']')
	if w.extra(m.Extra); w.err != nil {
		return b, fmt.Errorf("llm: %w", w.err)
	}
	return append(w.b, '}'), nil
}

// MarshalJSON is AppendJSON for encoding/json.
func (m Message) MarshalJSON() ([]byte, error) {
	return m.AppendJSON(nil)
}

// extra writes the members of the object v.
func (w *writer) extra(v json.RawMessage) {
	if len(v) == 0 {
		return
	}
	s := scanner{b: v}
	if w.err = s.enter('{'); w.err != nil {
		return
	}
	for first := true; ; first = false {
		key, more, err := s.member(first)
		if err == nil && !more {
			err = s.end()
		}
		if err != nil || !more {
			w.err = err
			return
		}
		if k := unquote(key); k == "role" || k == "parts" {
			w.err = fmt.Errorf("the extra members include %q, which is the message's own", k)
			return
		}
		w.b = append(append(append(w.b, ','), key...), ':')
		val, err := s.value()
		if err != nil {
			w.err = err
			return
		}
		w.b = append(w.b, val...)
	}
}
