package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool/misfit"
)

// texts are where the fuzzing starts: what is easily taken for JSON, and what
// is JSON and easily refused.
var texts = []string{
	`{}`, `[]`, `null`, `true`, `-0`, `1.50e+3`, `"a\u00e9\ud83d\ude00\ud800x"`, `{"a":1,"A":2}`,
	`{"a":1,"a":2}`, "{\"k\":1,\"\u212a\":2}",
	`{"a":{"b":[1,{"c":null}]}} x`, `{'a':1}`, `[1,]`, `{"a" 1}`, `"\x"`, "\"\x01\"", "\"\xff\"",
	`1e999999`, `01`, `.5`, `+1`, "\ufeff{}",
	`{"city":"Oslo","days":3,"units":"metric","detail":true}`,
	`{"value":1e2,"n":1.0,"list":[1,2.0]}`, " \t\r\n[ 1 , 2 ] ",
}

// schemas are those that the quick validator is compared on: all that it knows,
// and some that it does not.
var schemas = []string{
	weather, `{}`, `{"type":"integer"}`, `{"type":["integer","null"],"minimum":-5,"maximum":10}`,
	`{"type":"number"}`, `{"minimum":1}`,
	`{"type":"string","enum":["a","b"]}`, `{"enum":["a"]}`, `{"enum":[1]}`, `{"required":["a"]}`,
	`{"items":{"type":"boolean"}}`,
	`{"properties":{"a":{"type":"null"},"b":{}},"additionalProperties":{"type":"number"},` +
		`"title":"x"}`,
	`{"$ref":"#/$defs/n","$defs":{"n":{"type":"object",` +
		`"properties":{"k":{"items":{"$ref":"#/$defs/n"}}},"additionalProperties":false}}}`,
	`{"properties":{"a":{"$ref":"#/$defs/n","minimum":3}},"$defs":{"n":{"type":"integer"}}}`,
	`{"properties":{"a":{"anyOf":[{"type":"null"},{"type":"string"}]}},"items":false}`,
	`{"additionalProperties":true,"items":true}`,
	`{"type":"integer","minimum":1.5}`, `{"type":"array","items":{"type":"array"},"minItems":1}`,
	`{"$anchor":"a"}`, `{"type":[]}`,
}

func FuzzQuickAgreesWithTheFullValidator(f *testing.F) {
	var compiled []*Schema
	for _, s := range schemas {
		if c, err := Compile(json.RawMessage(s)); err == nil {
			compiled = append(compiled, c)
		}
	}
	for _, s := range texts {
		f.Add([]byte(s))
	}
	for _, s := range []string{`-5`, `10`, `11`, `0`, `"a"`, `["a",null,false]`,
		`{"a":null,"c":1.5}`, `{"k":[{"k":[]}]}`, `[[],[]]`, `{"a":3}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := strictjson.Parse(text, strictjson.Strict(false))
		if err != nil {
			return
		}
		for i, s := range compiled {
			tree := strictjson.Plain(d.Root)
			full := s.work.run(s.full, tree, len(text))
			if s.quick.fits(d.Root) && full != nil {
				t.Errorf("schema %d takes %s quickly, and else says %v", i, text, full)
			}
			if err := s.ValidateResult(text); (err == nil) != (full == nil) {
				t.Errorf("schema %d on %s: %v, %v", i, text, err, full)
			}
		}
	})
}

func FuzzCompile(f *testing.F) {
	for _, s := range append(schemas, `{"properties":{"a":{"$ref":"#"}}}`, `{"pattern":"("}`,
		`{"$id":"x","$ref":"x#/y"}`, `{"type":3}`) {
		f.Add([]byte(s), []byte(`{"a":[1,"x",null]}`))
	}
	f.Fuzz(func(t *testing.T, text, value []byte) {
		if in, err := GivenInput(text); err == nil {
			again, err := GivenInput(in)
			if err != nil || !bytes.Equal(again, in) {
				t.Errorf("%s became %s, then %s, %v", text, in, again, err)
			}
		}
		s, err := Compile(text)
		if err != nil {
			return
		}
		if err := s.Validate(value); err != nil {
			var v *misfit.Error
			if !errors.As(err, &v) || len(v.Faults) == 0 || err.Error() == "" ||
				v.Faults[0].Rule == "" {
				t.Errorf("%#v", err)
			}
		}
	})
}
