// Package wire is what the adapters to model providers share: the ids that
// calls have on the wire and the names of their tools, results as text, media
// that can be sent, schemas in a provider's dialect, checks of a request,
// failures as one typed error, and a client that keeps the key to itself. It
// knows no provider, and no SDK.
package wire

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/fermata-ai/fermata/internal/modeltext"
	"github.com/fermata-ai/fermata/llm"
)

// ResultText returns a result for a provider that takes text: a JSON string is
// its text, and everything else is the JSON itself, as [modeltext.PlainJSON]
// has it and otherwise byte for byte. With mark, a failed result begins with
// "Error: ", for a provider that has no flag for it.
func ResultText(r llm.ToolResult, mark bool) string {
	text := string(modeltext.PlainJSON(r.Output))
	if strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), `"`) {
		var s string
		if json.Unmarshal(r.Output, &s) == nil {
			text = s
		}
	}
	if mark && r.Error && !strings.HasPrefix(text, "Error: ") {
		text = "Error: " + text
	}
	return text
}

// LastWord returns the place of the user's last message, if no model has
// answered it. What is wrong with it is told. What is wrong with an older one
// can't be mended any more. Where a model has answered, another provider's
// perhaps before a pause, all are older: it is the number of messages then.
// Without any, it is -1.
func LastWord(messages []llm.Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		switch messages[i].Role {
		case llm.RoleUser:
			return i
		case llm.RoleAssistant:
			return len(messages)
		}
	}
	return -1
}

// MediaNote stands for media in history that a provider doesn't take, and why
// says why. What a tool or another provider's model made, or the user sent, an
// hour ago would otherwise make every later request of the session fail.
func MediaNote(m llm.Media, why error) string {
	name := ""
	if m.Name != "" {
		name = ", named " + m.Name
	}
	return fmt.Sprintf("[media of type %s%s; it can't be shown here: %v]", m.MediaType, name, why)
}

// LeftOut is for the parts that an adapter doesn't know by their type. It
// returns nil for one that the adapter may leave out: one of another provider's
// alone, of a later version, or, in history, of a kind that came after the
// adapter. Old is whether a model has answered since. The error is about a part
// that has no place in a message of the role, or that the user shows in vain.
func LeftOut(role llm.Role, p llm.Part, old bool) error {
	switch p.(type) {
	case llm.Opaque, llm.Unknown:
		return nil
	}
	if err := llm.CheckPart(role, p); err != nil {
		return err
	}
	if role == llm.RoleUser && !old {
		return fmt.Errorf("%T is of a kind that this provider isn't shown", p)
	}
	return nil
}

// Arguments returns a call's as a JSON object, also where they were encoded
// twice. Text that was no JSON is stored as a string, and most providers take
// nothing but objects: it becomes {"arguments": "..."}, so that the model sees
// again what it wrote, beside the error that it got for it.
func Arguments(c llm.ToolCall) json.RawMessage {
	if args, ok := modeltext.ArgumentsObject(c.Arguments); ok {
		return args
	}
	args, _ := llm.Arguments(c.Arguments)
	return append(append([]byte(`{"arguments":`), args...), '}')
}
