package agui

import (
	"encoding/json"
	"strings"

	"github.com/fermata-ai/fermata/llm"
)

// raw is JSON that goes out as it is.
type raw = json.RawMessage

// Body is what a message holds: text, or parts.
type Body struct {
	Text  string
	Parts []Part // nil: it is Text
}

// Part is a piece of a message.
type Part struct {
	Type   string  `json:"type"` // text, image, audio, video or document
	Text   *string `json:"text,omitempty"`
	Source *Source `json:"source,omitempty"`
}

// Source is where the bytes of a Part are.
type Source struct {
	Type      string `json:"type"` // data, url or file
	Value     string `json:"value"`
	MediaType string `json:"mimeType,omitempty"`
}

// MarshalJSON writes a string, or a list of parts.
func (b Body) MarshalJSON() ([]byte, error) {
	if b.Parts != nil {
		return json.Marshal(b.Parts)
	}
	return json.Marshal(b.Text)
}

// UnmarshalJSON reads what a client sends.
func (b *Body) UnmarshalJSON(text []byte) error {
	*b = Body{}
	if len(text) > 0 && text[0] == '[' {
		b.Parts = []Part{}
		return json.Unmarshal(text, &b.Parts)
	}
	return json.Unmarshal(text, &b.Text)
}

// bodyOf returns what the user said.
func bodyOf(parts []llm.Part) Body {
	var text strings.Builder
	var all []Part
	media := false
	for _, p := range parts {
		switch p := p.(type) {
		case llm.Text:
			text.WriteString(p.Text)
			all = append(all, textPart(p.Text))
		case llm.Media:
			media = true
			all = append(all, mediaPart(p))
		}
	}
	if media {
		return Body{Parts: all}
	}
	return Body{Text: text.String()}
}

// resultBody returns what a call came to: its output, as plain text where it
// is a string, and what there is to look at beside it.
func resultBody(r llm.ToolResult) Body {
	text := string(r.Output)
	var plain string
	if json.Unmarshal(r.Output, &plain) == nil && len(r.Output) > 0 && r.Output[0] == '"' {
		text = plain
	}
	if len(r.Media) == 0 {
		return Body{Text: text}
	}
	parts := []Part{textPart(text)}
	for _, m := range r.Media {
		parts = append(parts, mediaPart(m))
	}
	return Body{Parts: parts}
}

func textPart(s string) Part { return Part{Type: "text", Text: &s} }

func mediaPart(m llm.Media) Part {
	kind, _, _ := strings.Cut(m.MediaType, "/")
	switch kind {
	case "image", "audio", "video":
	default:
		kind = "document"
	}
	s := Source{Type: "url", Value: m.URL, MediaType: m.MediaType}
	if len(m.Data) > 0 {
		s.Type, s.Value = "data", base64Of(m.Data)
	}
	return Part{Type: kind, Source: &s}
}
