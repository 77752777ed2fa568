package fakellm

import (
	"bytes"
	"maps"
	"slices"

	"github.com/fermata-ai/fermata/llm"
)

// clone copies a request so deep that nothing is shared with it. Its first messages are equal to those known, which take
// their place.
func clone(req llm.Request, known []llm.Message) llm.Request {
	from := req.Messages
	req.Messages = append(make([]llm.Message, 0, len(from)), known...)
	for _, m := range from[len(known):] {
		m.Extra = bytes.Clone(m.Extra)
		m.Parts = slices.Clone(m.Parts)
		for i, p := range m.Parts {
			m.Parts[i] = clonePart(p)
		}
		req.Messages = append(req.Messages, m)
	}
	req.Tools = slices.Clone(req.Tools)
	for i := range req.Tools {
		t := &req.Tools[i]
		t.Input, t.Output = bytes.Clone(t.Input), bytes.Clone(t.Output)
	}
	req.Metadata = maps.Clone(req.Metadata)
	return req
}

func clonePart(p llm.Part) llm.Part {
	switch p := p.(type) {
	case llm.Text:
		p.Native = cloneNative(p.Native)
		return p
	case llm.Reasoning:
		p.Native = cloneNative(p.Native)
		return p
	case llm.ToolCall:
		p.Arguments, p.Native = bytes.Clone(p.Arguments), cloneNative(p.Native)
		return p
	case llm.ToolResult:
		p.Output, p.Media = bytes.Clone(p.Output), slices.Clone(p.Media)
		for i, m := range p.Media {
			p.Media[i] = clonePart(m).(llm.Media)
		}
		return p
	case llm.Media:
		p.Data, p.Native = bytes.Clone(p.Data), cloneNative(p.Native)
		return p
	case llm.Opaque:
		p.Native.Data = bytes.Clone(p.Native.Data)
		return p
	case llm.Unknown:
		p.Raw = bytes.Clone(p.Raw)
		return p
	}
	return p
}

func cloneNative(n *llm.Native) *llm.Native {
	if n == nil {
		return nil
	}
	return &llm.Native{Provider: n.Provider, Data: bytes.Clone(n.Data)}
}

// same says that two messages say the same, byte for byte.
func same(a, b llm.Message) bool {
	return a.Role == b.Role && bytes.Equal(a.Extra, b.Extra) && slices.EqualFunc(a.Parts, b.Parts, samePart)
}

func samePart(a, b llm.Part) bool {
	switch a := a.(type) {
	case llm.Text:
		b, ok := b.(llm.Text)
		return ok && a.Text == b.Text && sameNative(a.Native, b.Native)
	case llm.Reasoning:
		b, ok := b.(llm.Reasoning)
		return ok && a.Text == b.Text && sameNative(a.Native, b.Native)
	case llm.ToolCall:
		b, ok := b.(llm.ToolCall)
		return ok && a.ID == b.ID && a.Name == b.Name && a.ProviderID == b.ProviderID &&
			bytes.Equal(a.Arguments, b.Arguments) && sameNative(a.Native, b.Native)
	case llm.ToolResult:
		b, ok := b.(llm.ToolResult)
		return ok && a.Call == b.Call && a.Name == b.Name && a.Error == b.Error && bytes.Equal(a.Output, b.Output) &&
			slices.EqualFunc(a.Media, b.Media, func(a, b llm.Media) bool { return samePart(a, b) })
	case llm.Media:
		b, ok := b.(llm.Media)
		return ok && a.MediaType == b.MediaType && a.Name == b.Name && a.URL == b.URL &&
			bytes.Equal(a.Data, b.Data) && sameNative(a.Native, b.Native)
	case llm.Opaque:
		b, ok := b.(llm.Opaque)
		return ok && sameNative(&a.Native, &b.Native)
	case llm.Unknown:
		b, ok := b.(llm.Unknown)
		return ok && a.Type == b.Type && bytes.Equal(a.Raw, b.Raw)
	}
	return false
}

func sameNative(a, b *llm.Native) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Provider == b.Provider && bytes.Equal(a.Data, b.Data)
}
