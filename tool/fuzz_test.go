package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/fermata-ai/fermata/internal/schema"
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

// fuzzed has all kinds of fields.
type fuzzed struct {
	City  string           `json:"city,omitempty"`
	Days  int8             `json:"days,omitempty" jsonschema:"default=2"`
	Value *uint64          `json:"value"`
	N     int              `json:"n,omitempty"`
	List  []int            `json:"list,omitempty"`
	M     map[string]inner `json:"m,omitempty"`
	Raw   json.RawMessage  `json:"raw,omitempty"`
	Any   any              `json:"any,omitempty"`
	Kids  []*fuzzed        `json:"kids,omitempty"`
}

// The function gets what encoding/json would have read; the check is only
// stricter.
func FuzzArguments(f *testing.F) {
	for _, s := range texts {
		f.Add([]byte(s))
	}
	f.Add(
		[]byte(
			`{"n":1e1,"list":[1.0,2],"m":{"a":{"x":-1.0e0}},"raw":1.0,"any":[1.0],` +
				`"kids":[{"days":0,"value":18446744073709551615}]}`))
	var got *fuzzed
	made := make1(f, func(_ context.Context, in fuzzed) (Result[bool], error) {
		got = &in
		return Done(true), nil
	})
	f.Fuzz(func(t *testing.T, args []byte) {
		got = nil
		_, err := made.Execute(context.Background(), Call{Arguments: args})
		var refused *Refusal
		if (err == nil) != (got != nil) || err != nil && !errors.As(err, &refused) {
			t.Fatalf("%q: %v", args, err)
		}
		if err != nil || schema.IsNull(args) {
			return
		}
		var want fuzzed
		d := json.NewDecoder(bytes.NewReader(args))
		d.UseNumber()
		d.DisallowUnknownFields()
		if err := d.Decode(&want); err != nil {
			return // a whole number in another form
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			t.Fatalf("%q: text was ignored", args)
		}
		if got.City != want.City || got.N != want.N || !reflect.DeepEqual(got.Value, want.Value) ||
			!bytes.Equal(got.Raw, want.Raw) ||
			!reflect.DeepEqual(got.Any, want.Any) || !reflect.DeepEqual(got.M, want.M) ||
			len(got.Kids) != len(want.Kids) {
			t.Errorf("%q arrived as %+v, not %+v", args, got, want)
		}
	})
}
