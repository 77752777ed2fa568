package modeltext

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

// PlainJSON returns JSON in the form in which a model should read it as text:
// the escapes \u003c, \u003e, \u0026, \u2028 and \u2029, which json.Marshal
// writes for <, >, & and two line breaks, are what they stand for. Models take
// them for broken code. All else stays byte for byte, other escapes included;
// what has none of them is returned as it is, without a copy.
func PlainJSON(raw json.RawMessage) json.RawMessage {
	if !bytes.Contains(raw, []byte(`\u`)) {
		return raw
	}
	var out []byte
	from := 0
	for i := 0; i < len(raw); {
		if raw[i] != '\\' { // JSON has backslashes in its strings only
			i++
			continue
		}
		r, n := strictjson.Rune(raw[i:])
		if n == 0 {
			i += 2 // an escaped backslash must not lend its second half to what follows
			continue
		}
		if needless(r) {
			out = utf8.AppendRune(append(out, raw[from:i]...), r)
			from = i + n
		}
		i += n
	}
	if from == 0 {
		return raw
	}
	return append(out, raw[from:]...)
}

func needless(r rune) bool {
	switch r {
	case '<', '>', '&', '\u2028', '\u2029':
		return true
	}
	return false
}
