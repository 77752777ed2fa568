package wire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm/wire"
)

func TestObjectsKeepTheirOrderAndTheirBytes(t *testing.T) {
	o, err := wire.ParseObject(json.RawMessage(` { "z" : 1.0e2 , "<a>" : "\u003c\/" , "z" : [ { "b" : 1 } ] , "n" : null } `))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(o.JSON()), `{"z":1.0e2,"<a>":"\u003c\/","z":[{"b":1}],"n":null}`; got != want {
		t.Errorf("%s, and not %s", got, want)
	}
	if o.Text("<a>") != "</" || o.Text("z") != "" || o.Text("gone") != "" || !o.Has("n") || o.Has("gone") || o.Get("gone") != nil {
		t.Errorf("%+v", o)
	}
	own := o.Clone()
	own.Set("z", json.RawMessage("7"))
	own.SetText("s", "a<b> \xff")
	own.Delete("<a>")
	// The coming encoding/json writes the replacement character as it is.
	if got, want := strings.ReplaceAll(string(own.JSON()), "\ufffd", `\ufffd`), `{"z":7,"z":[{"b":1}],"n":null,"s":"a<b> \ufffd"}`; got != want {
		t.Errorf("%s, and not %s", got, want)
	}
	if string(o.Get("z")) != "1.0e2" {
		t.Error("a copy shares its members")
	}
	for _, bad := range []string{"", "[]", "null", `"x"`, `{"a":1`, `{} {}`} {
		if _, err := wire.ParseObject(json.RawMessage(bad)); err == nil {
			t.Errorf("%q is an object", bad)
		}
	}
}
