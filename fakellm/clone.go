package fakellm

import (
	"reflect"
	"slices"

	"github.com/fermata-ai/fermata/llm"
)

// clone copies a request so deep that nothing is shared with it. Its first
// messages are equal to those known, which take their place.
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

// same reports whether two messages say the same, byte for byte.
func same(a, b llm.Message) bool { return reflect.DeepEqual(a, b) }
