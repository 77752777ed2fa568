package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/internal/property"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool"
)

// fill gives every exported field below v a value, or, by chance and unless
// always, none.
func fill(v reflect.Value, r *rand.Rand, always bool) {
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.UnixMilli(r.Int64N(1 << 41)).UTC()))
		return
	case reflect.TypeFor[json.RawMessage]():
		v.Set(reflect.ValueOf(json.RawMessage(`{"a":[1,"<&>é"]}`)))
		return
	}
	if v.Type() == reflect.TypeFor[strictjson.Rest]() || !always && r.IntN(3) == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				fill(v.Field(i), r, !strings.Contains(f.Tag.Get("json"), "omit"))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), r, true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+r.IntN(2), 2))
		for i := range v.Len() {
			fill(v.Index(i), r, true)
		}
	case reflect.String:
		v.SetString([]string{"plain", `quo"ted\`, "<&>", "é\u2028", "tab\t"}[r.IntN(5)])
	case reflect.Int, reflect.Int64:
		v.SetInt(r.Int64N(1 << 40))
	case reflect.Uint64:
		v.SetUint(r.Uint64N(1 << 40))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(0.25)
	}
}

// recordTypes are the kinds of record that the package writes.
var recordTypes = []any{
	new(State), new(Record), new(storedReceipt), new(signpost), new(keyRing), new(watched),
	new(schemaUse), new(userMessage), new(kept), new(notifications), new(sending),
	new(deadLetter), new(queuedMessage), new(waitReceipt), new(workerEntry),
	new(pauseEntry), new(tool.Progress), new(Blob), new(pauseNumber), new([]Decision),
}

// A record has the form that its struct tags say to encoding/json, and is read
// as what was written.
func TestRecordsFollowTheirTags(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		for _, record := range recordTypes {
			v := reflect.New(reflect.TypeOf(record).Elem())
			fill(v.Elem(), r, true)
			if st, ok := v.Interface().(*State); ok {
				st.Commits = commits{} // encoding/json doesn't ask for AppendText
			}
			written, err := encode(v.Interface())
			if err != nil {
				t.Fatal(err)
			}
			again := reflect.New(v.Type().Elem())
			if err := strictjson.Read(written, again.Interface()); err != nil {
				t.Fatalf("%v: %s", err, written)
			}
			if d := cmp.Diff(v.Interface(), again.Interface(), unexported); d != "" {
				t.Fatalf("%s is read otherwise:\n%s", written, d)
			}
			byTags, err := json.Marshal(v.Interface())
			if err != nil {
				t.Fatal(err)
			}
			var a, b any
			if err := errors.Join(json.Unmarshal(written, &a),
				json.Unmarshal(byTags, &b)); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(b, a); d != "" {
				t.Fatalf("by the tags (-), as it is (+):\n%s", d)
			}
		}
	})
}

// unexported lets fields be compared that no record has.
var unexported = cmp.Exporter(func(reflect.Type) bool { return true })

// What some version has stored comes out, written again, to the byte.
func TestStoredRecordsComeOutTheSame(t *testing.T) {
	all := stored(t)
	for _, kind := range []string{"m", "p", "s", "w", "f"} { // messages, and what has no form but its bytes
		delete(all, kind)
	}
	for kind, record := range map[string]any{
		"h": new(State), "c": new(Record), "r": new(storedReceipt), "g": new(tool.Progress),
		"u": new(userMessage),
		"o": new(pauseEntry), "i": new(pauseEntry), "k": new(pauseNumber),
		"a": new(pauseEntry), "j": new(pauseEntry), "e": new(mailRecord), "d": new(storedReceipt),
		"b": new(listedUndo),
		"x": new(keyRing), "t": new(schemaUse),
	} {
		if len(all[kind]) == 0 {
			t.Errorf("no store has a record of kind %q", kind)
		}
		for _, e := range all[kind] {
			v := reflect.New(reflect.TypeOf(record).Elem()).Interface()
			if err := decode(e.Key, e.Value, v); err != nil {
				t.Errorf("%s: %v", e.Value, err)
			}
			if again, err := encode(v); err != nil || !bytes.Equal(again, e.Value) {
				t.Errorf("%s\nis written as\n%s, %v", e.Value, again, err)
			}
		}
		delete(all, kind)
	}
	for kind := range all {
		t.Errorf("nothing reads records of kind %q", kind)
	}
}
