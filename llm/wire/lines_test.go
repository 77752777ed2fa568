package wire

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLinesEndAsTheStandardHasThem(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		"a\nb\n\nc":                "a\nb\n\nc",
		"a\r\nb\r\n\r\nc":          "a\nb\n\nc",
		"a\rb\r\rc\r":              "a\nb\n\nc\n",
		"a\r\n\rb\n\r\nc":          "a\n\nb\n\nc",
		"\uFEFFa\uFEFF":            "a\uFEFF",
		"\uFEFF\uFEFFa":            "\uFEFFa",
		"\uFEFF\r\na":              "\na",
		"data: a\\rb\r\r":          "data: a\\rb\n\n",
		"data: \u00EF\u00BBå\r\r":  "data: \u00EF\u00BBå\n\n",
		strings.Repeat("x\r", 999): strings.Repeat("x\n", 999),
	} {
		for name, r := range map[string]io.Reader{"at once": strings.NewReader(in), "by bytes": iotest.OneByteReader(strings.NewReader(in))} {
			if got, err := io.ReadAll(newLines(r)); err != nil || string(got) != want {
				t.Errorf("%s, %.20q: %.20q, %v, want %.20q", name, in, got, err, want)
			}
		}
	}
}

// An event doesn't wait for the line feed that may follow its carriage return,
// and the error of a connection that broke is told.
func TestLinesDoNotWait(t *testing.T) {
	r, w := io.Pipe()
	broken := errors.New("broken")
	go func() {
		_, _ = io.WriteString(w, "data: a\r\r")
		_, _ = io.WriteString(w, "\n")
		w.CloseWithError(broken)
	}()
	lines, got := newLines(r), make([]byte, 64)
	if n, err := lines.Read(got); err != nil || string(got[:n]) != "data: a\n\n" {
		t.Errorf("%q, %v", got[:n], err)
	}
	if n, err := lines.Read(got); n > 0 || err != broken {
		t.Errorf("%q, %v", got[:n], err)
	}
}
