package handle

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/schema"
)

// Key is what a terminal is given: a key with its modifiers, or a text.
type Key struct {
	// Name is one of KeyNames, or a printable character.
	Name      string
	Ctrl, Alt bool
	Shift     bool   // with "tab" alone: a shifted letter is another character
	Text      string // with an empty Name: typed as it is, its newlines as enter
}

// keyNames are the keys that have a name.
var keyNames = []string{
	"enter", "tab", "escape", "backspace", "space", "insert", "delete",
	"up", "down", "left", "right", "home", "end", "pageup", "pagedown",
	"f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f11", "f12",
}

// KeyNames returns the names of keys: "enter", "up", "f1".
func KeyNames() []string { return slices.Clone(keyNames) }

// other are names that models use, too.
var otherNames = map[string]string{
	"esc": "escape", "return": "enter", "del": "delete", "ins": "insert",
	"pgup": "pageup", "page_up": "pageup", "page-up": "pageup",
	"pgdn": "pagedown", "pgdown": "pagedown", "page_down": "pagedown", "page-down": "pagedown",
	"arrowup": "up", "arrowdown": "down", "arrowleft": "left", "arrowright": "right",
}

// controls are the characters that go with ctrl.
const controls = `abcdefghijklmnopqrstuvwxyz[\]^_`

// textKey begins what is a text among keys.
const textKey = "text:"

// ParseKey reads a key: a name, a character, either with "ctrl+", "alt+" or
// "shift+" before it, or a text after "text:". The error names the key, and the
// nearest one that there is.
func ParseKey(s string) (Key, error) {
	if text, ok := strings.CutPrefix(s, textKey); ok {
		return Key{Text: text}, checkTyped(text)
	}
	k, rest := modifiers(s)
	name := strings.ToLower(rest)
	if other, ok := otherNames[name]; ok {
		name = other
	}
	first, size := utf8.DecodeRuneInString(rest)
	switch {
	case slices.Contains(keyNames, name):
		k.Name = name
	case rest == " ":
		k.Name = "space"
	case rest != "" && size == len(rest) && unicode.IsGraphic(first) && first != utf8.RuneError:
		k.Name = rest
	default:
		return Key{}, noKey(s)
	}
	if k.Shift && unicode.IsLetter(first) && size == len(rest) {
		k.Name, k.Shift = string(unicode.ToUpper(first)), false
	}
	if k.Ctrl && len(k.Name) == 1 {
		k.Name = strings.ToLower(k.Name)
	}
	if k.Shift && k.Name != "tab" ||
		k.Ctrl && k.Name != "space" && (len(k.Name) != 1 || !strings.Contains(controls, k.Name)) {
		return Key{}, noKey(s)
	}
	return k, nil
}

// modifiers returns a key with the modifiers that a text begins with, and the
// rest.
func modifiers(s string) (k Key, rest string) {
	for {
		i := strings.IndexAny(s, "+-")
		if i < 1 || i == len(s)-1 {
			return k, s
		}
		switch strings.ToLower(s[:i]) {
		case "ctrl", "control":
			k.Ctrl = true
		case "alt", "meta", "option":
			k.Alt = true
		case "shift":
			k.Shift = true
		default:
			return k, s
		}
		s = s[i+1:]
	}
}

// noKey returns the error of a key that there isn't.
func noKey(s string) error {
	words := fmt.Sprintf("there is no key %q", excerpt.Of(s))
	all := append(KeyNames(), "shift+tab", "ctrl+space")
	for _, c := range controls {
		all = append(all, "ctrl+"+string(c))
	}
	k, rest := modifiers(s)
	near, ok := strings.ToLower(rest), true
	if !slices.Contains(keyNames, near) { // else its modifiers are wrong
		near, ok = schema.Nearest(strings.ToLower(s), all)
	}
	if !ok {
		near, ok = schema.Nearest(strings.ToLower(rest), keyNames)
		if k.Alt && ok {
			near = "alt+" + near
		}
	}
	if ok {
		words += fmt.Sprintf("; the nearest is %q", near)
	}
	return errors.New(words + `; to type a text, write "` + textKey + `…"; the keys are single ` +
		`characters, "ctrl+c" and other letters, "alt+…", "shift+tab", and ` +
		strings.Join(keyNames, ", "))
}

// Bounds of what is typed at once.
const (
	maxKeys  = 1000
	maxTyped = 64 << 10
)

// checkTyped returns what is wrong with a text that is typed.
func checkTyped(text string) error {
	if len(text) > maxTyped {
		return fmt.Errorf("the text has %d bytes, at most %d can be typed at once", len(text), maxTyped)
	}
	for _, r := range text {
		if unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' {
			return fmt.Errorf("the text has the control character %q: give it as a key, "+
				`such as "ctrl+c" or "escape"`, r)
		}
	}
	return nil
}

// typedSchema is that of an input to a program with a terminal.
var typedSchema = `{"type":"object","properties":{` +
	`"text":{"type":"string","description":"Typed as it is; a newline is enter."},` +
	`"keys":{"type":"array","items":{"type":"string"},"description":"Pressed after the text, in ` +
	`order: a character, text:…, ctrl+ and a letter, alt+…, shift+tab, or one of ` +
	strings.Join(keyNames, ", ") + `."}},"additionalProperties":false}`

// readTyped reads an input. The error is for the model that gave it.
func readTyped(raw json.RawMessage) ([]Key, error) {
	var in struct {
		Text string   `json:"text"`
		Keys []string `json:"keys"`
	}
	if err := strict(raw, &in); err != nil {
		return nil, fmt.Errorf(`an input is {"text": "…", "keys": ["enter"]}, either or both; `+
			"this one is not: %w", err)
	}
	if in.Text == "" && len(in.Keys) == 0 {
		return nil, errors.New(`the input has neither "text" nor "keys"`)
	}
	if len(in.Keys) > maxKeys {
		return nil, fmt.Errorf("the input has %d keys, at most %d can be pressed at once",
			len(in.Keys), maxKeys)
	}
	if err := checkTyped(in.Text); err != nil {
		return nil, err
	}
	var keys []Key
	if in.Text != "" {
		keys = append(keys, Key{Text: in.Text})
	}
	for i, s := range in.Keys {
		k, err := ParseKey(s)
		if err != nil {
			return nil, fmt.Errorf("keys[%d]: %w", i, err)
		}
		keys = append(keys, k)
	}
	return keys, nil
}
