package jsontree_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/fermata-ai/fermata/internal/jsontree"
)

// A tree is the value that it was read from: every member, in its order.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{ "b":[1.0e2, {}, [] ], "a":"\u003c\/", "b" : null}`, ` "x" `, `[true,false]`,
		`{"a":}`, `[1,]`, `{"a":1}{}`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var want bytes.Buffer
		bad := json.Compact(&want, text)
		v, err := jsontree.Parse(text)
		if (err == nil) != (bad == nil) {
			t.Fatalf("%q is read with %v, and encoding/json says %v", text, err, bad)
		}
		odd := func(r rune) bool { return r == '\\' || r > '~' }
		if err != nil || bytes.ContainsFunc(text, odd) {
			return // names are written without needless escapes
		}
		if got := jsontree.Text(v); !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s is read as %s", want.Bytes(), got)
		}
	})
}
