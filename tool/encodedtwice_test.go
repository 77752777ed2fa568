package tool

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

type order struct {
	IDs   []int             `json:"ids"`
	Lines []struct{ N int } `json:"lines,omitempty"`
	Meta  map[string]string `json:"meta,omitempty"`
	Note  string            `json:"note,omitempty"`
	Any   any               `json:"any,omitempty"`
	Maybe *order            `json:"maybe,omitempty"`
}

func TestArgumentsThatWereEncodedTwiceAreDecodedOnce(t *testing.T) {
	for args, want := range map[string]string{
		`{"ids":"[1, 2]"}`:                                              `{"ids":[1, 2]}`,
		`{ "ids" : " [1]\n" , "note":"[1]"}`:                            `{ "ids" : [1] , "note":"[1]"}`,
		`"{\"ids\":[9007199254740993]}"`:                                `{"ids":[9007199254740993]}`,
		`{"ids":[],"lines":["{\"N\":1}",{"N":2}]}`:                      `{"ids":[],"lines":[{"N":1},{"N":2}]}`,
		`{"ids":[],"lines":"[{\"N\":1}]","meta":"{\"a\":\"\\u003c\"}"}`: `{"ids":[],"lines":[{"N":1}],"meta":{"a":"\u003c"}}`,
		`{"ids":[],"maybe":"{\"ids\":[1]}"}`:                            `{"ids":[],"maybe":{"ids":[1]}}`,
		`{"ids":[],"any":"[1]"}`:                                        `{"ids":[],"any":"[1]"}`,
		`{"ids":[1]}`:                                                   `{"ids":[1]}`,
	} {
		r, err := NewRegistry(make1(t, nothing[order, int]))
		if err != nil {
			t.Fatal(err)
		}
		asked := raw(args)
		p, err := r.Prepare(Call{Tool: "t", Arguments: asked})
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		same(t, string(p.Call.Arguments), want)
		same(t, string(asked), args)
		if _, err := r.Prepare(p.Call); err != nil {
			t.Errorf("%s: what was derived does not fit: %v", args, err)
		}
	}
}

// TestAnAnswerThatWasEncodedTwiceIsJudgedAsItIsRead: the schema that was stored
// takes it, and so does the tool. An output is kept as it came, and is refused.
func TestAnAnswerThatWasEncodedTwiceIsJudgedAsItIsRead(t *testing.T) {
	type picked struct {
		IDs []int `json:"ids"`
	}
	pick := Must(Resumable(Spec{Name: "pick"},
		func(_ context.Context, _ struct{}, ask Ask[picked, int]) (Result[picked], error) {
			return ask("Which?", 1), nil
		},
		func(_ context.Context, _ struct{}, re Reply[picked, int, picked]) (Result[picked], error) {
			return Done(re.Answer), nil
		}))
	r := registry(t, pick)
	for _, answer := range []string{`{"ids":"[1,2]"}`, `"{\"ids\":[1,2]}"`, `{"ids":[1,2]}`} {
		if err := r.Judge("pick", AsAnswer, raw(answer)); err != nil {
			t.Errorf("%s is judged as %v", answer, err)
		}
		exec, err := pick.Execute(t.Context(), Call{Tool: "pick", Answer: &Answer{Payload: raw(answer), Data: raw("1")}})
		if err != nil || string(exec.Output) != `{"ids":[1,2]}` {
			t.Errorf("%s is read as %s, %v", answer, exec.Output, err)
		}
	}
	for use, values := range map[Use][]string{
		AsAnswer: {`{"ids":"[1,x]"}`, `{"ids":"1"}`, `{"ids":"[\"1\"]"}`},
		AsOutput: {`{"ids":"[1,2]"}`, `"{\"ids\":[1,2]}"`},
	} {
		for _, value := range values {
			if err := r.Judge("pick", use, raw(value)); err == nil {
				t.Errorf("%s is taken as %s", value, use)
			}
		}
	}
	if schema(t, string(r.Checks("pick").Output)).ValidateResult(raw(`{"ids":"[1,2]"}`)) == nil {
		t.Error("a process without the tool takes an output that one with it refuses")
	}
}

func TestWhatIsInAStringHasToBeAsStrictAsAnything(t *testing.T) {
	for args, why := range map[string]string{
		`{"ids":"[1,"}`:      `/ids: must be an array, got "[1,"`,
		`{"ids":"1,2"}`:      `/ids: must be an array`,
		`{"ids":"1"}`:        `/ids: must be an array`,
		`{"ids":"[1] done"}`: `/ids: must be an array`,
		`{"ids":"null"}`:     `/ids: must be an array`,
		`{"ids":"[\"a\"]"}`:  `/ids/0: must be an integer`,
		`{"ids":"\"[1]\""}`:  `/ids: must be an array`,
		`{"ids":"{}"}`:       `/ids: must be`,
		`{"ids":[],"meta":"{\"a\":\"1\",\"a\":\"2\"}"}`: `/meta: must be an object`,
		`{"ids":[],"maybe":"{\"ids\":[],\"IDs\":[]}"}`:  `/maybe: must be`,
		`{"ids":[],"maybe":"{\"ids\":\"[1]\"}"}`:        `/maybe/ids: must be an array`, // once, and not twice
		`{"ids":["[1]"]}`:                               `/ids/0: must be an integer`,
		`"[1]"`:                                         `must be an object`,
		`"{\"ids\":[]} {}"`:                             `must be an object`,
		`{"ids":"[1]","other":1}`:                       `/other`,
	} {
		_, err := given[order](t, args)
		if err == nil {
			t.Errorf("%s was taken", args)
			continue
		}
		contains(t, err.Error(), why)
	}
}

func FuzzDecodedOnceFits(f *testing.F) {
	for _, s := range []string{`{"ids":"[1]"}`, `"{\"ids\":\"[1]\"}"`, `{"ids":[],"maybe":"{\"ids\":[]}"}`, `{"ids":"[1,{}]"}`} {
		f.Add([]byte(s))
	}
	made := make1(f, func(_ context.Context, in order) (Result[order], error) { return Done(in), nil }).(*typed)
	f.Fuzz(func(t *testing.T, args []byte) {
		derived, err := made.input.Arguments(args)
		if err != nil {
			return
		}
		if err := made.input.Validate(derived); err != nil {
			t.Errorf("%s became %s, which does not fit: %v", args, derived, err)
		}
		if made.input.Validate(args) == nil && string(derived) != string(args) {
			t.Errorf("%s fits, and became %s", args, derived)
		}
		if !json.Valid(derived) {
			t.Errorf("%s became %s", args, derived)
		}
	})
}

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
	v, err := given[in](t, `{"list":null,"map":null,"bytes":null,"deep":[null,[1]],"more":{"a":null}}`)
	if err != nil || len(v.List)+len(v.Map)+len(v.Bytes)+len(v.Deep[0])+len(v.More["a"]) != 0 || len(v.Deep) != 2 {
		t.Errorf("%+v %v", v, err)
	}
	if list, err := given[[]int](t, `{"value":null}`); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
	const good = `"list":[],"map":{},"bytes":"","deep":[]`
	for field, why := range map[string]string{
		`"some":null`: "/some", `"few":null`: "/few", `"fixed":null`: "/fixed", `"text":null`: "/text", `"more":{"a":[null]}`: "/more/a/0",
	} {
		if _, err := given[in](t, `{`+good+`,`+field+`}`); err == nil || !strings.Contains(err.Error(), why) {
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
	contains(t, told, `"description":"How long to wait (a duration in nanoseconds)"`, `"description":"Wait so many nanoseconds"`)
	same(t, strings.Count(told, "a duration in nanoseconds"), 4)
	for args, want := range map[string]string{
		`{"told":"10s"}`:  `/told: must be an integer, a duration in nanoseconds (10000000000 is 10s), got "10s"`,
		`{"said":"1m"}`:   `a duration in nanoseconds (60000000000 is 1m0s), got "1m"`,
		`{"plain":"now"}`: `/plain: must be an integer, a duration in nanoseconds, got "now"`,
		`{"all":["1h"]}`:  `/all/0: must be an integer, a duration in nanoseconds (3600000000000 is 1h0m0s)`,
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

func TestTextsThatNoProviderParsesAreErrorsOfConstruction(t *testing.T) {
	for why, spec := range map[string]Spec{
		"input: the schema has invalid UTF-8":     {Input: raw(`{"properties":{"a":{"description":"\ud800"}}}`)},
		"input: the schema has invalid":           {Input: raw("{\"description\":\"\xff\"}")},
		"output: the schema has invalid":          {Output: raw(`{"description":"\udc00x"}`)},
		"input: the schema is false":              {Input: raw(` false`)},
		"output: the schema is false":             {Output: raw(`false`)},
		`description: "a\xff" is not valid UTF-8`: {Description: "a\xff"},
	} {
		spec.Name = "odd"
		_, err := NewRegistry(plain{spec})
		if err == nil {
			t.Errorf("%s: it was taken", why)
			continue
		}
		contains(t, err.Error(), `"odd"`, strings.ReplaceAll(why, `a\xff`, "a\ufffd"))
	}
}

// plain is a tool in its raw form.
type plain struct{ spec Spec }

func (p plain) Spec() Spec                                       { return p.spec }
func (p plain) Execute(context.Context, Call) (Execution, error) { return Execution{}, nil }
