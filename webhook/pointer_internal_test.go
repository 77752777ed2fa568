package webhook

import (
	"encoding/json"
	"testing"
)

// The pointers are those of RFC 6901, section 5, as far as they point to a
// string or a number.
func TestPointersToKeys(t *testing.T) {
	doc := json.RawMessage(`{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,` +
		`"k\"l":6," ":7,"m~n":8,"deep":{"a":[{"id":9007199254740993}]},"null":null,"true":true,"e":""}`)
	for text, want := range map[string]string{
		"/foo/0": "bar", "/foo/1": "baz", "/": "0", "/a~1b": "1", "/c%d": "2", "/e^f": "3", "/g|h": "4",
		`/i\j`: "5", `/k"l`: "6", "/ ": "7", "/m~0n": "8", "/deep/a/0/id": "9007199254740993",
		"/foo": "", "/foo/2": "", "/foo/-": "", "/foo/01": "", "/foo/-1": "", "/FOO/0": "", "/null": "",
		"/true": "", "/deep": "", "/e": "", "/foo/0/x": "", "/m~01n": "",
	} {
		p, err := parsePointer(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := p.key(doc); got != want {
			t.Errorf("%s points to %q, and not %q", text, got, want)
		}
	}
	for _, bad := range []string{"", "foo", "#/foo", "/~", "/~2", "/a~"} {
		if p, err := parsePointer(bad); err == nil {
			t.Errorf("%q is taken as %q", bad, p)
		}
	}
}
