package handle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// inputSchema is that of an input to a program with pipes.
const inputSchema = `{"type":"object","properties":{` +
	`"text":{"type":"string","description":"Written to the program's standard input as it is. ` +
	`A line needs its newline."},` +
	`"end":{"type":"boolean","description":"Close the standard input after the text."}},` +
	`"additionalProperties":false}`

type input struct {
	Text string `json:"text"`
	End  bool   `json:"end"`
}

// readInput reads an input. The error is for the model that gave it.
func readInput(raw json.RawMessage) (in input, err error) {
	if err := strict(raw, &in); err != nil {
		return in, fmt.Errorf(`an input is {"text": "…"}, with "end": true if it is the last one; `+
			"this one is not: %w", err)
	}
	if in.Text == "" && !in.End {
		return in, errors.New(`the input has neither "text" nor "end"`)
	}
	return in, nil
}

// strict reads JSON that has no other fields.
func strict(raw json.RawMessage, in any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	return dec.Decode(in)
}

// line returns a message of the protocol to the program.
func line(message any) ([]byte, error) {
	text, err := json.Marshal(message)
	return append(text, '\n'), err
}

// startLine, inputLine and answerLine are what a program reads.
type startLine struct {
	Type      string          `json:"type"`
	Arguments json.RawMessage `json:"arguments"`
	Answers   []Answer        `json:"answers"`
}

type inputLine struct {
	Type  string          `json:"type"`
	Input json.RawMessage `json:"input"`
}

type answerLine struct {
	Type string `json:"type"`
	Answer
}
