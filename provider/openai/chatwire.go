package openai

import (
	"encoding/json"

	"github.com/fermata-ai/fermata/llm/wire"
)

// What a server sends, whole or in pieces. The SDK's own types aren't used to
// read it: they make zero values of what doesn't fit, can't tell a missing
// index from 0 where calls are merged by it, and don't know the fields of
// compatible servers.
//
// Text is a [wire.Piece]: some gateways cut it within a rune.
type (
	chatChunk struct {
		Object  string          `json:"object"`
		Choices chatChoices     `json:"choices"`
		Usage   json.RawMessage `json:"usage"`
		Error   json.RawMessage `json:"error"`
	}
	chatChoice struct {
		Index int        `json:"index"`
		Delta *chatDelta `json:"delta"` // in a stream
		// When it comes whole; Perplexity has all so far in it, beside each
		// Delta.
		Message      *chatDelta      `json:"message"`
		FinishReason string          `json:"finish_reason"`
		Usage        json.RawMessage `json:"usage"` // where Moonshot has it
	}
	chatDelta struct {
		Content chatContent `json:"content"`
		Refusal wire.Piece  `json:"refusal"`
		// DeepSeek, SGLang, llama.cpp and others.
		ReasoningContent wire.Piece `json:"reasoning_content"`
		// Ollama, OpenRouter, vLLM and others.
		Reasoning        wire.Piece        `json:"reasoning"`
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

// chatChoices are nil where an event has none, and empty where it has null.
type chatChoices []chatChoice

func (c *chatChoices) UnmarshalJSON(data []byte) error {
	if *c = (chatChoices{}); string(data) == "null" {
		return nil
	}
	return json.Unmarshal(data, (*[]chatChoice)(c))
}

// isEmpty reports whether an entry says nothing.
func (e chatToolCall) isEmpty() bool {
	return e.ID == "" && isNull(e.Extra) && e.Function == chatFunction{} &&
		(e.Type == "" || e.Type == "function")
}

// chatContent is text, or a list of parts, such as Mistral's of texts and
// thoughts.
type chatContent []chatContentPart

// chatContentPart is text, or a part of another kind as it came.
type chatContentPart struct {
	text wire.Piece
	kind string // its type, "" for text
	raw  json.RawMessage
}

func (c *chatContent) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		*c = chatContent{{}}
		return json.Unmarshal(data, &(*c)[0].text)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	for _, raw := range list {
		if isNull(raw) {
			continue
		}
		var part struct {
			Type string          `json:"type"`
			Text json.RawMessage `json:"text"`
		}
		if err := json.Unmarshal(raw, &part); err != nil {
			return err
		}
		p := chatContentPart{kind: part.Type, raw: raw}
		if part.Type == "text" || part.Type == "" && !isNull(part.Text) {
			p = chatContentPart{}
			if err := json.Unmarshal(part.Text, &p.text); !isNull(part.Text) && err != nil {
				return err
			}
		}
		*c = append(*c, p)
	}
	return nil
}

// chatArguments are the text of a call's arguments. Some servers send the
// object itself.
type chatArguments struct{ wire.Piece }

func (a *chatArguments) UnmarshalJSON(data []byte) error {
	if data[0] != '"' && string(data) != "null" {
		a.Piece = wire.Piece(data)
		return nil
	}
	return a.Piece.UnmarshalJSON(data)
}
