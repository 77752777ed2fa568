package form

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/strictjson"
)

// Print returns JSON as a person reads it: a member a line, in its order,
// strings without needless escapes, numbers digit for digit. Characters that
// can't be seen, or that turn the order of others around, stand as escapes. What
// is no JSON is returned as text.
func Print(value json.RawMessage) string {
	v, err := jsontree.Parse(value)
	if err != nil {
		return Visible(string(value))
	}
	var b strings.Builder
	write(&b, v, "")
	return b.String()
}

func write(b *strings.Builder, v any, indent string) {
	deeper := indent + "  "
	switch v := v.(type) {
	case *jsontree.Object:
		if len(v.Members) == 0 {
			b.WriteString("{}")
			return
		}
		b.WriteString("{")
		for i, m := range v.Members {
			separate(b, i, deeper)
			b.WriteString(Visible(string(quote(m.Key))) + ": ")
			write(b, m.Value, deeper)
		}
		b.WriteString("\n" + indent + "}")
	case []any:
		if len(v) == 0 {
			b.WriteString("[]")
			return
		}
		b.WriteString("[")
		for i, e := range v {
			separate(b, i, deeper)
			write(b, e, deeper)
		}
		b.WriteString("\n" + indent + "]")
	case json.RawMessage:
		if len(v) > 0 && v[0] == '"' {
			v = quote(strictjson.Unquote(v))
		}
		b.WriteString(Visible(string(v)))
	}
}

func separate(b *strings.Builder, i int, indent string) {
	if i > 0 {
		b.WriteString(",")
	}
	b.WriteString("\n" + indent)
}

// Visible returns a text in which characters that can't be seen, or that change
// the direction of others, stand as escapes. Line breaks and tabs stay, and so
// do the joiners that scripts and emoji need.
func Visible(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < 0x20, r >= 0x7f && r < 0xa0: // controls
		return true
	case r == 0xad, r == 0x200b, r == 0xfeff, r == 0x2028, r == 0x2029: // no width, or a break
		return true
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069: // directions
		return true
	case r >= 0x2060 && r <= 0x2064, r >= 0xe0000 && r <= 0xe0fff: // invisible, tags
		return true
	}
	return false
}
