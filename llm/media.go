package llm

import "bytes"

// Media is an image, a document or the like: its bytes, or where they are.
type Media struct {
	MediaType string // such as "image/png"
	Name      string
	Data      []byte
	URL       string // used where Data is empty
	Native    *Native
}

// Clone returns media with bytes of its own.
func (p Media) Clone() Media {
	p.Data, p.Native = bytes.Clone(p.Data), p.Native.Clone()
	return p
}

// MarshalJSON encodes the part as in [Message.AppendJSON].
func (p Media) MarshalJSON() ([]byte, error) { return marshalPart(p) }

// UnmarshalJSON decodes what MarshalJSON wrote.
func (p *Media) UnmarshalJSON(b []byte) error { return unmarshalPart(b, p) }

func (p Media) kind() string { return "media" }
func (p Media) from() []Role { return fromBoth }

func (p Media) lack() string {
	switch {
	case p.MediaType == "":
		return "the media has no type"
	case len(p.Data) == 0 && p.URL == "":
		return "the media has neither data nor URL"
	}
	return ""
}

func (p Media) fields(f *pass) {
	f.str("media_type", &p.MediaType)
	f.str("name", &p.Name)
	f.bytes("data", &p.Data)
	f.str("url", &p.URL)
	if f.native(&p.Native); f.changed {
		f.out = p
	}
}
