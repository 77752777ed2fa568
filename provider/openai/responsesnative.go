package openai

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// own returns the API's own form of a part, nil where it has none.
func own(n *llm.Native) (json.RawMessage, error) {
	if n == nil || n.Provider != responsesName {
		return nil, nil
	}
	if !json.Valid(n.Data) || bytes.TrimLeft(n.Data, " \t\r\n")[0] != '{' {
		return nil, fmt.Errorf("a part's native form is no JSON object: %.80q", n.Data)
	}
	return n.Data, nil
}

// textOf returns the text of a message in the API's own form.
func textOf(raw json.RawMessage) string {
	var item struct {
		Content []struct{ Type, Text, Refusal string }
	}
	_ = json.Unmarshal(raw, &item) // what is no message has none
	var s string
	for _, c := range item.Content {
		switch c.Type {
		case "output_text":
			s += c.Text
		case "refusal":
			s += c.Refusal
		}
	}
	return s
}

// sealed reports whether a reasoning item holds the reasoning itself, encrypted
// or in the open. One that doesn't is a mere name of what the API would have
// stored, and has not.
func sealed(raw json.RawMessage) bool {
	var item struct {
		Encrypted string `json:"encrypted_content"`
		Content   []json.RawMessage
	}
	return json.Unmarshal(raw, &item) == nil && (item.Encrypted != "" || len(item.Content) > 0)
}

// with sets a member of an object, or takes it off where value is nil. Where
// that changes nothing, raw stays as it is.
func with(raw json.RawMessage, name string, value json.RawMessage) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, err
	}
	if old, ok := members[name]; ok == (value != nil) && bytes.Equal(old, value) {
		return raw, nil
	}
	if delete(members, name); value != nil {
		members[name] = value
	}
	return wire.Encode(members) // the other members stay byte for byte
}
