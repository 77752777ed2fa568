package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"
)

type (
	trip  struct{ To string }
	offer struct {
		ID    int64 `json:"id"`
		Price string
	}
	choice struct {
		Offer int `json:"offer" jsonschema:"minimum=0"`
	}
)

// booking asks which of two offers to take, and again when there is no such
// offer.
func booking(t testing.TB) Tool {
	t.Helper()
	which := NewQuestion[string, []offer, choice]("which")
	made, err := Resumable(Spec{Name: "book"},
		func(_ context.Context, in trip) (Result[string], error) {
			if in.To == "" {
				return Done("nowhere"), nil
			}
			return which.Ask("Which flight to "+in.To+"?",
				[]offer{{9007199254740993, "100 <EUR>"}, {2, "90"}}), nil
		},
		On(which, func(_ context.Context, in trip,
			re Reply[[]offer, choice]) (Result[string], error) {
			if re.Answer.Offer >= len(re.State) {
				return which.Ask("No such offer.", re.State), nil
			}
			o := re.State[re.Answer.Offer]
			return Done(fmt.Sprintf("%s: %d for %s, said %s", in.To, o.ID, o.Price, re.Actor)), nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestAResumableAsksThenActs(t *testing.T) {
	made := booking(t)
	if !made.Spec().MayPause {
		t.Error("its Spec.MayPause is not set")
	}
	exec, err := made.Execute(t.Context(), call(`{"To":""}`))
	if err != nil || string(exec.Output) != `"nowhere"` {
		t.Errorf("%s %v", exec.Output, err)
	}
	c := call(`{"To":"Oslo"}`)
	exec, err = made.Execute(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	a, err := exec.Await.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	same(t, a.Reason, ReasonInput)
	same(t, a.Mode, ModeReenter)
	same(t, a.Prompt, "Which flight to Oslo?")
	same(t, string(a.Data), `[{"id":9007199254740993,"Price":"100 <EUR>"},{"id":2,"Price":"90"}]`)
	same(t, string(a.Schema),
		`{"type":"object","properties":{"offer":{"type":"integer","minimum":0,`+
			`"maximum":9223372036854775807}},"required":["offer"],"additionalProperties":false}`)

	c.Answer = &Answer{Pause: 1, Payload: raw(`{"offer":7}`), Data: a.Data, Actor: "ada"}
	exec, err = made.Execute(t.Context(), c)
	if err != nil || exec.Await == nil || exec.Await.Prompt != "No such offer." ||
		string(exec.Await.Data) != string(a.Data) {
		t.Error(exec, err)
	}
	c.Answer = &Answer{Pause: 2, Payload: raw(`{"offer":0.0}`), Data: a.Data, Actor: "ada"}
	exec, err = made.Execute(t.Context(), c)
	if err != nil || string(exec.Output) != `"Oslo: 9007199254740993 for 100 <EUR>, said ada"` {
		t.Errorf("%s %v", exec.Output, err)
	}
}

func TestAnAnswerOrAStateThatNoLongerFitsIsAnErrorThatSaysSo(t *testing.T) {
	made := booking(t)
	for want, a := range map[string]Answer{
		"the answer does not fit the question; probably the tool was changed since it asked: " +
			"/offer: must be at least 0": {
			Payload: raw(`{"offer":-1}`), Data: raw(`{"$times":3,"$prompt":"Which?","$state":[]}`)},
		"the answer does not fit the question": {Payload: raw(`{"which":1}`),
			Data: raw(`{"$times":3,"$prompt":"Which?","$state":[]}`)},
		"the state that was stored with the question can't be read; probably the tool was " +
			"changed": {
			Payload: raw(`{"offer":1}`), Data: raw(`{}`)},
		`unknown field "cost"`:   {Payload: raw(`{"offer":1}`), Data: raw(`[{"id":1,"cost":3}]`)},
		"stored without a state": {Payload: raw(`{"offer":1}`)},
		"text after the end":     {Payload: raw(`{"offer":1}`), Data: raw(`[] []`)},
	} {
		c := call(`{"To":"Oslo"}`)
		c.Answer = &a
		_, err := made.Execute(t.Context(), c)
		if err == nil {
			t.Errorf("%s: no error", want)
			continue
		}
		contains(t, err.Error(), want)
	}
	c := call(`{"To":"Oslo"}`)
	// A field was added since.
	c.Answer = &Answer{Payload: raw(`{"offer":0}`), Data: raw(`[{"id":1}]`)}
	if _, err := made.Execute(t.Context(), c); err != nil {
		t.Error(err)
	}
}

// kept asks with a state and returns what comes back, through the stored form.
func kept[S any](t testing.TB, state S) (back S, err error) {
	t.Helper()
	which := NewQuestion[bool, S, any]("which")
	made, err := Resumable(Spec{Name: "t"},
		func(_ context.Context, _ struct{}) (Result[bool], error) {
			return which.Ask("?", state), nil
		},
		On(which, func(_ context.Context, _ struct{}, re Reply[S, any]) (Result[bool], error) {
			back = re.State
			return Done(true), nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	exec, err := made.Execute(t.Context(), call("{}"))
	if err != nil {
		return back, err
	}
	c := call("{}")
	c.Answer = &Answer{Payload: raw("null"), Data: exec.Await.Data}
	_, err = made.Execute(t.Context(), c)
	return back, err
}

type moods struct {
	Big  int64
	D    time.Duration
	At   time.Time
	In   inner
	P    *inner
	B    []byte
	M    map[int]string
	N    json.Number
	Any  any
	Skip func() `json:"-"`
	Raw  json.RawMessage
	L    []string `json:",omitempty"`
	hidden
}

func TestAStateComesBackAsItWas(t *testing.T) {
	at := time.Date(2024, 2, 29, 1, 2, 3, 4, time.UTC)
	state := moods{
		Big: math.MaxInt64, D: time.Hour, At: at, In: inner{1}, P: &inner{2}, B: []byte{0, 255},
		M: map[int]string{-1: "a"},
		N: "1.50", Any: map[string]any{"a": []any{json.Number("9007199254740993"), "s", true, nil}},
		Raw: raw(`{"a":1.0}`),
		L:   []string{"<&>"}, hidden: hidden{3},
	}
	back, err := kept(t, state)
	if err != nil || !reflect.DeepEqual(back, state) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, back, state)
	}
	if _, err := kept(t, moods{At: time.Now(), L: []string{}, Raw: raw(` { } `)}); err != nil {
		t.Errorf("what loses nothing was refused: %v", err)
	}
	if back, err := kept[any](t, nil); err != nil || back != nil {
		t.Error(back, err)
	}
}

func TestAStateThatWouldComeBackAsAnotherIsAnErrorWhenItIsAsked(t *testing.T) {
	type secret struct {
		A int
		b int
	}
	type base struct{ N int }
	type shadow struct {
		N string
		base
	}
	for want, err := range map[string]error{
		"field Any: a int64 in an interface would come back as a json.Number": second(
			kept(t, moods{Any: int64(1)})),
		"field Any: a float64 in an interface": second(
			kept(t, moods{Any: 1.5})),
		"field Any: a time.Duration in an interface": second(
			kept(t, moods{Any: time.Second})),
		"field Any: a tool.inner in an interface would come back as a map[str": second(
			kept(t, moods{Any: inner{1}})),
		"field Any: a *tool.inner in an interface": second(
			kept(t, moods{Any: &inner{1}})),
		"field Any: a []uint8 in an interface would come back as a string": second(
			kept(t, moods{Any: []byte{1}})),
		"field Any: a map[int]string in an interface": second(
			kept(t, moods{Any: map[int]string{1: "a"}})),
		"field Any: json: unsupported value: NaN": second(
			kept(t, moods{Any: math.NaN()})),
		"field Any: a *errors.errorString in an interface": second(
			kept(t, moods{Any: errors.New("x")})),
		"field [x].b: it is not exported, and would be lost": second(
			kept(t, map[string]secret{"x": {1, 2}})),
		`field In[0]: string a`: second(
			kept(t, struct{ In []string }{[]string{"a\xff"}})),
		"field base.N: int 1 would come back as int 0": second(
			kept(t, shadow{"x", base{1}})),
		"the state of the question can't be kept: a float64 in an interface": second(
			kept[any](t, 1.5)),
		"field P: *[]int &[] would come back as": second(kept(t, struct{ P *[]int }{new([]int)})),
		"it would not be read back: /W: must be": second(kept(t, struct{ W oneWay }{oneWay{1}})),
	} {
		if err == nil {
			t.Errorf("%s: no error", want)
			continue
		}
		contains(t, err.Error(), want)
	}
}

// oneWay encodes itself, and does not decode itself.
type oneWay struct{ N int }

func (oneWay) MarshalText() ([]byte, error) { return []byte("x"), nil }

func second[T any](_ T, err error) error { return err }

func TestAQuestionOfBadTypesIsAnErrorOfConstruction(t *testing.T) {
	contains(t, makeError[chan int, int](t),
		`tool "t": question "which": state: the type chan int has no JSON form`)
	contains(t, makeError[struct{ A []func() }, int](t),
		`tool "t": question "which": state: field A[]: the type func()`)
	contains(t, makeError[struct{ *hidden }, int](t),
		`tool "t": question "which": state: field hidden.H: encoding/json can't set`)
	contains(t, makeError[struct{ E error }, int](t),
		`tool "t": question "which": state: field E: JSON can't be decoded into the interface error`)
	contains(t, makeError[int, struct{ C chan int }](t),
		`tool "t": question "which": answer: field C: the type chan int`)
	contains(t, makeError[int, struct {
		N int `jsonschema:"minimum=x"`
	}](t),
		`tool "t": question "which": answer: field N: the schema tag's minimum=x: a number is expected`)
}

func makeError[State, Choice any](t *testing.T) string {
	t.Helper()
	which := NewQuestion[int, State, Choice]("which")
	_, err := Resumable(Spec{Name: "t"},
		func(_ context.Context, _ int) (Result[int], error) { return nil, nil },
		On(which, func(context.Context, int, Reply[State, Choice]) (Result[int], error) {
			return nil, nil
		}))
	if err == nil {
		t.Fatal("a tool was made")
	}
	return err.Error()
}

func TestAnAnswerNeedNotBeAnObject(t *testing.T) {
	which := NewQuestion[string, int, string]("which")
	made, err := Resumable(Spec{Name: "t"},
		func(_ context.Context, _ struct{}) (Result[string], error) {
			return which.Ask("Name?", 1), nil
		},
		On(which, func(_ context.Context, _ struct{}, re Reply[int, string]) (Result[string], error) {
			return Done(re.Answer), nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	exec, err := made.Execute(t.Context(), call("{}"))
	if err != nil || string(exec.Await.Schema) != `{"type":"string"}` {
		t.Error(exec, err)
	}
	c := call("{}")
	c.Answer = &Answer{Payload: raw(`"Ada"`), Data: exec.Await.Data}
	if exec, err = made.Execute(t.Context(), c); err != nil || string(exec.Output) != `"Ada"` {
		t.Error(exec, err)
	}
}
