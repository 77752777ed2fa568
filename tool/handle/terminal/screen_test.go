package terminal

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/tool/handle"
)

// pressed returns what keys come to.
func pressed(t *testing.T, before string, keys ...string) string {
	t.Helper()
	out := newOutbox()
	s := newScreen(24, 80, out)
	s.draw([]byte(before))
	var all []handle.Key
	for _, name := range keys {
		k, err := handle.ParseKey(name)
		must(t, err)
		all = append(all, k)
	}
	must(t, s.press(all))
	s.close()
	out.close()
	b, _ := out.take()
	return string(b)
}

// Each key that can be named comes to something, and to what no other one
// comes to, but for those that are alike on every terminal.
func TestEveryKeyIsSent(t *testing.T) {
	names := append(handle.KeyNames(), "shift+tab", "ctrl+space", "a", "Z", "/", "é", "shift+b")
	for _, c := range `abcdefghijklmnopqrstuvwxyz[\]^_` {
		names = append(names, "ctrl+"+string(c))
	}
	alike := map[string]string{"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+[": "escape"}
	seen := map[string]string{}
	for _, name := range names {
		for _, full := range []string{name, "alt+" + name} {
			got := pressed(t, "", full)
			if got == "" || strings.HasPrefix(full, "alt+") != strings.HasPrefix(got, "\x1b") &&
				len(got) == 1 && name != "escape" && name != "ctrl+[" {
				t.Errorf("%s: %q", full, got)
			}
			if other, ok := seen[got]; ok && alike[strings.TrimPrefix(full, "alt+")] !=
				strings.TrimPrefix(other, "alt+") {
				t.Errorf("%s and %s are both %q", other, full, got)
			}
			seen[got] = full
		}
	}
	for name, want := range map[string]string{
		"ctrl+c": "\x03", "enter": "\r", "alt+x": "\x1bx", "space": " ", "é": "é", "shift+b": "B",
		"text:a\nb": "a\rb", "ctrl+alt+a": "\x1b\x01",
	} {
		if got := pressed(t, "", name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Keys follow the mode that the program has set, and go in order.
func TestKeysFollowTheMode(t *testing.T) {
	if got := pressed(t, "\x1b[?1h", "up", "x", "text:yz", "up"); got != "\x1bOAxyz\x1bOA" {
		t.Errorf("%q", got)
	}
}

// A program that doesn't read makes nothing wait, and nothing grow.
func TestAProgramThatDoesNotRead(t *testing.T) {
	out := newOutbox()
	s := newScreen(24, 80, out)
	defer s.close()
	for range 300 {
		s.draw(bytes.Repeat([]byte("\x1b[6n"), 1000))
	}
	text := handle.Key{Text: strings.Repeat("x", maxWaiting/2)}
	if err := s.press([]handle.Key{text, text}); !errors.Is(err, errFull) {
		t.Errorf("%v", err)
	}
	if b, _ := out.take(); len(b) == 0 || len(b) > maxWaiting {
		t.Errorf("%d bytes wait", len(b))
	}
}

// A short sequence makes no long work. Without a bound, each of these takes a
// second or a minute, and the bytes of a number may overflow.
func TestRepetitionsAreBounded(t *testing.T) {
	s := newScreen(24, 80, newOutbox())
	defer s.close()
	begun := time.Now()
	for _, command := range counted {
		for _, n := range []string{"99999999", "9223372036854775807", "99999999999999999999999"} {
			s.draw([]byte("x\x1b[" + n + string(command)))
		}
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("they took %v", took)
	}
}

// Wide characters have their one place; spaces at the ends are left out.
func TestTheScreenAsText(t *testing.T) {
	s := newScreen(4, 10, newOutbox())
	defer s.close()
	s.draw([]byte("世界!\r\n\x1b[7m reverse  \x1b[0m\r\n\x1b[4;10Hx\x1b[2;3H"))
	text, size := s.show()
	if want := "世界!\n reverse\n\n         x"; text != want {
		t.Errorf("%q", text)
	}
	if want := (handle.Screen{Rows: 4, Columns: 10, Row: 2, Column: 3}); size != want {
		t.Errorf("%+v", size)
	}
}

// Whatever a program writes, it doesn't end this one, and the screen is a text
// of its size.
func FuzzScreen(f *testing.F) {
	f.Add([]byte("plain\r\ntext"), 24, 80)
	f.Add([]byte("\x1b[2J\x1b[3;4Hx\x1b[?1049h\x1b[6n\x1b[c\x1b]0;title\x07"), 5, 5)
	f.Add([]byte("\x1b[9999b\x1b[9999L\x1b[9999@\x1b[5;2r\x1bM\xff\xe4\xb8"), 1, 1)
	f.Add([]byte("👩‍👩‍👧‍👦e\u0301\x1b[1;1Hx"), 2, 3)
	f.Fuzz(func(t *testing.T, output []byte, rows, columns int) {
		if rows < 1 || rows > 50 || columns < 1 || columns > 200 || len(output) > 1<<12 {
			return
		}
		out := newOutbox()
		s := newScreen(rows, columns, out)
		s.draw(output)
		text, size := s.show()
		must(t, s.press([]handle.Key{{Name: "up"}, {Name: "c", Ctrl: true}}))
		s.close()
		if !utf8.ValidString(text) || strings.Count(text, "\n") >= rows {
			t.Errorf("%q", text)
		}
		if size.Row < 1 || size.Row > rows || size.Column < 1 || size.Column > columns {
			t.Errorf("the cursor is at %+v", size)
		}
	})
}
