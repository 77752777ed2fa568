package strictjson

import (
	"encoding/json"
	"strings"
)

// Doc is a text that was parsed. Nothing changes it any more: any goroutine may
// keep it, pass it on, and read it.
type Doc struct {
	Text string // a copy of what was given
	// Root is the tree of the text: a [String], a [Number], an [Object], an
	// [Array], a bool, or nil for null. The parts have their places in the
	// text, so that one can be replaced there: see [Edit].
	//
	// The tree is as small as it can be, since a large text of small parts is
	// many times larger as a tree.
	Root any
}

// String is a string that stands at a byte of the text.
type String struct {
	Text  string // what it says
	Start int    // where its opening quote stands
}

// Number is a number as it is written, which stands at a byte of the text.
type Number struct {
	Text  string
	Start int
}

// Array is an array.
type Array []any

// Object is an object, its members in the order in which they stand.
type Object struct {
	Members []Member
	End     int // where its closing brace stands
}

// Member is a member of an object.
type Member struct {
	Name  string
	Value any
}

// Plain returns a tree as encoding/json makes it, with json.Number for numbers.
// It shares nothing with v that can be changed.
func Plain(v any) any {
	switch v := v.(type) {
	case String:
		return v.Text
	case Number:
		return json.Number(v.Text)
	case Array:
		list := make([]any, len(v))
		for i := range v {
			list[i] = Plain(v[i])
		}
		return list
	case Object:
		m := make(map[string]any, len(v.Members))
		for i := range v.Members {
			m[v.Members[i].Name] = Plain(v.Members[i].Value)
		}
		return m
	}
	return v
}

// Edit replaces parts of a text, from its beginning to its end.
type Edit struct {
	text   string
	out    strings.Builder
	copied int // up to here the text is in out
}

// NewEdit begins to replace parts of a text.
func NewEdit(text string) *Edit { return &Edit{text: text} }

// Replace writes with in place of the text from start to end.
func (e *Edit) Replace(start, end int, with string) {
	e.out.WriteString(e.text[e.copied:start])
	e.out.WriteString(with)
	e.copied = end
}

// ReplaceString writes with in place of a string of the text's tree.
func (e *Edit) ReplaceString(s String, with string) {
	end := s.Start + 1
	for e.text[end] != '"' {
		if e.text[end] == '\\' {
			end++
		}
		end++
	}
	e.Replace(s.Start, end+1, with)
}

// Result returns the text with all replacements.
func (e *Edit) Result() string {
	if e.out.Len() == 0 {
		return e.text[e.copied:]
	}
	return e.out.String() + e.text[e.copied:]
}
