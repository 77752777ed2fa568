package event_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/property"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// An event that is written and read is the same event, down to the bytes of raw
// JSON in it.
func TestEventsComeBackAsTheyWent(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		ev := anyEvent(t, rapid.SampledFrom(all()).Draw(t, "type"))
		text, err := event.Marshal(ev)
		if err != nil {
			t.Fatalf("%v: %#v", err, ev)
		}
		back, err := event.Unmarshal(text)
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if diff := cmp.Diff(ev, back, sameErrors, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s (-went +came):\n%s", text, diff)
		}
	})
}

// What is read is written, on one line, and read again.
func FuzzUnmarshal(f *testing.F) {
	lines, err := os.ReadFile(golden)
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(lines) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		ev, err := event.Unmarshal(text)
		if err != nil {
			return
		}
		again := marshal(t, event.Clone(ev))
		if !json.Valid(again) || bytes.ContainsAny(again, "\n\r") {
			t.Fatalf("not one line of JSON: %s", again)
		}
		if third := marshal(t, unmarshal(t, again)); !bytes.Equal(third, again) {
			t.Fatalf("read again it is\n%s\nand not\n%s", third, again)
		}
	})
}

// anyEvent returns an event of the type of like.
func anyEvent(t *rapid.T, like event.Event) event.Event {
	if _, other := like.(event.Other); other {
		return event.Other{Type: "applause", Raw: json.RawMessage(`{"type":"applause","a":1.0e2}`)}
	}
	v := reflect.New(reflect.TypeOf(like)).Elem()
	draw(t, v)
	switch ev := v.Interface().(type) {
	case event.Nested:
		kinds := all()
		for {
			ev.Event = anyEvent(t, rapid.SampledFrom(kinds).Draw(t, "nested"))
			if _, again := ev.Event.(event.Nested); !again {
				return ev
			}
		}
	case event.Retry:
		ev.Err = rapid.SampledFrom([]error{nil, errors.New("a"), &llm.Error{Kind: "refused"},
			&llm.Error{Kind: "network", RetryAfter: 1<<40 + 1, Err: errors.New("<b>")},
			errors.Join(&llm.Error{Kind: "overloaded", Provider: "p", RequestID: "r"},
				errors.New("c"))}).Draw(t, "err")
		return ev
	case event.Event:
		return ev
	}
	panic("not an event")
}

// draw sets all that JSON has of a value.
func draw(t *rapid.T, v reflect.Value) {
	switch v.Addr().Interface().(type) {
	case *time.Time:
		at := rapid.Int64Range(0, 1<<33).Draw(t, "seconds")
		v.Set(reflect.ValueOf(time.Unix(at, rapid.Int64Range(0, 1e9-1).Draw(t, "ns")).UTC()))
		return
	case *json.RawMessage:
		raw := rapid.SampledFrom([]string{`{}`, `null`, `{"a":1.0e2,"a":"\u003c</"}`, `"é"`,
			`9007199254740993`}).Draw(t, "raw")
		v.SetBytes([]byte(raw))
		return
	case *llm.Message:
		m := llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text{Text: rapid.String().Draw(t, "text")},
			drawn[llm.ToolCall](t), drawn[llm.ToolResult](t)}}
		v.Set(reflect.ValueOf(m))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(rapid.String().Draw(t, "string"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "int"))
	case reflect.Uint8:
		v.SetUint(uint64(rapid.Byte().Draw(t, "byte")))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, "float"))
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "set") {
			v.Set(reflect.New(v.Type().Elem()))
			draw(t, v.Elem())
		}
	case reflect.Slice:
		n := rapid.IntRange(0, 2).Draw(t, "length")
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			draw(t, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				draw(t, v.Field(i))
			}
		}
		if p, ok := v.Addr().Interface().(*tool.Pause); ok {
			p.Await.Heartbeat = time.Duration(p.Beat.EveryMS) * time.Millisecond
			p.Await.Timeout = p.Deadline.Sub(p.Since)
		}
	}
}

func drawn[T any](t *rapid.T) (v T) {
	draw(t, reflect.ValueOf(&v).Elem())
	return v
}
