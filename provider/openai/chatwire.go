package openai

import (
	"encoding/json"
	"strings"
)

// What a server sends, whole or in pieces. The SDK's own types aren't used to read it: they make zero values of what doesn't
// fit, can't tell a missing index from 0 where calls are merged by it, and don't know the fields of compatible servers.
type (
	chatChunk struct {
		Object  string          `json:"object"`
		Choices []chatChoice    `json:"choices"`
		Usage   json.RawMessage `json:"usage"`
		Error   json.RawMessage `json:"error"`
	}
	chatChoice struct {
		Index        int             `json:"index"`
		Delta        chatDelta       `json:"delta"`
		Message      *chatDelta      `json:"message"` // in place of Delta, when it comes whole
		FinishReason string          `json:"finish_reason"`
		Usage        json.RawMessage `json:"usage"` // where Moonshot has it
	}
	chatDelta struct {
		Content          chatContent       `json:"content"`
		Refusal          string            `json:"refusal"`
		ReasoningContent string            `json:"reasoning_content"` // DeepSeek, SGLang, llama.cpp and others
		Reasoning        string            `json:"reasoning"`         // Ollama, OpenRouter, vLLM and others
		ReasoningDetails []json.RawMessage `json:"reasoning_details"` // OpenRouter
		ToolCalls        []chatToolCall    `json:"tool_calls"`
		FunctionCall     *chatFunction     `json:"function_call"` // the form before tool_calls
		Images           []chatImage       `json:"images"`        // OpenRouter
	}
	chatToolCall struct {
		Index    *int            `json:"index"`
		ID       string          `json:"id"`
		Type     string          `json:"type"`
		Function chatFunction    `json:"function"`
		Extra    json.RawMessage `json:"extra_content"` // Google: a signature that it wants back
	}
	chatImage struct {
		ImageURL struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	chatFunction struct {
		Name      string        `json:"name"`
		Arguments chatArguments `json:"arguments"`
	}
)

// chatContent is text, or Mistral's list of texts and thoughts.
type chatContent []chatContentPart

type chatContentPart struct {
	text     chatText
	thinking string
}

func (c *chatContent) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		*c = chatContent{{}}
		return json.Unmarshal(data, &(*c)[0].text)
	}
	var items []struct {
		Type     string      `json:"type"`
		Text     chatText    `json:"text"`
		Thinking chatContent `json:"thinking"`
	}
	if err := json.Unmarshal(data, &items); err != nil {
		return err
	}
	for _, i := range items {
		var thinking strings.Builder
		switch i.Type {
		case "text":
		case "thinking":
			for _, t := range i.Thinking {
				thinking.WriteString(t.text.s)
			}
		default:
			return errContent(i.Type)
		}
		*c = append(*c, chatContentPart{i.Text, thinking.String()})
	}
	return nil
}

type errContent string

func (e errContent) Error() string { return "content of the unknown type " + string(e) }

// chatArguments are the text of a call's arguments. Some servers send the object itself.
type chatArguments struct{ chatText }

func (a *chatArguments) UnmarshalJSON(data []byte) error {
	if data[0] != '"' && string(data) != "null" {
		a.chatText = chatText{s: string(data)}
		return nil
	}
	return a.chatText.UnmarshalJSON(data)
}
