package llm

import (
	"encoding/json"

	"github.com/fermata-ai/fermata/internal/modeltext"
)

// Arguments makes a JSON value of the text that a model wrote for a call's
// arguments. It never guesses:
//   - Nothing, "", white space and null are {}, and so is a JSON string that
//     holds no more than one of these, or {}.
//   - A byte order mark, and a markdown fence around one complete value, are
//     taken off.
//   - Any other value stays byte for byte, but for what no provider can parse:
//     see [Message.Clean].
//   - What is no value, or more than one, is an error that quotes it and shows
//     the place, for the model to read.
//
// With an error, the value returned is the text itself as a JSON string. A
// [ToolCall] that holds it can be stored and sent, and no tool runs by
// accident, since tools take objects. The error travels apart, and isn't lost:
// Arguments of such a string returns the string and the same error, so that a
// call is judged alike before and after a crash.
//
// The result may share memory with raw.
func Arguments[T ~string | ~[]byte](raw T) (json.RawMessage, error) {
	return modeltext.Arguments([]byte(raw))
}
