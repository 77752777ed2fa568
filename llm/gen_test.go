package llm

import (
	"encoding/json"

	"pgregory.net/rapid"
)

// What the property tests draw from. Raw JSON is never blank: the empty forms have tests of their own.

// anyText holds quotes, controls, HTML, long lines, and characters of every UTF-8 length.
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
		return appendString(nil, anyText().Draw(t, "string"))
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
			b = append(appendString(b, anyText().Draw(t, "key")), ':')
		}
		b = append(append(b, drawJSON(t, depth-1)...), ws.Draw(t, "ws")...)
	}
	return append(b, closing)
}

func anyNative() *rapid.Generator[*Native] {
	return rapid.Custom(func(t *rapid.T) *Native {
		if rapid.Bool().Draw(t, "neutral") {
			return nil
		}
		return &Native{Provider: anyText().Draw(t, "provider"), Data: anyJSON().Draw(t, "data")}
	})
}

func anyMedia() *rapid.Generator[Media] {
	return rapid.Custom(func(t *rapid.T) Media {
		text, native := anyText(), anyNative()
		data := rapid.SliceOfN(rapid.Byte(), 1, 9).Draw(t, "data")
		return Media{text.Draw(t, "type"), text.Draw(t, "name"), data, text.Draw(t, "url"), native.Draw(t, "native")}
	})
}

func anyPart() *rapid.Generator[Part] {
	return rapid.Custom(func(t *rapid.T) Part {
		text, raw, native := anyText(), anyJSON(), anyNative()
		switch rapid.IntRange(0, 6).Draw(t, "part") {
		case 0:
			return Text{text.Draw(t, "text"), native.Draw(t, "native")}
		case 1:
			return Reasoning{text.Draw(t, "text"), native.Draw(t, "native")}
		case 2:
			return ToolCall{text.Draw(t, "id"), text.Draw(t, "name"), raw.Draw(t, "args"), text.Draw(t, "pid"), native.Draw(t, "native")}
		case 3:
			r := ToolResult{Call: text.Draw(t, "call"), Name: text.Draw(t, "name"), Output: raw.Draw(t, "output"), Error: rapid.Bool().Draw(t, "error")}
			for range rapid.IntRange(0, 2).Draw(t, "media") {
				r.Media = append(r.Media, anyMedia().Draw(t, "medium"))
			}
			return r
		case 4:
			return anyMedia().Draw(t, "media")
		case 5:
			return Opaque{Native{Provider: text.Draw(t, "provider"), Data: raw.Draw(t, "data")}}
		}
		b := append([]byte(`{ "x":`), raw.Draw(t, "x")...)
		return Unknown{Type: "hologram", Raw: append(b, `, "type" : "hologram"}`...)}
	})
}

func anyMessage() *rapid.Generator[Message] {
	return rapid.Custom(func(t *rapid.T) Message {
		m := Message{Role: rapid.SampledFrom([]Role{RoleUser, RoleAssistant, RoleTool, "critic"}).Draw(t, "role")}
		for range rapid.IntRange(0, 4).Draw(t, "parts") {
			m.Parts = append(m.Parts, anyPart().Draw(t, "part"))
		}
		if rapid.Bool().Draw(t, "extra") {
			m.Extra = append(append([]byte(`{"later":`), anyJSON().Draw(t, "later")...), '}')
		}
		return m
	})
}
