package handles

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/llm/wire"
	"github.com/fermata-ai/fermata/tool/misfit"
)

func TestParse(t *testing.T) {
	f := form(t, Config{Takes: true, Asks: true})
	for args, want := range map[string]Request{
		``:     {Own: raw(`{}`)},
		`null`: {Own: raw(`{}`)},
		`{ "command": "ls",  "n":1.0e2 }`: {
			Own: raw(`{ "command": "ls",  "n":1.0e2 }`)},
		`{"action":null,"id":null,"input":null,"command":"ls","quiet":null}`: {
			Own: raw(`{"command":"ls","quiet":null}`)},
		`{"action":"spawn","id":"a","command":"ls","env":[ {} ],"dir":null}`: {
			Action: Spawn, ID: "a", Own: raw(`{"command":"ls","env":[ {} ],"dir":null}`)},
		`{"id":"a","action":"spawn"}`: {Action: Spawn, ID: "a", Own: raw(`{}`)},
		`{"action":"fetch","id":"a/b.c#1~"}`: {
			Action: Fetch, ID: "a/b.c#1~"},
		`{"action":"fetch","id":"a","input":null,"command":null,"quiet":null}`: {
			Action: Fetch, ID: "a"},
		`{"action":"\u0061bort","id":"\u0061"}`:     {Action: Abort, ID: "a"},
		`{"action":"apply","id":"a","input":"y\n"}`: {Action: Apply, ID: "a", Input: raw(`"y\n"`)},
		`{"action":"apply","id":"a","input":{"b": 1.0} ` +
			`}`: {Action: Apply, ID: "a", Input: raw(`{"b": 1.0}`)},
		`{"action":"apply","id":"a","input":"","dir":null}`: {
			Action: Apply, ID: "a", Input: raw(`""`)},
		`{"action":"abort","id":"` + strings.Repeat("i", MaxID) + `"}`: {
			Action: Abort, ID: strings.Repeat("i", MaxID)},
	} {
		got, err := f.Parse(raw(args))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", args, err, diff)
		}
	}
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// What a call returns isn't changed by who changes the arguments.
func TestParseCopies(t *testing.T) {
	for _, args := range []string{`{"command":"ls"}`, `{"action":"apply","id":"a","input":"ls"}`} {
		b := []byte(args)
		got, err := form(t, Config{Takes: true, Asks: true}).Parse(b)
		must(t, err)
		clear(b)
		if !strings.Contains(string(got.Own)+string(got.Input), "ls") {
			t.Errorf("%s has become %+v", args, got)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	applies := form(t, Config{Takes: true, Asks: true})
	plain := form(t, Config{})
	open := form(t, Config{Input: raw(`{"properties":{"command":{}}}`)})
	for _, c := range []struct {
		form *Form
		args string
		want string
	}{
		{applies, `[]`, `the arguments must be an object`},
		{applies, `"x"`, `the arguments must be an object`},
		{applies, `{"action":}`, `it is no valid JSON`},
		{applies, `{"id":"a","id":"b"}`, `it is no valid JSON`},
		{applies, `{"id":"a","Id":"b"}`, `it is no valid JSON`},
		{applies, `{"action":7}`, `/action: must be a string: spawn, fetch, apply, abort, got 7`},
		{applies, `{"action":""}`, `/action: there is no action ""; the actions are spawn`},
		{applies, `{"action":"spaw"}`, `/action: there is no action "spaw"; did you mean ` +
			`"spawn"?; ` +
			`the actions are spawn, fetch, apply, abort, and without an action the tool runs`},
		{applies, `{"action":"kill"}`, `did you mean "abort"?`},
		{applies, `{"action":"Status"}`, `did you mean "fetch"?`},
		{applies, `{"action":"SPAWN"}`, `did you mean "spawn"?`},
		{plain, `{"action":"send"}`, `there is no action "send"; the actions are spawn, fetch, ` +
			`abort`},
		{plain, `{"action":"apply","id":"a","input":"y"}`,
			`/action: the tool takes no input, and so has no action "apply"; its actions are ` +
				`spawn, fetch, abort`},
		{applies, `{"action":"spawn","command":"ls"}`,
			`/id: is required with action spawn: choose an id for the handle, 1 to 64 letters`},
		{applies, `{"action":"fetch"}`, `/id: is required with action fetch: give the id that ` +
			`you chose in spawn`},
		{applies, `{"action":"fetch","id":null}`, `/id: is required with action fetch`},
		{applies, `{"action":"fetch","id":7}`, `/id: must be a string, got 7`},
		{applies, `{"action":"fetch","id":""}`, `/id: it is empty; an id has 1 to 64`},
		{applies, `{"action":"fetch","id":"a b"}`, `/id: it has the character " "; an id has`},
		{applies, `{"action":"fetch","id":"é"}`, `/id: it has the character "é"`},
		{applies, `{"action":"fetch","id":"` + strings.Repeat("i", 65) + `"}`, `/id: it has 65 ` +
			`bytes`},
		{applies, `{"action":"apply","id":"a"}`, `/input: is required with action apply: give ` +
			`what to type`},
		{applies, `{"action":"apply","id":"a","input":null}`, `/input: is required with action ` +
			`apply`},
		{applies, `{"action":"fetch","id":"a","input":"y"}`,
			`/input: goes with action apply alone, and the action is fetch: leave it out, got "y"`},
		{applies, `{"action":"spawn","id":"a","input":"y"}`, `/input: goes with action apply ` +
			`alone`},
		{applies, `{"command":"ls","id":"a"}`,
			`/id: goes with an action, and there is none: give action (spawn, fetch, apply, ` +
				`abort), or leave id out`},
		{applies, `{"input":"y"}`, `/input: goes with an action, and there is none`},
		{applies, `{"action":"abort","id":"a","command":"ls"}`, `/command: is a parameter of ` +
			`the tool ` +
			`itself, and goes with spawn, or with no action; the action is abort: leave it ` +
			`out, got "ls"`},
		{applies, `{"action":"fetch","id":"a","inputs":"y"}`,
			`/inputs: there is no property "inputs"; did you mean "input"?; the properties are ` +
				`action, id, input`},
		{plain, `{"action":"fetch","id":"a","x":null}`, `there is no property "x"; the ` +
			`properties are action, id`},
		{open, `{"action":"fetch","id":"a","x":1}`, `/x: is a parameter of the tool itself`},
		{applies, `{"action":"apply","command":"ls"}`,
			`/command: is a parameter of the tool itself, and goes with spawn, or with no ` +
				`action; ` +
				`the action is apply: leave it out, got "ls"; /id: is required with action ` +
				`apply: ` +
				`give the id that you chose in spawn; /input: is required`},
	} {
		_, err := c.form.Parse(raw(c.args))
		if _, ok := errors.AsType[*misfit.Error](err); !ok {
			t.Errorf("%s: %T %v", c.args, err, err)
			continue
		}
		told(t, err, c.want)
	}
	if _, err := open.Parse(raw(`{"action":"fetch","id":"a","x":null}`)); err != nil {
		t.Error(err)
	}
}

// strict has no parameter that takes null, and none that may be called
// anything: for it, the exact schema and Parse have to agree.
const strict = `{"properties":{"command":{"type":"string"},"n":{"type":"integer"}},` +
	`"required":["command"],"additionalProperties":false}`

// Whatever a model writes, Parse returns a call or words, and takes what the
// exact schema takes.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"command":"ls"}`, `{"action":"spawn","id":"a","command":"ls","n":1}`, `{"n":1}`,
		`{"action":"fetch","id":"a","input":null,"command":null}`, `{"action":null,"command":"x"}`,
		`{"action":"apply","id":"a","input":"y"}`, `{"action":"stop","id":"a b","x":{}}`,
		`{"action":"abort","id":"\ud800"}`, `"{}"`, `{"id":"a"} x`,
	} {
		f.Add([]byte(s))
	}
	flat := form(f, Config{Takes: true, Asks: true, Input: raw(strict)})
	told := form(f, Config{Takes: true, Asks: true, Exact: true, Input: raw(strict)}).Schema()
	exact, err := schema.Compile(told)
	must(f, err)
	own, err := schema.Compile(raw(strict))
	must(f, err)
	f.Fuzz(func(t *testing.T, args []byte) {
		r, err := flat.Parse(args)
		if err != nil {
			if _, ok := errors.AsType[*misfit.Error](err); !ok {
				t.Errorf("%T %v", err, err)
			}
			if s := err.Error(); len(s) > 4000 || !utf8.ValidString(s) {
				t.Errorf("%d bytes: %.200q", len(s), s)
			}
			if exact.Validate(args) == nil {
				t.Errorf("the exact schema takes it: %v", err)
			}
			return
		}
		if (r.Action != OneShot) != (CheckID(r.ID) == nil) ||
			(r.Action == Apply) != (r.Input != nil) ||
			(r.Action == Spawn || r.Action == OneShot) != (r.Own != nil) {
			t.Errorf("%+v", r)
		}
		if r.Own != nil && (!json.Valid(r.Own) || own.Validate(r.Own) != nil) ||
			r.Input != nil && r.Input[0] != '"' {
			return // the tool, or what was told of it, refuses it
		}
		if bad := exact.Validate(again(t, r)); bad != nil {
			t.Errorf("%s is read as %+v, which the exact schema refuses: %v", args, r, bad)
		}
	})
}

// again writes a call.
func again(t *testing.T, r Request) json.RawMessage {
	t.Helper()
	all := map[string]json.RawMessage{}
	if r.Own != nil {
		must(t, json.Unmarshal(r.Own, &all))
	}
	if r.Action != OneShot {
		all["action"], _ = json.Marshal(r.Action)
		all["id"], _ = json.Marshal(r.ID)
	}
	if r.Input != nil {
		all["input"] = r.Input
	}
	b, err := json.Marshal(all)
	must(t, err)
	return b
}

// Held to the schema, a model fills in all parameters, with null where one
// doesn't belong. What an adapter leaves of that is read as the call that was
// meant.
func TestParseInStrictMode(t *testing.T) {
	f := form(t, Config{Takes: true, Asks: true})
	closed, err := wire.Dialect{Refs: true, Const: true, Closed: true}.Convert(f.Schema())
	must(t, err)
	held, err := schema.Compile(closed)
	must(t, err)
	const rest = `"env":null,"dir":null`
	for args, want := range map[string]Request{
		`{"action":null,"id":null,"input":null,"command":"ls","quiet":null,` + rest + `}`: {
			Own: raw(`{"command":"ls","quiet":null}`)},
		`{"action":"spawn","id":"a","input":null,"command":"ls","quiet":true,` + rest + `}`: {
			Action: Spawn, ID: "a", Own: raw(`{"command":"ls","quiet":true}`)},
		`{"action":"fetch","id":"a","input":null,"command":null,"quiet":null,` + rest + `}`: {
			Action: Fetch, ID: "a"},
		`{"action":"apply","id":"a","input":"y","command":null,"quiet":null,` + rest + `}`: {
			Action: Apply, ID: "a", Input: raw(`"y"`)},
	} {
		must(t, held.Validate(raw(args)))
		got, err := f.Parse(wire.DropNulls(raw(args), f.Schema()))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", args, err, diff)
		}
	}
}
