package webhook

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// pointer is a JSON Pointer (RFC 6901), as its steps.
type pointer []string

// parsePointer reads a pointer that is not empty: the key of a call is a part
// of its event.
func parsePointer(text string) (pointer, error) {
	if !strings.HasPrefix(text, "/") {
		return nil, fmt.Errorf("webhook: KeyConfig.Key %q is no JSON Pointer to a part of an event, "+
			"which begins with a slash", text)
	}
	steps := strings.Split(text[1:], "/")
	for i, step := range steps {
		if rest := strings.NewReplacer("~0", "", "~1", "").Replace(step); strings.Contains(rest, "~") {
			return nil, fmt.Errorf("webhook: KeyConfig.Key %q is no JSON Pointer: a tilde is written ~0",
				text)
		}
		steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
	}
	return steps, nil
}

// key returns the string, or the number as it is written, to which the pointer
// points; empty, if there is none.
func (p pointer) key(value json.RawMessage) string {
	for _, step := range p {
		if value = child(value, step); value == nil {
			return ""
		}
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	var number json.Number
	if json.Unmarshal(value, &number) == nil {
		return number.String()
	}
	return ""
}

// child returns a member of an object, or an item of a list.
func child(value json.RawMessage, step string) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(value, &object) == nil {
		return object[step]
	}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		return nil
	}
	if i, err := strconv.Atoi(step); err == nil && strconv.Itoa(i) == step && i >= 0 && i < len(list) {
		return list[i]
	}
	return nil
}
