package gemini

import (
	"encoding/json"

	"github.com/fermata-ai/fermata/llm"
	"google.golang.org/genai"
)

// reply is one event of a stream, or a whole reply: what of
// genai.GenerateContentResponse matters here, its parts as they came.
type reply struct {
	Candidates     []*candidate                                 `json:"candidates"`
	PromptFeedback *genai.GenerateContentResponsePromptFeedback `json:"promptFeedback"`
	Usage          json.RawMessage                              `json:"usageMetadata"`
	Error          *genai.APIError                              `json:"error"`
}

type candidate struct {
	Index   int `json:"index"`
	Content *struct {
		Parts []json.RawMessage `json:"parts"`
	} `json:"content"`
	FinishReason  genai.FinishReason `json:"finishReason"`
	FinishMessage string             `json:"finishMessage"`
}

// usage counts tokens; each event has the sums so far.
type usage struct {
	Prompt     int `json:"promptTokenCount"` // those of the cache included
	ToolPrompt int `json:"toolUsePromptTokenCount"`
	Cached     int `json:"cachedContentTokenCount"`
	Candidates int `json:"candidatesTokenCount"` // without thoughts
	Thoughts   int `json:"thoughtsTokenCount"`
}

// neutral returns the counts, if they make sense: the message is none the worse
// for others.
func (u usage) neutral() llm.Usage {
	n := func(count int) int { return max(count, 0) }
	return llm.Usage{
		Input: n(u.Prompt) + n(u.ToolPrompt), Output: n(u.Candidates) + n(u.Thoughts), Cached: n(u.Cached), Reasoning: n(u.Thoughts),
	}
}

// part is a genai.Part whose arguments and signature stay as they came.
type part struct {
	Text             *string         `json:"text,omitempty"`
	Thought          bool            `json:"thought,omitempty"`
	FunctionCall     *functionCall   `json:"functionCall,omitempty"`
	FunctionResponse *functionResult `json:"functionResponse,omitempty"`
	InlineData       *genai.Blob     `json:"inlineData,omitempty"`
	FileData         *genai.FileData `json:"fileData,omitempty"`
	ThoughtSignature string          `json:"thoughtSignature,omitempty"`
}

type functionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

type functionResult struct {
	ID       string          `json:"id,omitempty"`
	Name     string          `json:"name"`
	Response json.RawMessage `json:"response"`
	Parts    []part          `json:"parts,omitempty"`
}

// members are the names of an object's members, and their values. Of what is no
// object there are none.
type members map[string]json.RawMessage

func membersOf(object json.RawMessage) members {
	var m members
	if json.Unmarshal(object, &m) != nil {
		return nil
	}
	return m
}

// only reports whether there is nothing but these.
func (m members) only(names ...string) bool {
	n := 0
	for _, name := range names {
		if _, ok := m[name]; ok {
			n++
		}
	}
	return n == len(m)
}
