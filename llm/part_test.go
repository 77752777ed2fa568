package llm

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/internal/scribble"
)

// rows has a value of each kind of part in the table, and Unknown.
func rows() []Part { return append(kinds[:len(kinds):len(kinds)], Unknown{}) }

// The table is complete: every type with a part's methods has its row, its case
// in over, a reader, and stored forms in the tests.
func TestEveryKindOfPartHasItsRow(t *testing.T) {
	listed := map[string]bool{}
	names := map[string]bool{}
	for _, p := range rows() {
		typ := reflect.TypeOf(p)
		listed[typ.Name()] = true
		if names[p.kind()] {
			t.Errorf("two kinds of part have the type %q", p.kind())
		}
		names[p.kind()] = true
		if _, ok := reflect.New(typ).Interface().(json.Unmarshaler); !ok {
			t.Errorf("%s can't be read by itself", typ)
		}
		if f := (&pass{do: sizing}); !f.over(p) {
			t.Errorf("over doesn't know %s", typ)
		}
		has := false
		for _, f := range forms {
			has = has || reflect.TypeOf(f.part) == typ
		}
		if !has {
			t.Errorf("no form of %s is in the tests", typ)
		}
	}
	files, _ := filepath.Glob("*.go")
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			m, ok := d.(*ast.FuncDecl)
			if !ok || m.Recv == nil || m.Name.Name != "fields" {
				continue
			}
			if typ := m.Recv.List[0].Type.(*ast.Ident).Name; !listed[typ] {
				t.Errorf("%s is a kind of part, and has no row", typ)
			}
		}
	}
}

// filled returns a part of each kind whose fields all hold something.
func filled(s, raw string) []Part {
	var all []Part
	for _, row := range kinds {
		v := reflect.New(reflect.TypeOf(row)).Elem()
		fillPart(v, s, raw)
		all = append(all, v.Interface().(Part))
	}
	return append(all, Unknown{Type: "new" + s, Raw: json.RawMessage(`{"type":"new` + s + `","x":` + raw + `}`)})
}

func fillPart(v reflect.Value, s, raw string) {
	switch v.Interface().(type) {
	case string:
		v.SetString(s)
	case bool:
		v.SetBool(true)
	case json.RawMessage:
		v.SetBytes([]byte(raw))
	case []byte:
		v.SetBytes([]byte(s))
	case *Native:
		v.Set(reflect.New(v.Type().Elem()))
		fillPart(v.Elem(), s, raw)
	case []Media:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fillPart(v.Index(0), s, raw)
		fillPart(v.Index(1), s, raw)
	default:
		for i := range v.NumField() {
			fillPart(v.Field(i), s, raw)
		}
	}
}

// Whatever a part may hold is written, read again, copied and counted, as well
// as cleaned: no field is forgotten.
func TestEveryFieldOfAPartIsVisited(t *testing.T) {
	const raw = `{ "a" : 1.0e2, "a" : "\/\u003c" }`
	parts := filled("s", raw)
	for i, p := range parts {
		b, err := p.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := readPart(b); err != nil || !cmp.Equal(p, back) {
			t.Errorf("%T, %v (-want +got):\n%s", p, err, cmp.Diff(p, back))
		}
		for _, name := range fieldsOf(reflect.TypeOf(p)) {
			if !strings.Contains(string(b), `"`+name+`":`) {
				t.Errorf("%T is written without %s: %s", p, name, b)
			}
		}
		if size := partSize(p); size < len(b) || size > len(b)+10*partCost {
			t.Errorf("%T counts %d for %d bytes", p, size, len(b))
		}
		own := clonePart(p)
		if d := cmp.Diff(p, own); d != "" {
			t.Errorf("a copy of %T differs (-want +got):\n%s", p, d)
		}
		scribble.Over(own)
		// By hand, for those that are copied alone and often.
		if c := reflect.ValueOf(p).MethodByName("Clone"); c.IsValid() {
			own := c.Call(nil)[0].Interface()
			if d := cmp.Diff(filled("s", raw)[i], own); d != "" {
				t.Errorf("Clone of %T differs (-want +got):\n%s", p, d)
			}
			scribble.Over(own)
		}
		if d := cmp.Diff(filled("s", raw)[i], p); d != "" {
			t.Errorf("a copy of %T shares something (-want +got):\n%s", p, d)
		}
	}
	clean := filled("a\uFFFD", `"\ufffd"`)
	for i, p := range filled("a\xff", `"\ud800"`) {
		got := Message{Parts: []Part{p}}.Clean().Parts[0]
		// No text.
		opt := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().Type() == reflect.TypeFor[[]byte]() }, cmp.Ignore())
		if d := cmp.Diff(clean[i], got, opt); d != "" {
			t.Errorf("%T is cleaned otherwise (-want +got):\n%s", p, d)
		}
	}
}

// fieldsOf returns the names that a part's fields have in the JSON form.
func fieldsOf(t reflect.Type) (names []string) {
	if t == reflect.TypeFor[Unknown]() {
		return nil
	}
	for i := range t.NumField() {
		var name strings.Builder
		for j, c := range strings.NewReplacer("ID", "Id", "URL", "Url").Replace(t.Field(i).Name) {
			if j > 0 && c >= 'A' && c <= 'Z' {
				name.WriteByte('_')
			}
			name.WriteString(strings.ToLower(string(c)))
		}
		names = append(names, name.String())
	}
	return names
}

// A part is refused in the messages of those it can't be from, and where it
// lacks what every provider wants.
func TestCheckPart(t *testing.T) {
	for _, p := range filled("s", "{}") {
		for _, role := range []Role{RoleUser, RoleAssistant, RoleTool, "critic"} {
			_, call := p.(ToolCall)
			_, thought := p.(Reasoning)
			_, result := p.(ToolResult)
			_, notice := p.(Notice)
			tools := result || notice
			want := role == RoleTool && tools || role == RoleAssistant && !tools || role == RoleUser && !tools && !call && !thought
			if err := CheckPart(role, p); (err == nil) != want {
				t.Errorf("%T of %s: %v", p, role, err)
			}
		}
	}
	for want, p := range map[string]Part{
		"the text is blank":                                  Text{Text: " \n"},
		"the media has no type":                              Media{URL: "u"},
		"the media has neither data nor URL":                 Media{MediaType: "a/b"},
		"<nil> doesn't belong in a message of role user":     nil,
		"*llm.Text doesn't belong in a message of role user": &Text{Text: "a"},
	} {
		if err := CheckPart(RoleUser, p); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := CheckPart(RoleTool, Notice{Handle: "build", Text: " "}); err == nil {
		t.Error("a notice may say nothing")
	}
	if err := CheckPart(RoleTool, ToolResult{Output: raw("1"), Media: []Media{{}}}); err == nil {
		t.Error("a result's media may lack everything")
	}
}
