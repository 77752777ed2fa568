package gotype

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/internal/strictjson"
)

type plainPart struct {
	Name string  `json:"name" jsonschema:"What it is called"`
	Size float64 `json:"size,omitempty"`
}

// plainInput has the types of nearly every tool's arguments.
type plainInput struct {
	Text    string               `json:"text" jsonschema:"Some text"`
	Kind    string               `json:"kind" jsonschema:"enum=small,enum=large"`
	Yes     bool                 `json:"yes"`
	I       int                  `json:"i" jsonschema:"minimum=0,maximum=100"`
	I8      int8                 `json:"i8"`
	I64     int64                `json:"i64"`
	U32     uint32               `json:"u32"`
	U64     uint64               `json:"u64"`
	F32     float32              `json:"f32"`
	F64     float64              `json:"f64"`
	Wait    time.Duration        `json:"wait"`
	Maybe   *string              `json:"maybe"`
	List    []string             `json:"list"`
	Numbers []int                `json:"numbers"`
	ByName  map[string]int       `json:"by_name"`
	Part    plainPart            `json:"part"`
	Parts   []plainPart          `json:"parts"`
	Named   map[string]plainPart `json:"named"`
	Kids    []*plainInput        `json:"kids,omitempty"`
	Raw     json.RawMessage      `json:"raw"`
	Any     any                  `json:"any"`
	Unset   string               `json:"unset,omitempty" jsonschema:"default=x"`
}

const plainArguments = `{"text":"a","kind":"small","yes":true,"i":7,"i8":-8,"i64":9007199254740993,
	"u32":1,"u64":18446744073709,"f32":1.5,"f64":-2e10,"wait":1000,"maybe":null,"list":["a","b"],
	"numbers":[1,2],"by_name":{"a":1},"part":{"name":"p","size":0.5},
	"parts":[{"name":"q"}],"named":{"r":{"name":"r"}},"raw":{"x":[1]},"any":[null]%s}`

// A plain object of a plain type takes the fast path of the check. If inference
// wrote anything into a schema that the fast path doesn't know, each call would
// pay for it.
func TestPlainObjectsTakeTheFastPath(t *testing.T) {
	in, err := NewInput[plainInput](nil)
	if err != nil {
		t.Fatal(err)
	}
	kid := plainDoc(t, "")
	fast := func(s *schema.Schema, d strictjson.Doc) {
		t.Helper()
		if !s.FitsPlainly(d) {
			t.Errorf("the full validator is asked about %s", d.Text)
		}
	}
	fast(in.Check, kid)
	fast(in.Check, plainDoc(t, `,"kids":[`+kid.Text+`]`))
	if _, err := in.Read(kid, nil); err != nil {
		t.Error(err)
	}
	out, err := NewOutput[plainInput](nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.Compile(out.Exact)
	if err != nil {
		t.Fatal(err)
	}
	fast(s, plainDoc(t, `,"kids":[],"unset":"y"`))
	answer, err := NewAnswer[plainPart]()
	if err != nil {
		t.Fatal(err)
	}
	d, err := strictjson.Parse(`{"name":"a"}`, strictjson.Strict(true))
	if err != nil {
		t.Fatal(err)
	}
	fast(answer.check, d)
}

func plainDoc(t *testing.T, more string) strictjson.Doc {
	t.Helper()
	text := plainArguments[:len(plainArguments)-len("%s}")] + more + "}"
	d, err := strictjson.Parse(text, strictjson.Strict(true))
	if err != nil {
		t.Fatal(err)
	}
	return d
}
