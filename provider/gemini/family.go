package gemini

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
	"google.golang.org/genai"
)

// generation returns the number of a Gemini model: 3 for "gemini-3-flash".
// Aliases such as "gemini-flash-latest" are of the newest. It is 0 for other
// models, such as Gemma, and for tuned ones.
func generation(model string) int {
	name, ok := strings.CutPrefix(strings.TrimPrefix(model, "models/"), "gemini-")
	if !ok {
		return 0
	}
	if strings.HasSuffix(name, "-latest") {
		return newest
	}
	digits := name
	if end := strings.IndexFunc(name, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = name[:end]
	}
	n, _ := strconv.Atoi(digits)
	return n
}

const newest = 3

// anySignature is what the API documents for calls that Gemini didn't make, or
// whose signature is lost. See
// https://ai.google.dev/gemini-api/docs/thought-signatures.
const anySignature = "skip_thought_signature_validator"

// wantsSignatures reports whether the API refuses a call without one, in the
// turn that is under way. It does for Gemini 3.
func (m *Model) wantsSignatures() bool { return generation(m.options.Model) >= 3 }

// sign gives a message's first call a signature, if it has none. Only the first
// one of parallel calls has one.
func sign(parts []json.RawMessage) {
	for i, raw := range parts {
		m := membersOf(raw)
		if m["functionCall"] == nil {
			continue
		}
		if _, signed := m["thoughtSignature"]; !signed {
			end := strings.LastIndexByte(string(raw), '}')
			parts[i] = json.RawMessage(string(raw[:end]) + `,"thoughtSignature":"` + anySignature + `"}`)
		}
		return
	}
}

// inResults are the types of media that a result takes, from Gemini 3 on. See
// https://ai.google.dev/gemini-api/docs/function-calling, on multimodal
// function responses.
var inResults = []string{"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"}

// inResult is media as a part of a result, nil where it has to stand after it.
func (m *Model) inResult(p llm.Media) *genai.Blob {
	ready, err := wire.Media(p)
	if err != nil || generation(m.options.Model) < 3 || len(ready.Data) == 0 ||
		!slices.Contains(inResults, ready.MediaType) ||
		p.Native != nil && p.Native.Provider == provider {
		return nil
	}
	return &genai.Blob{MIMEType: ready.MediaType, Data: ready.Data}
}
