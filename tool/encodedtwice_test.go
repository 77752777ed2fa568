package tool

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/internal/gotype"
	"github.com/fermata-ai/fermata/internal/schema"
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
	for _, c := range []struct{ args, want string }{
		{`{"ids":"[1, 2]"}`, `{"ids":[1, 2]}`},
		{`{ "ids" : " [1]\n" , "note":"[1]"}`, `{ "ids" : [1] , "note":"[1]"}`},
		{`"{\"ids\":[9007199254740993]}"`, `{"ids":[9007199254740993]}`},
		{`{"ids":[],"lines":["{\"N\":1}",{"N":2}]}`, `{"ids":[],"lines":[{"N":1},{"N":2}]}`},
		{`{"ids":[],"lines":"[{\"N\":1}]","meta":"{\"a\":\"\\u003c\"}"}`,
			`{"ids":[],"lines":[{"N":1}],"meta":{"a":"\u003c"}}`},
		{`{"ids":[],"maybe":"{\"ids\":[1]}"}`, `{"ids":[],"maybe":{"ids":[1]}}`},
		{`{"ids":[],"any":"[1]"}`, `{"ids":[],"any":"[1]"}`},
		{`{"ids":[1]}`, `{"ids":[1]}`},
	} {
		args, want := c.args, c.want
		r, err := limited(Limits{}, make1(t, nothing[order, int]))
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
	which := NewQuestion[picked, int, picked]("which")
	pick := Must(Resumable(Spec{Name: "pick"},
		func(_ context.Context, _ struct{}) (Result[picked], error) {
			return which.Ask("Which?", 1), nil
		},
		On(which, func(_ context.Context, _ struct{}, re Reply[int, picked]) (Result[picked], error) {
			return Done(re.Answer), nil
		})))
	r := registry(t, pick)
	_, judge := r.Question("pick", "which")
	for _, answer := range []string{`{"ids":"[1,2]"}`, `"{\"ids\":[1,2]}"`, `{"ids":[1,2]}`} {
		if err := judge.Judge(raw(answer)); err != nil {
			t.Errorf("%s is judged as %v", answer, err)
		}
		exec, err := pick.Execute(t.Context(),
			Call{Tool: "pick", Answer: &Answer{Payload: raw(answer), Data: raw("1")}})
		if err != nil || string(exec.Output) != `{"ids":[1,2]}` {
			t.Errorf("%s is read as %s, %v", answer, exec.Output, err)
		}
	}
	for use, values := range map[*gotype.Reader][]string{
		judge:                          {`{"ids":"[1,x]"}`, `{"ids":"1"}`, `{"ids":"[\"1\"]"}`},
		r.entries["pick"].reads.output: {`{"ids":"[1,2]"}`, `"{\"ids\":[1,2]}"`},
	} {
		for _, value := range values {
			if err := use.Judge(raw(value)); err == nil {
				t.Errorf("%s is taken", value)
			}
		}
	}
	_, out := r.Checks("pick")
	if s, err := schema.Compile(out); err != nil ||
		s.ValidateResult(raw(`{"ids":"[1,2]"}`)) == nil {
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
		// Once, and not twice.
		`{"ids":[],"maybe":"{\"ids\":\"[1]\"}"}`: `/maybe/ids: must be an array`,
		`{"ids":["[1]"]}`:                        `/ids/0: must be an integer`,
		`"[1]"`:                                  `must be an object`,
		`"{\"ids\":[]} {}"`:                      `must be an object`,
		`{"ids":"[1]","other":1}`:                `/other`,
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
	for _, s := range []string{`{"ids":"[1]"}`, `"{\"ids\":\"[1]\"}"`,
		`{"ids":[],"maybe":"{\"ids\":[]}"}`, `{"ids":"[1,{}]"}`} {
		f.Add([]byte(s))
	}
	made := make1(f, func(_ context.Context, in order) (Result[order], error) {
		return Done(in), nil
	}).(*typed)
	f.Fuzz(func(t *testing.T, args []byte) {
		doc, err := made.input.Arguments(args)
		if err != nil {
			return
		}
		derived := json.RawMessage(doc.Text)
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

func TestTextsThatNoProviderParsesAreErrorsOfConstruction(t *testing.T) {
	for why, spec := range map[string]Spec{
		"input: the schema has invalid UTF-8": {
			Input: raw(`{"properties":{"a":{"description":"\ud800"}}}`)},
		"input: the schema has invalid":           {Input: raw("{\"description\":\"\xff\"}")},
		"output: the schema has invalid":          {Output: raw(`{"description":"\udc00x"}`)},
		"input: the schema is false":              {Input: raw(` false`)},
		"output: the schema is false":             {Output: raw(`false`)},
		`description: "a\xff" is not valid UTF-8`: {Description: "a\xff"},
	} {
		spec.Name = "odd"
		_, err := limited(Limits{}, plain{spec})
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
