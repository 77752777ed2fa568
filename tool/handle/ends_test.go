package handle

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// Head and tail are kept, whatever the pieces are that come, and all bytes are
// accounted for.
func TestEndsKeepHeadAndTail(t *testing.T) {
	whole := ""
	for i := range 1000 {
		whole += fmt.Sprintf("%03d,", i)
	}
	for _, piece := range []int{1, 3, 50, 99, 100, 101, 4000} {
		e := ends{most: 100}
		for rest := whole; rest != ""; rest = rest[min(piece, len(rest)):] {
			_, _ = e.Write([]byte(rest[:min(piece, len(rest))]))
		}
		text, left := e.text()
		want := whole[:50] + leftOut(3900) + whole[len(whole)-50:]
		if text != want || left != 3900 {
			t.Errorf("pieces of %d: %q, %d left out", piece, text, left)
		}
		if cap(e.head)+cap(e.tail) > 1000 {
			t.Errorf("pieces of %d: %d bytes are held", piece, cap(e.head)+cap(e.tail))
		}
	}
}

func TestEndsKeepWhatFits(t *testing.T) {
	for n := range 101 {
		e := ends{most: 100}
		want := strings.Repeat("x", n)
		for range n {
			_, _ = e.Write([]byte("x"))
		}
		if got := e.take(true); got != want || !e.empty() {
			t.Errorf("%d: %q", n, got)
		}
	}
}

// A character is taken whole, however its bytes come.
func TestEndsTakeWholeCharacters(t *testing.T) {
	e, got := ends{most: 100}, ""
	for _, b := range []byte("aé😀\xffz") {
		_, _ = e.Write([]byte{b})
		part := e.take(true)
		if !utf8.ValidString(part) {
			t.Fatalf("%q", part)
		}
		got += part
	}
	_, _ = e.Write([]byte("\xf0\x9f"))
	got += e.take(true) + e.take(false)
	if got != "aé😀\ufffdz\ufffd" {
		t.Errorf("%q", got)
	}
}

func FuzzEnds(f *testing.F) {
	f.Add("head, and a long middle, and a tail", 3, 10)
	f.Add("😀😀😀😀😀😀😀\xf0\x9f", 1, 9)
	f.Fuzz(func(t *testing.T, whole string, piece, most int) {
		if piece < 1 || most < 8 || most > 1<<10 || len(whole) > 1<<14 {
			return
		}
		e := ends{most: most}
		for rest := whole; rest != ""; rest = rest[min(piece, len(rest)):] {
			_, _ = e.Write([]byte(rest[:min(piece, len(rest))]))
		}
		text, left := e.text()
		switch {
		case !utf8.ValidString(text):
			t.Errorf("%q is not valid", text)
		case len(whole) <= most && (left != 0 || text != strings.ToValidUTF8(whole, "\ufffd")):
			t.Errorf("%q, %d left out", text, left)
		case len(whole) > most && (left < len(whole)-most || left > len(whole)-most+6):
			t.Errorf("%d of %d are left out, of which %d may be kept", left, len(whole), most)
		}
	})
}
