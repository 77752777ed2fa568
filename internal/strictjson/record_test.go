package strictjson_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

type mark []byte

func (m mark) AppendText(b []byte) ([]byte, error) { return append(b, m...), nil }

func (m *mark) UnmarshalText(b []byte) error {
	*m = append(mark(nil), b...)
	return nil
}

type inner struct {
	At   time.Time       `json:"at"`
	Raw  json.RawMessage `json:"raw,omitzero"`
	Rest strictjson.Rest
}

type base struct {
	Count int `json:"count,omitzero"`
}

type record struct {
	Version int             `json:"v"`
	Name    string          `json:"name,omitempty"`
	Ok      bool            `json:"ok,omitzero"`
	Until   time.Time       `json:"until,omitzero"`
	Raw     json.RawMessage `json:"raw,omitempty"`
	Secret  []byte          `json:"secret,omitempty"`
	Part    float64         `json:"part,omitempty"`
	Size    uint64          `json:"size,omitzero"`
	Mark    mark            `json:"mark,omitzero"`
	base
	Own   inner    `json:"own,omitzero"`
	One   *inner   `json:"one,omitzero"`
	Many  []inner  `json:"many,omitempty"`
	Ptrs  []*inner `json:"ptrs,omitempty"`
	Names []string `json:"names,omitempty"`
	Rest  strictjson.Rest

	_ int // of no record
}

var at = time.Date(2026, 1, 2, 3, 4, 5, 670_000_000, time.UTC)

// oddRaw is JSON that a careless writer would not leave as it is.
const oddRaw = ` { "a":1.0e2, "a" : "\u003c\/\ud800" , "b":-0 } `

func TestARecordIsReadAsItWasWritten(t *testing.T) {
	odd := strings.TrimSpace(oddRaw)
	for _, c := range []struct {
		record record
		text   string
	}{
		{record{}, `{"v":0}`},
		{record{Version: 1, Names: []string{}}, `{"v":1}`},
		{record{Version: -1, Name: "<\"é\u2028&\n\x01>", Ok: true, Until: at},
			`{"v":-1,"name":"<\"é` + "\u2028" +
				`&\n\u0001>","ok":true,"until":"2026-01-02T03:04:05.67Z"}`},
		{record{Raw: json.RawMessage(odd), Own: inner{At: at, Raw: json.RawMessage("null")}},
			`{"v":0,"raw":` + odd + `,"own":{"at":"2026-01-02T03:04:05.67Z","raw":null}}`},
		{record{Secret: []byte{1, 255}, Part: 0.25, Size: 1<<64 - 1, Mark: mark("a\n_-"),
			base: base{7}},
			`{"v":0,"secret":"Af8=","part":0.25,"size":18446744073709551615,"mark":"a\n_-",` +
				`"count":7}`},
		{record{One: &inner{At: at}, Many: []inner{{At: at}, {At: at}}, Ptrs: []*inner{{At: at}}},
			`{"v":0,"one":{"at":"2026-01-02T03:04:05.67Z"},` +
				`"many":[{"at":"2026-01-02T03:04:05.67Z"},{"at":"2026-01-02T03:04:05.67Z"}],` +
				`"ptrs":[{"at":"2026-01-02T03:04:05.67Z"}]}`},
		{record{Names: []string{"x"},
			Rest: strictjson.Rest(`"later":{"b":[1, 2],"b":3},"than":null`),
			Many: []inner{{At: at, Rest: strictjson.Rest(`"x":"\u003c"`)}}},
			`{"v":0,"many":[{"at":"2026-01-02T03:04:05.67Z","x":"\u003c"}],"names":["x"],` +
				`"later":{"b":[1, 2],"b":3},"than":null}`},
	} {
		written, err := strictjson.Append([]byte("x"), &c.record)
		if err != nil || string(written) != "x"+c.text {
			t.Errorf("it is written as\n%s, %v, and not as\n%s", written, err, c.text)
		}
		var again record
		if err := strictjson.Read([]byte(c.text), &again); err != nil {
			t.Errorf("%s is read with %v", c.text, err)
		}
		if c.record.Names != nil && len(c.record.Names) == 0 {
			c.record.Names = nil
		}
		if d := cmp.Diff(c.record, again, cmp.AllowUnexported(record{})); d != "" {
			t.Errorf("%s is read otherwise than it was:\n%s", c.text, d)
		}
		spaces := strings.NewReplacer(`{"v"`, " {\n\t\"v\"", `,"many"`, ` , "many"`, "}}", "} }")
		spaced := spaces.Replace(c.text)
		if err := strictjson.Read([]byte(spaced), &again); err != nil {
			t.Errorf("%s is read with %v", spaced, err)
		}
	}
}

func TestWhatNoVersionWritesIsNoRecord(t *testing.T) {
	for text, reason := range map[string]string{
		``:                               "early",
		`null`:                           "null",
		`[]`:                             "expected",
		`{"v":1`:                         "early",
		`{"v":1} {}`:                     "after",
		`{"v":1,}`:                       "",
		`{}`:                             `"v" is missing`,
		`{"V":1}`:                        `"V" is not "v"`,
		`{"v":1,"v":1}`:                  `"v" is there twice`,
		`{"v":1,"\u0076":1}`:             `"v" is there twice`,
		`{"v":1,"Raw":1}`:                `"Raw" is not "raw"`,
		`{"v":1,"\u0052aw":1}`:           `"Raw" is not "raw"`,
		`{"v":1,"x":1,"x":1}`:            `"x" is there twice`,
		`{"v":null}`:                     "null",
		`{"v":1,"one":null}`:             "null",
		`{"v":1,"one":{}}`:               `"at" is missing`,
		`{"v":1,"many":[null]}`:          "null",
		`{"v":1,"ptrs":[null]}`:          "null",
		`{"v":1,"names":[null]}`:         "null",
		`{"v":1,"many":{}}`:              "expected",
		`{"v":"1"}`:                      "",
		`{"v":1.0}`:                      "",
		`{"v":1,"ok":"true"}`:            "",
		`{"v":1,"ok":1}`:                 "",
		`{"v":1,"until":"yesterday"}`:    "",
		`{"v":1,"secret":"*"}`:           "",
		`{"v":1,"size":-1}`:              "",
		`{"v":1,"v":1,"raw":{"a":01}}`:   "",
		"{\"v\":1,\"name\":\"\x01\"}":    "",
		`{"v":1,"many":[{"at":5}]}`:      "",
		`{"v":1,"own":{"at":"","at":2}}`: "",
	} {
		var r record
		err := strictjson.Read([]byte(text), &r)
		if e, ok := errors.AsType[*strictjson.Error](err); !ok ||
			!strings.Contains(e.Reason, reason) {
			t.Errorf("%s is read with the error %v, not one of %q", text, err, reason)
		}
	}
	var r record
	err := strictjson.Read([]byte(`{"v":1,"many":[{"at":"2026-01-02T03:04:05Z"},{"At":1}]}`), &r)
	if e, ok := errors.AsType[*strictjson.Error](err); !ok || e.Pointer != "/many/1/At" ||
		e.Offset != 50 {
		t.Errorf("the error is at %+v", err)
	}
}

// A closed record has no members but its own, at any depth; a raw value has any.
func TestAClosedRecord(t *testing.T) {
	for text, want := range map[string]string{
		`{"v":1,"nme":"x"}`: `there is no member "nme" (at byte 12, in /nme)`,
		`{"v":1,"many":[{"at":"2026-01-02T03:04:05Z","x":1}]}`: `no member "x" (at byte 47, in /many/0/x)`,
		`{"v":1,"one":{"at":"2026-01-02T03:04:05Z","rest":1}}`: `no member "rest"`,
		`{"v":1,"Name":"x"}`: `the member "Name" is not "name"`,
	} {
		var r record
		if err := strictjson.ReadClosed([]byte(text), &r); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s is refused with: %v", text, err)
		}
	}
	var r record
	err := strictjson.ReadClosed([]byte(`{"v":1,"raw":{"x":1},"count":2}`), &r)
	if err != nil || string(r.Raw) != `{"x":1}` || r.Count != 2 {
		t.Errorf("it is read as %+v: %v", r, err)
	}
}

func TestWhatCannotBeWritten(t *testing.T) {
	for _, raw := range []string{"{", "1 2", "nul", " "} {
		r := record{Raw: json.RawMessage(raw)}
		if b, err := strictjson.Append([]byte("x"), r); err == nil || string(b) != "x" {
			t.Errorf("%q is written as %s", raw, b)
		}
	}
}

// What is stored in invalid UTF-8 is read, as by encoding/json.
func TestInvalidUTF8(t *testing.T) {
	var r record
	stored := "{\"v\":1,\"name\":\"a\xffb\\ud800\",\"raw\":\"\xff\"}"
	if err := strictjson.Read([]byte(stored), &r); err != nil {
		t.Fatal(err)
	}
	if r.Name != "a\ufffdb\ufffd" || string(r.Raw) != "\"\xff\"" {
		t.Errorf("it is read as %q and %q", r.Name, r.Raw)
	}
	b, err := strictjson.Append(nil, &record{Name: "a\xff"})
	if err != nil || string(b) != "{\"v\":0,\"name\":\"a\ufffd\"}" {
		t.Errorf("it is written as %q, %v", b, err)
	}
}

// A type that the package can't write as it is read is found at once.
func TestTypesThatAreNoRecords(t *testing.T) {
	for _, v := range []any{
		struct {
			A struct{} `json:"a,omitempty"`
		}{},
		struct {
			A map[string]int `json:"a"`
		}{},
		struct {
			A any `json:"a"`
		}{},
		struct {
			A int `json:"a,string"`
		}{},
		struct {
			base
			A int `json:"count"`
		}{},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%T is written", v)
				}
			}()
			_, _ = strictjson.Append(nil, v)
		}()
	}
}
