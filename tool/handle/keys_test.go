package handle

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestKeys(t *testing.T) {
	for s, want := range map[string]Key{
		"enter": {Name: "enter"}, "Return": {Name: "enter"}, "esc": {Name: "escape"},
		"page_up": {Name: "pageup"}, "ArrowUp": {Name: "up"}, "F12": {Name: "f12"},
		"q": {Name: "q"}, "G": {Name: "G"}, "shift+g": {Name: "G"}, "é": {Name: "é"},
		":": {Name: ":"}, "+": {Name: "+"}, "-": {Name: "-"}, " ": {Name: "space"},
		"ctrl+c": {Name: "c", Ctrl: true}, "Ctrl+C": {Name: "c", Ctrl: true},
		"ctrl-c": {Name: "c", Ctrl: true}, "control+space": {Name: "space", Ctrl: true},
		"alt+x": {Name: "x", Alt: true}, "meta+enter": {Name: "enter", Alt: true},
		"ctrl+alt+a": {Name: "a", Ctrl: true, Alt: true}, "alt++": {Name: "+", Alt: true},
		"shift+tab":  {Name: "tab", Shift: true},
		"text:a b\n": {Text: "a b\n"}, "text:enter": {Text: "enter"}, "text:": {},
	} {
		got, err := ParseKey(s)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", s, got, err)
		}
	}
}

// The error of a key that there isn't names it, and the nearest one.
func TestKeysThatThereAreNot(t *testing.T) {
	for s, near := range map[string]string{
		"entr": "enter", "escpe": "escape", "page up": "pageup", "f13": "f1", "ctrl+spce": "ctrl+space",
		"ctrl+up": "up", "shift+up": "up", "alt+entr": "alt+enter", "backspce": "backspace",
		"hello world": "", ":wq": "", "": "", "ctrl+é": "", "\x1b": "",
	} {
		_, err := ParseKey(s)
		switch {
		case err == nil:
			t.Errorf("%q is a key", s)
		case near != "" && !strings.Contains(err.Error(), `the nearest is "`+near+`"`),
			!strings.Contains(err.Error(), "there is no key"), !strings.Contains(err.Error(), "text:"):
			t.Errorf("%q: %v", s, err)
		}
	}
	if _, err := ParseKey("text:\x1b[A"); err == nil || !strings.Contains(err.Error(), `'\x1b'`) {
		t.Errorf("%v", err)
	}
}

// An input to a terminal is checked as a whole, before anything is typed.
func TestTypedInputs(t *testing.T) {
	keys, err := readTyped(raw(`{"keys":["enter"],"text":"ls"}`))
	if want := []Key{{Text: "ls"}, {Name: "enter"}}; err != nil || !slices.Equal(keys, want) {
		t.Errorf("%+v, %v", keys, err)
	}
	for in, want := range map[string]string{
		`{}`: "neither", `{"keys":["up","entr"]}`: `keys[1]: there is no key "entr"`,
		`{"key":["up"]}`: `"key"`, `"enter"`: "an input is", `{"text":"\u0003"}`: "control character",
		`{"text":"` + strings.Repeat("x", maxTyped+1) + `"}`:    "at most",
		`{"keys":["x"` + strings.Repeat(`,"x"`, maxKeys) + `]}`: "at most",
	} {
		if _, err := readTyped(raw(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v", in, err)
		}
	}
}

// A key is one that a terminal has, or a text that can be typed; an error
// names the key, and is for a model to read.
func FuzzKeys(f *testing.F) {
	for _, s := range append(KeyNames(), "ctrl+c", "alt+x", "shift+tab", "text:hello", "entr", "C-c",
		"ctrl+alt+", "ctrl++", "page-up", "alt-page-up", "é", "👩‍👩‍👧‍👦", "\xff", "\x00", "") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		k, err := ParseKey(s)
		switch {
		case err != nil:
			if len(err.Error()) > 1000 || !utf8.ValidString(err.Error()) {
				t.Errorf("%q", err)
			}
		case k.Name == "":
			if k != (Key{Text: k.Text}) || checkTyped(k.Text) != nil {
				t.Errorf("%q: %+v", s, k)
			}
		default:
			named := slices.Contains(keyNames, k.Name)
			if k.Text != "" || !named && utf8.RuneCountInString(k.Name) != 1 {
				t.Errorf("%q: %+v", s, k)
			}
			if k.Ctrl && k.Name != "space" && !strings.Contains(controls, k.Name) ||
				k.Shift && k.Name != "tab" {
				t.Errorf("%q: %+v: no terminal has it", s, k)
			}
		}
	})
}
