package llm

import (
	"encoding/json"
	"fmt"
	"reflect"

	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

// What the property tests draw from. Raw JSON is never blank: the empty forms
// have tests of their own.

// anyText holds quotes, controls, HTML, long lines, and characters of every
// UTF-8 length.
func anyText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.SampledFrom([]string{"", "a<b>&c", "\u2028\u2029", "\x00\x1f\x7f", `"\/` + "\b\f\n\r\t", "åß水𝄐", "\uFFFD", "```json\n{}\n```"}),
	)
}

// anyJSON is JSON text with white space and escapes as they come.
func anyJSON() *rapid.Generator[json.RawMessage] {
	return rapid.Custom(func(t *rapid.T) json.RawMessage { return drawJSON(t, 3) })
}

func drawJSON(t *rapid.T, depth int) json.RawMessage {
	ws := rapid.SampledFrom([]string{"", " ", "\n\t"})
	kind := rapid.IntRange(0, 5).Draw(t, "kind")
	if depth == 0 {
		kind %= 4
	}
	switch kind {
	case 0:
		return json.RawMessage(rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "word"))
	case 1:
		return json.RawMessage(rapid.StringMatching(`-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,9})?([eE][+-]?[0-9]{1,2})?`).Draw(t, "number"))
	case 2:
		return strictjson.AppendString(nil, anyText().Draw(t, "string"))
	case 3:
		esc := rapid.SampledFrom([]string{`\u003c`, `\ud834\udd10`, `\\ud800`, `\/`, `\"`, "é", "x"})
		var b []byte
		for range rapid.IntRange(0, 4).Draw(t, "escapes") {
			b = append(b, esc.Draw(t, "escape")...)
		}
		return append(append([]byte{'"'}, b...), '"')
	}
	open, closing := byte('{'), byte('}')
	if kind == 5 {
		open, closing = '[', ']'
	}
	b := append([]byte{open}, ws.Draw(t, "ws")...)
	for i := range rapid.IntRange(0, 3).Draw(t, "n") {
		if i > 0 {
			b = append(append(b, ','), ws.Draw(t, "ws")...)
		}
		if kind == 4 {
			b = append(strictjson.AppendString(b, anyText().Draw(t, "key")), ':')
		}
		b = append(append(b, drawJSON(t, depth-1)...), ws.Draw(t, "ws")...)
	}
	return append(b, closing)
}

// anyPart draws the fields of any kind of part.
func anyPart() *rapid.Generator[Part] {
	return rapid.Custom(func(t *rapid.T) Part {
		i := rapid.IntRange(0, len(kinds)).Draw(t, "kind")
		if i == len(kinds) {
			b := append([]byte(`{ "x":`), anyJSON().Draw(t, "x")...)
			return Unknown{Type: "hologram", Raw: append(b, `, "type" : "hologram"}`...)}
		}
		v := reflect.New(reflect.TypeOf(kinds[i])).Elem()
		drawFields(t, v)
		return v.Interface().(Part)
	})
}

func drawFields(t *rapid.T, v reflect.Value) {
	switch v.Interface().(type) {
	case string:
		v.SetString(anyText().Draw(t, "text"))
	case bool:
		v.SetBool(rapid.Bool().Draw(t, "flag"))
	case json.RawMessage:
		v.SetBytes(anyJSON().Draw(t, "raw"))
	case []byte:
		v.SetBytes(rapid.SliceOfN(rapid.Byte(), 1, 9).Draw(t, "bytes"))
	case *Native:
		if rapid.Bool().Draw(t, "native") {
			v.Set(reflect.New(v.Type().Elem()))
			drawFields(t, v.Elem())
		}
	case []Media:
		for range rapid.IntRange(0, 2).Draw(t, "media") {
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
			drawFields(t, v.Index(v.Len()-1))
		}
	default:
		for i := range v.NumField() {
			drawFields(t, v.Field(i))
		}
	}
}

func anyMessage() *rapid.Generator[Message] {
	return rapid.Custom(func(t *rapid.T) Message {
		m := Message{Role: rapid.SampledFrom([]Role{RoleUser, RoleAssistant, RoleTool, "critic"}).Draw(t, "role")}
		for range rapid.IntRange(0, 4).Draw(t, "parts") {
			m.Parts = append(m.Parts, anyPart().Draw(t, "part"))
		}
		if rapid.Bool().Draw(t, "extra") {
			m.Extra = []byte{'{'}
			for i := range rapid.IntRange(1, 3).Draw(t, "members") {
				name := rapid.SampledFrom([]string{"later", "Later", "role ", "\ufffd"}).Draw(t, "name")
				m.Extra = append(m.Extra, []string{"", ","}[min(i, 1)]...)
				m.Extra = append(append(m.Extra, fmt.Sprintf("%q:", name)...), anyJSON().Draw(t, "value")...)
			}
			m.Extra = append(m.Extra, '}')
		}
		return m
	})
}
