package fakellm

import (
	"bytes"
	"slices"

	"github.com/fermata-ai/fermata/llm"
)

// clone copies a request so deep that nothing is shared with it. Its first messages are equal to those known, which take
// their place.
func clone(req llm.Request, known []llm.Message) llm.Request {
	req.Messages = req.Messages[len(known):]
	req = req.Clone()
	req.Messages = append(slices.Clip(known), req.Messages...)
	return req
}

// cloneEvent copies what can be changed in an event: the script stays as it
// was written, whatever a layer makes of what the model says.
func cloneEvent(e llm.Event) llm.Event {
	if whole, ok := e.(llm.PartDone); ok {
		return llm.PartDone{Part: clonePart(whole.Part)}
	}
	return e
}

func clonePart(p llm.Part) llm.Part {
	return llm.Message{Parts: []llm.Part{p}}.Clone().Parts[0]
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
