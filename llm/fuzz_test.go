package llm

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// What decodes encodes again, and means the same.
func FuzzMessage(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, again, viaStd Message
		if m.UnmarshalJSON(b) != nil {
			return
		}
		out, err := m.AppendJSON(nil)
		if err != nil || !json.Valid(out) {
			t.Fatalf("decoded, but doesn't encode: %v: %q", err, out)
		}
		if err := again.UnmarshalJSON(out); err != nil || !cmp.Equal(m, again) {
			t.Fatalf("%v: %s", err, cmp.Diff(m, again))
		}
		if err := json.Unmarshal(b, &viaStd); err != nil || !cmp.Equal(m, viaStd) {
			t.Fatalf("by encoding/json, %v: %s", err, cmp.Diff(m, viaStd))
		}
		if clean, err := m.Clean().AppendJSON(nil); err != nil || !utf8.Valid(clean) {
			t.Fatalf("cleaned, %v: %q", err, clean)
		}
	})
}

func FuzzArguments(f *testing.F) {
	f.Fuzz(func(t *testing.T, s string) {
		argumentsHold(t, s)
		if !json.Valid([]byte(s)) || !utf8.ValidString(s) {
			return
		}
		// What is JSON is its own arguments, but for the forms of nothing.
		got, err := Arguments(s)
		var in, out any
		if json.Unmarshal([]byte(s), &in) != nil || json.Unmarshal(got, &out) != nil {
			return
		}
		if _, isString := in.(string); !isString && in != nil && (err != nil || !cmp.Equal(in, out)) {
			t.Fatalf("%q became %q, %v", s, got, err)
		}
	})
}

// Whatever the fragments are, they come out once each, in order, or there is an
// error.
func FuzzCollector(f *testing.F) {
	f.Fuzz(func(t *testing.T, script []byte) {
		var c Collector
		var sent int
		for len(script) >= 4 {
			index, id, name, arg := int(script[0]%4), script[1]%4, script[2]%3, string(script[3:4])
			script = script[4:]
			d := ToolCallDelta{Index: index, ProviderID: []string{"", "a", "b", "c"}[id], Name: []string{"", "f", "g"}[name], Arguments: arg}
			if c.Add(d) == nil {
				sent += len(arg)
			}
		}
		got := 0
		for _, s := range c.calls {
			got += len(s.args.string())
		}
		if got != sent {
			t.Fatalf("%d bytes of arguments were accepted, %d are there", sent, got)
		}
		m, _, _ := c.Message()
		if b, err := m.AppendJSON(nil); err != nil {
			t.Fatalf("%v: %q", err, b)
		}
	})
}
