package llm

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// members are the raw values of a part, whatever its type: "type" needn't come first.
type members struct {
	typ, text, id, name, arguments, providerID, native []byte
	call, output, error, media, mediaType, data, url   []byte
}

func (s *scanner) part() (Part, error) {
	from := s.i
	if err := s.enter('{'); err != nil {
		return nil, err
	}
	var f members
	for first := true; ; first = false {
		key, more, err := s.member(first)
		if err != nil {
			return nil, err
		}
		if !more {
			return f.part(s.b[from:s.i])
		}
		v, err := s.value()
		if err != nil {
			return nil, err
		}
		f.set(canonical(key), v)
	}
}

// canonical is the string q without needless escapes, so that strings compare by their bytes.
func canonical(q []byte) []byte {
	if bytes.IndexByte(q, '\\') < 0 {
		return q
	}
	return appendString(nil, unquote(q))
}

func (f *members) set(key, v []byte) {
	switch string(key) {
	case `"type"`:
		f.typ = v
	case `"text"`:
		f.text = v
	case `"id"`:
		f.id = v
	case `"name"`:
		f.name = v
	case `"arguments"`:
		f.arguments = v
	case `"provider_id"`:
		f.providerID = v
	case `"native"`:
		f.native = v
	case `"call"`:
		f.call = v
	case `"output"`:
		f.output = v
	case `"error"`:
		f.error = v
	case `"media"`:
		f.media = v
	case `"media_type"`:
		f.mediaType = v
	case `"data"`:
		f.data = v
	case `"url"`:
		f.url = v
	}
}

// reader turns raw values into a part's fields; the first error stays.
type reader struct{ err error }

func (f *members) part(whole []byte) (p Part, err error) {
	if len(f.typ) == 0 || f.typ[0] != '"' {
		return nil, errors.New("no type")
	}
	var r reader
	switch string(canonical(f.typ)) {
	case `"text"`:
		p = Text{Text: r.str("text", f.text), Native: r.native(f.native)}
	case `"reasoning"`:
		p = Reasoning{Text: r.str("text", f.text), Native: r.native(f.native)}
	case `"tool_call"`:
		p = ToolCall{
			ID: r.str("id", f.id), Name: r.str("name", f.name), Arguments: bytes.Clone(f.arguments),
			ProviderID: r.str("provider_id", f.providerID), Native: r.native(f.native),
		}
	case `"tool_result"`:
		p = ToolResult{
			Call: r.str("call", f.call), Name: r.str("name", f.name), Output: bytes.Clone(f.output),
			Error: r.bool("error", f.error), Media: r.medias(f.media),
		}
	case `"media"`:
		p = Media{
			MediaType: r.str("media_type", f.mediaType), Name: r.str("name", f.name), Data: r.bytes("data", f.data),
			URL: r.str("url", f.url), Native: r.native(f.native),
		}
	case `"opaque"`:
		n := r.native(f.native)
		if n == nil {
			return nil, errors.New("opaque without native")
		}
		p = Opaque{Native: *n}
	default:
		p = Unknown{Type: r.str("type", f.typ), Raw: bytes.Clone(whole)}
	}
	return p, r.err
}

func (r *reader) str(name string, v []byte) string {
	s, err := str(name, v)
	r.keep(err)
	return s
}

func (r *reader) keep(err error) {
	if r.err == nil {
		r.err = err
	}
}

// str decodes a string; absent and null are empty.
func str(name string, v []byte) (string, error) {
	switch {
	case len(v) == 0 || v[0] == 'n':
		return "", nil
	case v[0] != '"':
		return "", fmt.Errorf("%s is no string", name)
	}
	return unquote(v), nil
}

func (r *reader) bool(name string, v []byte) bool {
	switch string(v) {
	case "true":
		return true
	case "", "false", "null":
		return false
	}
	// Not false: a failure must not be read as a success.
	r.keep(fmt.Errorf("%s is neither true nor false", name))
	return false
}

func (r *reader) bytes(name string, v []byte) []byte {
	s := r.str(name, v)
	if s == "" {
		return nil
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		r.keep(fmt.Errorf("%s: %w", name, err))
	}
	return b
}

// medias reads the media of a result: each is a part of that type.
func (r *reader) medias(v []byte) (all []Media) {
	if len(v) == 0 || v[0] == 'n' {
		return nil
	}
	s := scanner{b: v}
	parts, err := s.parts()
	if err != nil {
		r.keep(fmt.Errorf("media: %w", err))
	}
	for i, p := range parts {
		m, ok := p.(Media)
		if !ok {
			r.keep(fmt.Errorf("media[%d] is of another type", i))
		}
		all = append(all, m)
	}
	return all
}

func (r *reader) native(v []byte) *Native {
	if len(v) == 0 || v[0] == 'n' {
		return nil
	}
	s := scanner{b: v}
	if s.enter('{') != nil {
		r.keep(errors.New("native is no object"))
		return nil
	}
	var n Native
	for first := true; ; first = false {
		key, more, _ := s.member(first) // the scanner has passed here before: there is no error
		if !more {
			return &n
		}
		switch v, _ := s.value(); string(key) {
		case `"provider"`:
			n.Provider = r.str("native.provider", v)
		case `"data"`:
			n.Data = json.RawMessage(bytes.Clone(v))
		}
	}
}
