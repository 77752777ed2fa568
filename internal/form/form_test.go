package form_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/internal/form"
	"github.com/fermata-ai/fermata/tool/misfit"
)

// Each kind of schema has its fields.
func TestFieldsOfASchema(t *testing.T) {
	for schema, want := range map[string][]string{
		``:                                   {"f json Answer needed"},
		`true`:                               {"f json Answer needed"},
		`{"type":"string"}`:                  {"f text Answer"},
		`{"type":"string","minLength":1}`:    {"f text Answer needed"},
		`{"type":"integer","minimum":0}`:     {"f number Answer needed numeric"},
		`{"type":"number","minimum":0.5}`:    {"f number Answer needed decimal"},
		`{"type":"number","title":"Height"}`: {"f number Height needed"},
		`{"type":"boolean"}`:                 {"f choice Answer needed Yes=true No=false"},
		`{"enum":["a",1,null]}`:              {`f choice Answer needed a="a" 1=1 None=null`},
		`{"const":"ok"}`:                     {`f choice Answer needed ok="ok"`},
		`{"type":["integer","null"]}`:        {"f number Answer"},
		`{"anyOf":[{"type":"null"},{"type":"boolean","description":"D"}]}`: {
			"f choice Answer Yes=true No=false (D)"},
		`{"type":"array","items":{"type":"string"}}`: {"f json Answer needed"},
		`{"oneOf":[{"type":"string"},{"type":"integer"}]}`: {
			"f json Answer needed"},
		`{"type":"object","required":["b"],"properties":{"b":{"type":"string","description":"The B"},` +
			`"a":{"type":"string","maxLength":500},"c":{"type":"object"},"d":true}}`: {
			"f0 line b (The B)", "f1 text a", "f2 json c", "f3 json d"},
		`{"type":"object","required":["n","x"],"properties":{"n":{"type":"integer"},` +
			`"x":{"$ref":"#/$defs/X"}},"$defs":{"X":{"type":"boolean"}}}`: {
			"f0 number n needed", "f1 choice x needed Yes=true No=false"},
		`{"type":"object","properties":{"a":{}},"oneOf":[{"required":["a"]}]}`: {"f json Answer needed"},
		`{"type":"object","required":["z"],"properties":{"a":{}}}`:             {"f json Answer needed"},
		`{"type":"object"}`:                            {"f json Answer needed"},
		"{\"type\":\"string\",\"title\":\"a\u202eb\"}": {`f text a\u202eb`},
	} {
		var got []string
		for _, f := range form.Of(json.RawMessage(schema)).Fields {
			line := f.Name + " " + string(f.Kind) + " " + f.Label
			if f.Needed {
				line += " needed"
			}
			if f.InputMode != "" {
				line += " " + f.InputMode
			}
			for _, o := range f.Options {
				line += " " + o.Label + "=" + value(t, schema, f.Name, o.Value)
			}
			if f.Hint != "" {
				line += " (" + f.Hint + ")"
			}
			got = append(got, line)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", schema, diff)
		}
	}
}

// value returns what a field makes of a text.
func value(t *testing.T, schema, name, text string) string {
	t.Helper()
	out, _ := form.Of(json.RawMessage(schema)).Fill(url.Values{name: {text}})
	var object map[string]json.RawMessage
	if json.Unmarshal(out, &object) == nil {
		for _, v := range object {
			return string(v)
		}
	}
	return string(out)
}

// What is filled in is the JSON that a person means; what is left empty is left
// out, or null, or the empty text.
func TestWhatIsFilledIn(t *testing.T) {
	const object = `{"type":"object","required":["s","n"],"properties":{"s":{"type":"string"},` +
		`"n":{"type":["integer","null"]},"o":{"type":"string"},"j":{}}}`
	for _, c := range []struct{ schema, sent, want string }{
		{`{"type":"string"}`, "f=a%0D%0A%22b%3C", `"a\n\"b<"`},
		{`{"type":"string"}`, "f=+", `" "`},
		{`{"type":"string"}`, "", `""`},
		{`{"type":"integer"}`, "f=+9007199254740993+", `9007199254740993`},
		{`{"type":"number"}`, "f=-1.50", `-1.50`},
		{`{"type":"number"}`, "f=1,5", `! must be a number, in digits`},
		{`{"type":"number"}`, "f=%2B1", `! must be a number, in digits`},
		{`{"type":"number"}`, "f=NaN", `! must be a number, in digits`},
		{`{"type":"number"}`, "f=true", `! must be a number, in digits`},
		{`{"type":"integer"}`, "", `! is required`},
		{`{"type":["integer","null"]}`, "", `null`},
		{`{"type":"boolean"}`, "f=1", `false`},
		{`{"type":"boolean"}`, "f=true", `! must be one of the choices`},
		{`{}`, "f={\"a\":1}", `{"a":1}`},
		{`{}`, "f=null", `null`},
		{`{}`, "f={", `! must be JSON: a text stands in "quotes", a list in [brackets]`},
		{object, "", `{"s":"","n":null}`},
		{object, "f0=x&f1=2&f2=y&f3=[1]&f9=z&s=z", `{"s":"x","n":2,"o":"y","j":[1]}`},
	} {
		sent, err := url.ParseQuery(c.sent)
		if err != nil {
			t.Fatal(err)
		}
		f := form.Of(json.RawMessage(c.schema))
		out, ok := f.Fill(sent)
		got := string(out)
		if !ok {
			got = "! " + f.Fields[0].Fault
		}
		if got != c.want {
			t.Errorf("%s filled with %s is %s, not %s", c.schema, c.sent, got, c.want)
		}
	}
}

// A fault stands beside the field that it is about.
func TestFaultsStandBesideTheirFields(t *testing.T) {
	f := form.Of(json.RawMessage(`{"type":"object","properties":{"a/b":{},"a":{}}}`))
	rest := f.Blame([]misfit.Fault{{Path: "/a~1b/0", Message: "one"}, {Path: "/a~1b", Message: "two"},
		{Path: "", Message: "three"}, {Path: "/ab", Message: "four"}})
	if f.Fields[0].Fault != "one; two" || f.Fields[1].Fault != "" || len(rest) != 2 {
		t.Errorf("%q, %q, %v", f.Fields[0].Fault, f.Fields[1].Fault, rest)
	}
	whole := form.Of(nil)
	if rest := whole.Blame([]misfit.Fault{{Path: "/x", Message: "one"}}); len(rest) != 0 {
		t.Errorf("what an answer's parts lack is shown beside no field: %v", rest)
	}
}

// JSON is shown as it will be read: in order, digit for digit, with nothing that
// hides or turns around what stands beside it.
func TestPrint(t *testing.T) {
	for in, want := range map[string]string{
		`{"b":1.0e2,"a":{"x":[1,"\u003cb\u003e"],"y":[],"z":{}},"b":2}`: "{\n  \"b\": 1.0e2,\n" +
			"  \"a\": {\n    \"x\": [\n      1,\n      \"<b>\"\n    ],\n    \"y\": [],\n" +
			"    \"z\": {}\n  },\n  \"b\": 2\n}",
		`"\u202egnp\u200b\ud83d\udc69\u200d\ud83d\udcbb\u0007\n"`: `"\u202egnp\u200b👩‍💻\u0007\n"`,
		"{\"a\u2066\":null}": "{\n  \"a\\u2066\": null\n}",
		"no JSON\x1b":        `no JSON\u001b`,
		"\"\U000e0041\"":     `"\U000e0041"`,
	} {
		if got := form.Print(json.RawMessage(in)); got != want {
			t.Errorf("%s is printed as\n%s\nnot\n%s", in, got, want)
		}
	}
	if text := "tab\tand\nbreak, ü, 👩‍💻"; form.Visible(text) != text {
		t.Errorf("%q is shown as %q", text, form.Visible(text))
	}
}

// Whatever a schema is, and whatever is sent, a form makes JSON or tells why not.
func FuzzForm(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"type":"integer"}}}`, "f0=1")
	f.Add(`{"enum":["a"]}`, "f=0")
	f.Add(`{"$defs":{"X":{"$ref":"#/$defs/X"}},"$ref":"#/$defs/X"}`, "f=[]")
	f.Fuzz(func(t *testing.T, schema, sent string) {
		values, err := url.ParseQuery(sent)
		if err != nil {
			return
		}
		of := form.Of(json.RawMessage(schema))
		out, ok := of.Fill(values)
		if ok && !json.Valid(out) {
			t.Errorf("%s filled with %q is %q", schema, sent, out)
		}
		blamed := false
		for _, field := range of.Fields {
			blamed = blamed || field.Fault != ""
			for _, r := range fmt.Sprint(field.Label, field.Hint, field.Options) {
				if r == '\u202e' {
					t.Errorf("%q turns text around", field.Label)
				}
			}
		}
		if ok == blamed {
			t.Errorf("%s filled with %q: ok %v, a fault %v", schema, sent, ok, blamed)
		}
		if strings.ContainsRune(form.Print(json.RawMessage(sent)), '\u202e') {
			t.Errorf("%q is printed with what turns text around", sent)
		}
	})
}
