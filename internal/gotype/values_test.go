package gotype

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/internal/schema"
)

func TestNullIsAListOrAMapOfLengthZero(t *testing.T) {
	type in struct {
		List  []int             `json:"list"`
		Map   map[string]int    `json:"map"`
		Bytes []byte            `json:"bytes"`
		Deep  [][]int           `json:"deep"`
		Fixed [2]int            `json:"fixed,omitempty"`
		Some  []int             `json:"some,omitempty" jsonschema:"minItems=1"`
		Few   map[string]int    `json:"few,omitempty" jsonschema:"minProperties=1"`
		Text  string            `json:"text,omitempty"`
		Own   json.RawMessage   `json:"own,omitempty"`
		More  map[string][]bool `json:"more,omitempty"`
	}
	v, err := given[in](t,
		`{"list":null,"map":null,"bytes":null,"deep":[null,[1]],"more":{"a":null}}`)
	if err != nil || len(v.List)+len(v.Map)+len(v.Bytes)+len(v.Deep[0])+len(v.More["a"]) != 0 ||
		len(v.Deep) != 2 {
		t.Errorf("%+v %v", v, err)
	}
	if list, err := given[[]int](t, `{"value":null}`); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
	const good = `"list":[],"map":{},"bytes":"","deep":[]`
	for field, why := range map[string]string{
		`"some":null`: "/some", `"few":null`: "/few", `"fixed":null`: "/fixed",
		`"text":null`: "/text", `"more":{"a":[null]}`: "/more/a/0",
	} {
		if _, err := given[in](t, `{`+good+`,`+field+`}`); err == nil ||
			!strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if told := input[in](t); strings.Contains(told, "null") {
		t.Errorf("models are told of null: %s", told)
	}
}

func TestTheUnitOfADurationStays(t *testing.T) {
	type in struct {
		Plain time.Duration   `json:"plain,omitempty"`
		Told  time.Duration   `json:"told,omitempty" jsonschema:"How long to wait,minimum=0"`
		Said  *time.Duration  `json:"said,omitempty" jsonschema:"Wait so many nanoseconds"`
		Text  time.Duration   `json:"text,omitempty,string"`
		All   []time.Duration `json:"all,omitempty" jsonschema:"All of them"`
	}
	told := input[in](t)
	contains(t, told, `"description":"How long to wait (a duration in nanoseconds)"`,
		`"description":"Wait so many nanoseconds"`)
	same(t, strings.Count(told, "a duration in nanoseconds"), 4)
	for args, want := range map[string]string{
		`{"told":"10s"}`: `/told: must be an integer, a duration in nanoseconds (10000000000 is ` +
			`10s), got "10s"`,
		`{"said":"1m"}`:   `a duration in nanoseconds (60000000000 is 1m0s), got "1m"`,
		`{"plain":"now"}`: `/plain: must be an integer, a duration in nanoseconds, got "now"`,
		`{"all":["1h"]}`: `/all/0: must be an integer, a duration in nanoseconds (3600000000000 ` +
			`is 1h0m0s)`,
	} {
		_, err := given[in](t, args)
		if err == nil {
			t.Errorf("%s was taken", args)
			continue
		}
		contains(t, err.Error(), want)
	}
}

func TestWhatATagCanNotMeanIsAnError(t *testing.T) {
	contains(t, inputError[struct {
		S string `jsonschema:"enum=a,b"`
	}](t), "field S", `"b" after enum=a: write enum=a,enum=b`)
	contains(t, inputError[struct {
		N int `jsonschema:"minimum=1,minimum=2"`
	}](t), "field N", "minimum twice")
	contains(t, inputError[struct {
		S string `jsonschema:"One,description=Two"`
	}](t), "description twice")
	contains(t, inputError[struct {
		S string "jsonschema:\"a\xff\""
	}](t), "field S", "UTF-8")
	if _, err := given[struct {
		S string `jsonschema:"enum=a\\,b,enum=c,example=x,example=y"`
	}](t, `{"S":"a,b"}`); err != nil {
		t.Error(err)
	}
}

// A fault of a map's key has the key's place, not that of the value which was
// checked before it.
func TestAFaultHasItsOwnPlace(t *testing.T) {
	type line struct {
		Name   string         `json:"name"`
		ByID   map[int]string `json:"by_id"`
		Others map[string]int `json:"others"`
		N      int            `json:"n"`
	}
	type in struct {
		First line   `json:"first"`
		Lines []line `json:"lines"`
		Last  string `json:"last"`
	}
	s, err := schema.Compile(raw(input[in](t)))
	if err != nil {
		t.Fatal(err)
	}
	const bad = `{"name":1,"by_id":{"x":"a","1":2},"others":{"k":"v"},"n":"no"}`
	value := `{"first":` + bad + `,"lines":[` + bad + `],"last":3}`
	want := s.Validate(raw(value)).Error()
	for _, part := range []string{
		`/first/by_id: the key "x" must match the regular expression ^(0|-?[1-9][0-9]*)$, got ` +
			`{"1":2,"x":"a"}`,
		`/first/by_id/1: must be a string, got 2`, `/first/n: must be an integer, got "no"`,
		`/first/name: must be a string, got 1`,
		`/first/others/k: must be an integer, got "v"`, `/last: must be a string, got 3`,
	} {
		if !strings.Contains(want, part) {
			t.Errorf("%q is not in %s", part, want)
		}
	}
	for range 1000 {
		same(t, s.Validate(raw(value)).Error(), want)
	}
}
