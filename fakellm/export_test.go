package fakellm

import "github.com/fermata-ai/fermata/llm"

// SamePart is for tests of what the model takes for known: few of the cases are
// requests that it would take up.
func SamePart(a, b llm.Part) bool {
	return same(llm.Message{Parts: []llm.Part{a}}, llm.Message{Parts: []llm.Part{b}})
}
