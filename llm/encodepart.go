package llm

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// writer writes a part's members; the first error stays.
type writer struct {
	b     []byte
	err   error
	depth int // of the members of what is being written
}

func (w *writer) part(p Part) {
	switch p := p.(type) {
	case Text:
		w.typ("text")
		w.text(p.Text)
		w.native(p.Native)
	case Reasoning:
		w.typ("reasoning")
		w.text(p.Text)
		w.native(p.Native)
	case ToolCall:
		w.typ("tool_call")
		w.str("id", p.ID)
		w.str("name", p.Name)
		w.raw("arguments", p.Arguments)
		w.str("provider_id", p.ProviderID)
		w.native(p.Native)
	case ToolResult:
		w.typ("tool_result")
		w.str("call", p.Call)
		w.str("name", p.Name)
		w.raw("output", p.Output)
		if p.Error {
			w.b = append(w.b, `,"error":true`...)
		}
		w.medias(p.Media)
	case Media:
		w.media(p)
	case Opaque:
		w.typ("opaque")
		w.native(&p.Native)
	case Unknown:
		w.unknown(p)
		return
	default:
		// A pointer to a part has the method too, but whoever looks for parts looks for values.
		w.err = fmt.Errorf("%T is no part", p)
		return
	}
	w.b = append(w.b, '}')
}

func (w *writer) typ(t string) {
	w.b = append(append(append(w.b, `{"type":"`...), t...), '"')
}

func (w *writer) text(s string) {
	w.b = appendString(append(w.b, `,"text":`...), s)
}

func (w *writer) key(k string) {
	w.b = append(append(append(w.b, `,"`...), k...), `":`...)
}

// str writes a string member, unless it is empty.
func (w *writer) str(key, s string) {
	if s != "" {
		w.key(key)
		w.b = appendString(w.b, s)
	}
}

// raw writes a member that is JSON already, unless it is empty.
func (w *writer) raw(key string, v json.RawMessage) {
	s := scanner{b: v}
	if s.space(); s.i == len(v) || w.err != nil {
		return
	}
	if err := only(v, w.depth); err != nil {
		w.err = fmt.Errorf("%s: %w", key, err)
		return
	}
	w.key(key)
	w.b = append(w.b, v...)
}

func (w *writer) native(n *Native) {
	if n == nil {
		return
	}
	w.b = append(w.b, `,"native":{"provider":`...)
	w.b = appendString(w.b, n.Provider)
	w.raw("data", n.Data)
	w.b = append(w.b, '}')
}

// medias writes the media of a result, each in the form that it has as a part.
func (w *writer) medias(all []Media) {
	w.depth += 2
	defer func() { w.depth -= 2 }()
	for i, p := range all {
		if i == 0 {
			w.b = append(w.b, `,"media":[`...)
		} else {
			w.b = append(w.b, ',')
		}
		w.media(p)
		w.b = append(w.b, '}')
	}
	if len(all) > 0 {
		w.b = append(w.b, ']')
	}
}

func (w *writer) media(p Media) {
	w.typ("media")
	w.str("media_type", p.MediaType)
	w.str("name", p.Name)
	if len(p.Data) > 0 {
		w.b = append(w.b, `,"data":"`...)
		w.b = base64.StdEncoding.AppendEncode(w.b, p.Data)
		w.b = append(w.b, '"')
	}
	w.str("url", p.URL)
	w.native(p.Native)
}

func (w *writer) unknown(p Unknown) {
	if len(p.Raw) == 0 {
		w.b = appendString(append(w.b, `{"type":`...), p.Type)
		w.b = append(w.b, '}')
		return
	}
	s := scanner{b: p.Raw, depth: 2} // message, parts
	got, err := s.part()
	if err == nil {
		err = s.end()
	}
	if u, ok := got.(Unknown); err == nil && (!ok || u.Type != p.Type) {
		err = errors.New("its Raw is of another type")
	}
	if err != nil {
		w.err = fmt.Errorf("unknown part %q: %w", p.Type, err)
		return
	}
	w.b = append(w.b, p.Raw...)
}

// sizeHint is about how long the JSON form is, so that it is mostly written without growing.
func (m Message) sizeHint() int {
	n := 48 + len(m.Extra)
	for _, p := range m.Parts {
		n += partSize(p)
	}
	return n
}

func partSize(p Part) int {
	const fixed = partCost // names, quotes, some escapes
	switch p := p.(type) {
	case Text:
		return fixed + len(p.Text) + len(p.Text)/16 + nativeSize(p.Native)
	case Reasoning:
		return fixed + len(p.Text) + len(p.Text)/16 + nativeSize(p.Native)
	case ToolCall:
		return fixed + len(p.ID) + len(p.Name) + len(p.Arguments) + len(p.ProviderID) + nativeSize(p.Native)
	case ToolResult:
		n := fixed + len(p.Call) + len(p.Name) + len(p.Output)
		for _, m := range p.Media {
			n += partSize(m)
		}
		return n
	case Media:
		return fixed + len(p.MediaType) + len(p.Name) + len(p.Data)*4/3 + len(p.URL) + nativeSize(p.Native)
	case Opaque:
		return fixed + nativeSize(&p.Native)
	case Unknown:
		return len(p.Type) + len(p.Raw) + 16
	}
	return 0
}

func nativeSize(n *Native) int {
	if n == nil {
		return 0
	}
	return 32 + len(n.Provider) + len(n.Data)
}
