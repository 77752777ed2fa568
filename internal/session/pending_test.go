package session

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// elsewhere are the fields of a shown pause that the head doesn't have, and why
// it has none.
var elsewhere = map[string]string{
	"Progress":        "it lies under a key of its own",
	"Await.Arguments": "they stand in Pause.Arguments",
	"Await.Deadline":  "it stands in Pause.Deadline; Await.Timeout is made of it",
}

// A pause is shown with all that the head has of it: each field gets its value.
func TestEveryFieldOfAPauseIsShown(t *testing.T) {
	s := NewStore(kvstore.NewMemory(), nil)
	hash, err := s.PutSchema(t.Context(), json.RawMessage(`{"type":"string"}`))
	if err != nil {
		t.Fatal(err)
	}
	var st State
	var c Call
	var p Pause
	r := rand.New(always(0xAAAAAAAAAAAAAAAA))
	for _, v := range []any{&st, &c, &p} {
		fill(reflect.ValueOf(v).Elem(), r, true)
	}
	p.Prompt = &Blob{Inline: json.RawMessage(`"Which?"`)}
	p.Data, p.Args = &Blob{Inline: json.RawMessage(`1`)}, &Blob{Inline: json.RawMessage(`{}`)}
	list := json.RawMessage(`[{"name":"build","child":"c","all":true}]`)
	p.Await = &Awaiting{List: &Blob{Inline: list}, Size: 1}
	p.Schema, p.Deadline = hash, p.Since.Add(time.Hour)
	c.Pause = &p
	shown, err := s.Pause(t.Context(), &st, &c, nil)
	if err != nil {
		t.Fatal(err)
	}
	v := reflect.ValueOf(shown)
	wantShown(t, v, "")
	wantShown(t, v.FieldByName("Await"), "Await.")
}

// wantShown wants each field of v to have a value, except those that come from
// elsewhere.
func wantShown(t *testing.T, v reflect.Value, prefix string) {
	t.Helper()
	for i := range v.NumField() {
		name := prefix + v.Type().Field(i).Name
		switch why, other := elsewhere[name]; {
		case !other && v.Field(i).IsZero():
			t.Errorf("%s is not shown", name)
		case other && !v.Field(i).IsZero():
			t.Errorf("%s has a value, and yet: %s", name, why)
		}
	}
}

// always is a source of one number, so that fill leaves out no field.
type always uint64

func (a always) Uint64() uint64 { return uint64(a) }
