package tool

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/llm"
)

func TestIntegersArriveExactly(t *testing.T) {
	type in struct {
		I int64  `json:"i"`
		U uint64 `json:"u"`
		R json.RawMessage
		A any
	}
	args := `{"i":9007199254740993,"u":18446744073709551615,"R":9223372036854775807,` +
		`"A":[9007199254740993]}`
	v, err := given[in](t, args)
	if err != nil || v.I != 9007199254740993 || v.U != math.MaxUint64 {
		t.Error(v, err)
	}
	exec, err := result(t, Done(v), nil)
	if err != nil || string(exec.Output) != args {
		t.Errorf("came back as %s, %v", exec.Output, err)
	}
}

func TestWholeNumbersInOtherFormsAreDecoded(t *testing.T) {
	type in struct {
		N    int             `json:"n"`
		List []uint8         `json:"-"`
		M    map[string]int8 `json:"m"`
		In   []struct{ X int64 }
		P    *int
		F    float64
		Raw  json.RawMessage
	}
	v, err := given[in](t,
		`{"n":1e3,"m":{"a":1.0},"In":[{"X":-1.20e1},{"X":0.0}],"P":10e-1,"F":1.0,"Raw":{"x":1.0}}`)
	if err != nil || v.N != 1000 || v.M["a"] != 1 || v.In[0].X != -12 || *v.P != 1 || v.F != 1 ||
		string(v.Raw) != `{"x":1.0}` {
		t.Errorf("%+v %v", v, err)
	}
	_, err = given[in](t, `{"n":1.5,"m":{},"In":[],"F":1,"Raw":1}`)
	contains(t, err.Error(), "/n: must be an integer, got 1.5")
	_, err = given[in](t, `{"n":1e300,"m":{},"In":[],"F":1,"Raw":1}`)
	contains(t, err.Error(), "/n: must be at most 9223372036854775807, got 1e300")
}

func TestNoArgumentsAreAnEmptyObject(t *testing.T) {
	for _, args := range []string{"", " ", "null", " null\n", "{}"} {
		if _, err := given[struct{}](t, args); err != nil {
			t.Errorf("%q: %v", args, err)
		}
		_, err := given[inner](t, args)
		var r *Refusal
		if !errors.As(err, &r) || r.Kind != InvalidArguments {
			t.Fatalf("%q: %v", args, err)
		}
		contains(t, r.Text, "/x: is required (an integer)", "t was not run", "call it again")
	}
	same(t, input[struct{}](t), `{"type":"object","properties":{},"additionalProperties":false}`)
	same(t, input[*struct{}](t), `{"type":"object","properties":{},"additionalProperties":false}`)
}

func TestBrokenArgumentsAreRefusedAndNeverGuessed(t *testing.T) {
	type in struct {
		P int `json:"p,omitempty"`
	}
	for args, want := range map[string]string{
		"```json\n{\"p\":1}\n```": "a JSON value is expected where '`' stands (at byte 0)",
		`{"p":1} done.`: `there is text after the end of the JSON value: "done." ` +
			`(at byte 8)`,
		`{"p":1}{"p":2}`:        `there is text after the end`,
		`{"p":1`:                `',' or '}' is expected where the text ends (at byte 6)`,
		`{'p':1}`:               `a key in double quotes is expected where '\'' stands (at byte 1)`,
		`{"p":1,}`:              `a key in double quotes is expected where '}' stands`,
		`[1]`:                   `must be an object, got [1]`,
		`"x"`:                   `must be an object, got "x"`,
		`NaN`:                   `where 'N' stands`,
		"\ufeff{}":              `where a byte order mark stands`,
		`{"p":01}`:              `',' or '}' is expected where '1' stands`,
		`{"p":"a` + "\n" + `"}`: `control character`,
		`{"p":{"q":[1,}}`:       `/p/q/1: `,
	} {
		_, err := given[in](t, args)
		if err == nil {
			t.Errorf("%s was taken", args)
			continue
		}
		contains(t, err.Error(), want)
	}
	type text struct{ S string }
	if v, err := given[text](t, "{\"S\":\"```json\\n{}\\n```\"}"); err != nil ||
		!strings.HasPrefix(v.S, "```json\n") {
		t.Error(v, err)
	}
}

func TestKeysThatCouldBeTakenForOneAreRefused(t *testing.T) {
	type in struct {
		Path string         `json:"path"`
		K    string         `json:"k,omitempty"`
		Open map[string]any `json:"open,omitempty"`
	}
	for args, want := range map[string]string{
		`{"path":"ok","PATH":"/etc"}`: `the keys "path" and "PATH" differ ` +
			`only by case`,
		`{"PATH":"/etc"}`: `there is no property "PATH"; did ` +
			`you mean "path"?`,
		`{"path":"a","path":"b"}`: `the key "path" is there twice ` +
			`(at byte 12)`,
		`{"path":"a","p\u0061th":"b"}`:                      `the key "path" is there twice`,
		`{"path":"a","k":"1","\u212a":"2"}`:                 `differ only by case`,
		`{"path":"a","\u212A":"2"}`:                         `there is no property`,
		`{"path":"a","open":{"a":{"x":1,"X":2}}}`:           `/open/a: `,
		`{"path":"a","open":{"a":[{"x":1},{"x":1,"x":1}]}}`: `/open/a/1: `,
	} {
		_, err := given[in](t, args)
		if err == nil {
			t.Errorf("%s was taken", args)
			continue
		}
		contains(t, err.Error(), want)
	}
}

func TestASchemaThatWasGivenDoesNotLetAFieldBeSetByAnotherKey(t *testing.T) {
	open := raw(
		`{"properties":{"path":{"type":"string","pattern":"^/home/"},"at":{"type":"array"}}}`)
	entered := ""
	made, err := Func(Spec{Name: "t", Input: open}, func(_ context.Context, in struct {
		Path string `json:"path"`
		At   []struct{ X int }
	}) (Result[bool], error) {
		entered += in.Path
		return Done(true), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		`{"PATH":"/etc"}`:          `/PATH: there is no property "PATH"; did you mean "path"?`,
		`{"At":[{"X":1},{"x":2}]}`: `/At/1/x: there is no property "x"; did you mean "X"?`,
	} {
		_, err = made.Execute(t.Context(), call(args))
		if err == nil {
			t.Fatalf("%s was taken", args)
		}
		contains(t, err.Error(), want)
	}
	if _, err = made.Execute(t.Context(), call(`{"path":"/home/a","more":1}`)); err != nil ||
		entered != "/home/a" {
		t.Error(entered, err)
	}
}

func TestZeroMissingAndNullAreThreeThings(t *testing.T) {
	type in struct {
		N    int    `json:"n"`
		Kind string `json:"kind" jsonschema:"default=plain,enum=plain,enum=fancy"`
		Max  int    `json:"max,omitempty" jsonschema:"default=5"`
		Deep []struct {
			D bool `json:"d" jsonschema:"default=true"`
		} `json:"deep,omitempty"`
	}
	contains(t, input[in](t), `"required":["n"]`, `"max":{"type":"integer","default":5}`)
	v, err := given[in](t, `{"n":0,"deep":[{},{"d":false}]}`)
	if err != nil || v.Kind != "plain" || v.Max != 5 || !v.Deep[0].D || v.Deep[1].D {
		t.Errorf("%+v %v", v, err)
	}
	v, err = given[in](t, `{"n":7,"max":0,"kind":"fancy"}`)
	if err != nil || v.Max != 0 || v.Kind != "fancy" {
		t.Errorf("an explicit zero lost against the default: %+v %v", v, err)
	}
	_, err = given[in](t, `{"n":null}`)
	contains(t, err.Error(), "/n: must be an integer, got null")
	_, err = given[in](t, `{"n":1,"max":null}`)
	contains(t, err.Error(), "/max: must be an integer, got null")
	contains(t, inputError[struct {
		N int8 `jsonschema:"default=300"`
	}](t), "field N: the default 300 does not fit: must be at most 127")
}

func TestWhatIsNoObjectIsAskedForAsAValue(t *testing.T) {
	same(t, input[string](t),
		`{"type":"object","properties":{"value":{"type":"string"}},"required":["value"],`+
			`"additionalProperties":false}`)
	if v, err := given[string](t, `{"value":"x"}`); err != nil || v != "x" {
		t.Error(v, err)
	}
	if v, err := given[[]inner](t, `{"value":[{"x":1e0}]}`); err != nil || v[0].X != 1 {
		t.Error(v, err)
	}
	if v, err := given[time.Time](t, `{"value":"2024-02-29T00:00:00Z"}`); err != nil ||
		v.Day() != 29 {
		t.Error(v, err)
	}
	if v, err := given[*string](t, `{}`); err != nil || v != nil {
		t.Error(v, err)
	}
	if v, err := given[myDate](t, `{"value":"2024-02-29T00:00:00Z"}`); err != nil || v.Day() != 29 {
		t.Error(v, err)
	}
	type text = map[string]string
	if v, err := given[text](t, `{"a":"b"}`); err != nil || v["a"] != "b" {
		t.Error(v, err)
	}
	if v, err := given[*inner](t, `{"x":1}`); err != nil || v.X != 1 {
		t.Error(v, err)
	}
	_, err := given[string](t, `{}`)
	contains(t, err.Error(), "/value: is required (a string)")
	_, err = Func(Spec{Name: "t", Input: raw(`{"properties":{"v":{}}}`)}, nothing[string, int])
	contains(t, err.Error(),
		`tool "t": input: the JSON of string is no object: the schema must ask for it as the `+
			`property "value"`)
	if _, err = Func(Spec{Name: "t", Input: raw(`{"properties":{"value":{}}}`)},
		nothing[string, int]); err != nil {
		t.Error(err)
	}
}

func TestAnyOutputIsFine(t *testing.T) {
	for _, c := range []struct {
		exec func() (Execution, error)
		want string
	}{
		{func() (Execution, error) { return result(t, Done(3), nil) }, `3`},
		{func() (Execution, error) { return result(t, Done("a<b>&c"), nil) }, `"a<b>&c"`},
		{func() (Execution, error) { return result(t, Done([]inner(nil)), nil) }, `null`},
		{func() (Execution, error) { return result(t, Done(map[string]int(nil)), nil) }, `null`},
		{func() (Execution, error) { return result(t, Done((*inner)(nil)), nil) }, `null`},
		{func() (Execution, error) { return result(t, Done(any(nil)), nil) }, `null`},
		{func() (Execution, error) { return result(t, Done(json.RawMessage(nil)), nil) }, `null`},
		{func() (Execution, error) { return result(t, Done(json.RawMessage{}), nil) }, `null`},
		{func() (Execution, error) { return result(t, Done(any(json.RawMessage{})), nil) }, `null`},
		{func() (Execution, error) {
			return result(t, Done(raw(`{ "a" : "<" }`)), nil)
		}, `{"a":"<"}`},
		{func() (Execution, error) {
			return result(t, Done(int64(math.MaxInt64)), nil)
		}, `9223372036854775807`},
		{func() (Execution, error) { return result(t, Done(struct{}{}), nil) }, `{}`},
	} {
		exec, err := c.exec()
		if err != nil || string(exec.Output) != c.want || exec.Await != nil {
			t.Errorf("got %s, %v, want %s", exec.Output, err, c.want)
		}
	}
}

func TestWhatNilBecomesFitsTheSchema(t *testing.T) {
	type out struct {
		L []string
		M map[string][]int
		P []*inner
		B []byte
	}
	s, err := schema.Compile(raw(output[out](t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []out{{},
		{[]string{}, map[string][]int{"a": nil}, []*inner{nil, {1}}, []byte{1}}} {
		exec, err := result(t, Done(v), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(exec.Output); err != nil {
			t.Errorf("%s: %v", exec.Output, err)
		}
	}
}

func TestWhatHasNoJSONFormIsAnErrorThatNamesTheField(t *testing.T) {
	type out struct {
		A []struct{ F float64 }
		M map[string]any
		R json.RawMessage `json:",omitempty"`
		P *out
	}
	cycle := &out{}
	cycle.P = cycle
	for want, o := range map[string]out{
		"field A[1].F: json: unsupported value: NaN": {
			A: []struct{ F float64 }{{1}, {math.NaN()}}},
		"field M[c]: json: unsupported type: chan int": {M: map[string]any{"c": make(chan int)}},
		"encountered a cycle":                          *cycle,
		"field P.M[f]: json: unsupported value: +Inf": {
			P: &out{M: map[string]any{"f": math.Inf(1)}}},
		"field R: invalid character 'x' looking for begi": {R: raw("x")},
	} {
		_, err := result(t, Done(o), nil)
		if err == nil {
			t.Errorf("%s: no error", want)
			continue
		}
		contains(t, err.Error(), want)
	}
	_, err := result(t, Done(struct{ R json.RawMessage }{raw("")}), nil)
	contains(t, err.Error(),
		"the tool's result has no JSON form: field R: unexpected end of JSON input")
}

func TestTheOutcomeIsWhatTheFunctionReturned(t *testing.T) {
	boom := errors.New("boom")
	pause := Pending[int](Await{Prompt: "wait"})
	for name, c := range map[string]struct {
		r       Result[int]
		err     error
		want    string
		await   bool
		wantErr string
	}{
		"done":            {r: Done(1), want: "1"},
		"error":           {err: boom, wantErr: "boom"},
		"pending + error": {r: pause, err: boom, wantErr: "boom"},
		"done + error":    {r: Done(1), err: boom, wantErr: "boom"},
		"nothing":         {wantErr: "neither a result nor an error"},
		"pending":         {r: pause, await: true},
		"need input":      {r: NeedInput[int]("how many?"), await: true},
	} {
		exec, err := result(t, c.r, c.err)
		if (exec.Await != nil) != c.await || string(exec.Output) != c.want ||
			(err == nil) != (c.wantErr == "") {
			t.Errorf("%s: %+v, %v", name, exec, err)
		}
		if err != nil {
			contains(t, err.Error(), c.wantErr)
		}
	}
	same(t, must(t, pause).Reason, Reason("")) // it follows from the rest, in one place
	asked := must(t, NeedInput[int]("how many?"))
	if asked.Reason != ReasonInput || asked.Mode != ModeOutput || asked.Prompt != "how many?" {
		t.Errorf("%+v", asked)
	}
	if r, err := Of(2, nil); err != nil || r == nil {
		t.Error(r, err)
	}
	if r, err := Of(2, boom); err != boom || r != nil {
		t.Error(r, err)
	}
}

// must returns the Await of a result.
func must[Out any](t *testing.T, r Result[Out]) Await {
	t.Helper()
	exec, err := result(t, r, nil)
	if err != nil || exec.Await == nil {
		t.Fatal(exec, err)
	}
	return *exec.Await
}

func TestAFunctionThatPausesWithAnotherOutDoesNotCompile(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go command")
	}
	if out, err := exec.Command(goTool, "vet", "./testdata/same").CombinedOutput(); err != nil {
		t.Fatalf("the one that should compile does not: %s", out)
	}
	out, err := exec.Command(goTool, "vet", "./testdata/other").CombinedOutput()
	if err == nil {
		t.Fatal("it compiles")
	}
	contains(t, string(out), "other.go", "Result[string]", "Result[int]")
}

func TestWhatCanNotBeAToolIsAnErrorOfConstruction(t *testing.T) {
	for name, want := range map[string]string{
		"": "it has no name", "a b": `the name "a b" is not 1 to 64`, "ä": "letters, digits",
		strings.Repeat("x", 65): "1 to 64", "a.b": "a.b",
	} {
		_, err := Func(Spec{Name: name}, nothing[struct{}, int])
		if err == nil {
			t.Fatalf("%q was taken", name)
		}
		contains(t, err.Error(), want)
	}
	_, err := Func[struct{}, int](Spec{Name: "t"}, nil)
	contains(t, err.Error(), `tool "t": the function is nil`)
	for in, want := range map[string]string{
		`[]`: "is an object", `"x"`: "is an object", `{"type":"array"}`: `type is "array"`,
		`{"type":["object","null"]}`:             `["object","null"]`,
		`{"properties":{"a":{"type":"strnig"}}}`: "schema", `{`: "no JSON",
		`{"$ref":"#/$defs/x"}`:                               `refers to "#/$defs/x"`,
		`{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`: "another document",
		`{"properties":{"a":{"pattern":"(?=x)"}}}`:           "regex",
		`{"properties":{"a":{"$ref":"#/$defs/none"}}}`:       "none", `{"a":1,"a":2}`: "twice",
	} {
		_, err := Func(Spec{Name: "t", Input: raw(in)}, nothing[struct{}, int])
		if err == nil {
			t.Errorf("%s was taken", in)
			continue
		}
		contains(t, err.Error(), `tool "t": input: `, want)
	}
	_, err = Func(Spec{Name: "t", Output: raw(`{"type":3}`)}, nothing[struct{}, int])
	contains(t, err.Error(), `tool "t": output: schema`)
	defer func() { contains(t, recover().(error).Error(), "the function is nil") }()
	Must(Func[struct{}, int](Spec{Name: "t"}, nil))
	t.Error("Must did not panic")
}

func TestTheFunctionGetsTheCall(t *testing.T) {
	var got Call
	made := make1(t, func(ctx context.Context, _ struct{}) (Result[string], error) {
		got = CallFrom(ctx)
		return Done(got.IdempotencyKey()), nil
	})
	exec, err := made.Execute(t.Context(), call("{}"))
	if err != nil || got.ID != "c1" || string(exec.Output) != `"c1.0"` {
		t.Error(got, string(exec.Output), err)
	}
}

func TestWithAddsToAResultAndNotToAnError(t *testing.T) {
	picture := Action{Media: &llm.Media{MediaType: "image/png", URL: "u"}}
	file := Action{Artifact: &Artifact{Name: "x"}}
	run := func(r Result[string], err error) (Execution, error) {
		made, newErr := Func(Spec{Name: "a", MayPause: true},
			func(context.Context, struct{}) (Result[string], error) { return r, err })
		if newErr != nil {
			t.Fatal(newErr)
		}
		return enter(t, made)
	}
	exec, err := run(With(With(Done("x"), picture), file), nil)
	if err != nil || string(exec.Output) != `"x"` ||
		!reflect.DeepEqual(exec.Actions, []Action{picture, file}) {
		t.Errorf("%+v, %v", exec, err)
	}
	exec, err = run(With(NeedInput[string]("who?"), file), nil)
	if err != nil || exec.Await == nil || len(exec.Actions) != 1 {
		t.Errorf("%+v, %v", exec, err)
	}
	if exec, err = run(With[string](nil, file), nil); err == nil || exec.Actions != nil {
		t.Errorf("%+v, %v", exec, err)
	}
	if With(Done("x")) == With(Done("x")) { // it must not panic
		t.Error("two results with actions are one")
	}
}
