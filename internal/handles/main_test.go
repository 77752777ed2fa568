package handles

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "write what is made into testdata")

// golden compares what was made with a file of testdata.
func golden(t *testing.T, name string, got json.RawMessage) {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, got, "", "  "); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	b.WriteByte('\n')
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("got\n%s\nwant\n%s", &b, want)
	}
}

// told fails the test unless an error is in words for a model: short, and with
// all of parts.
func told(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	s := err.Error()
	if len(s) > 4000 || !utf8.ValidString(s) {
		t.Errorf("%d bytes: %.200q", len(s), s)
	}
	for _, p := range parts {
		if !strings.Contains(s, p) {
			t.Errorf("%q is not in\n%s", p, s)
		}
	}
}

const shell = `{"type":"object","properties":{
	"command":{"type":"string","description":"What to run"},
	"dir":{"type":"string"},
	"env":{"type":"array","items":{"$ref":"#/$defs/variable"}},
	"quiet":{"type":["boolean","null"]}
},"required":["command","quiet"],"additionalProperties":false,"minProperties":1,"$defs":{
	"variable":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],
		"additionalProperties":false}}}`

func form(t testing.TB, c Config) *Form {
	t.Helper()
	if c.Input == nil {
		c.Input = json.RawMessage(shell)
	}
	c.Tool = "shell"
	f, err := NewForm(c)
	must(t, err)
	return f
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
