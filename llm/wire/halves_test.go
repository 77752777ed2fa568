package wire

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

func TestHalvesAreJoined(t *testing.T) {
	for _, c := range []struct {
		name   string
		pieces []string // as they stand between the quotes
		want   []string // what each adds; the last: what is left
	}{
		{"whole runes", []string{"a𝄞", `\ud834\udd1e\u00e9\n\"\\`}, []string{"a𝄞", "𝄞é\n\"\\", ""}},
		{"a surrogate pair", []string{`a\ud834`, `\uDD1Eb`}, []string{"a", "𝄞b", ""}},
		{"the first half escaped, and an escaped backslash before it", []string{`\\\ud834`, `\udd1e`}, []string{`\`, "𝄞", ""}},
		{"no half, but a backslash and letters", []string{`\\ud834`, `\udd1e`}, []string{`\ud834`, "\uFFFD", ""}},
		{"nothing in between", []string{`\ud834`, "", `\udd1e`}, []string{"", "", "𝄞", ""}},
		{"something in between", []string{`\ud834`, "a", `\udd1e`}, []string{"", "\uFFFDa", "\uFFFD", ""}},
		{"two first halves", []string{`\ud834`, `\ud834`, `\udd1e`}, []string{"", "\uFFFD", "𝄞", ""}},
		{"no second half", []string{`a\ud834`}, []string{"a", "\uFFFD"}},
		{"no first half", []string{`\udd1ea`}, []string{"\uFFFDa", ""}},
		{"bytes of a rune", []string{"a\xf0\x9d", "\x84", "\x9eb"}, []string{"a", "", "𝄞b", ""}},
		{"bytes of a rune without the rest", []string{"\xf0\x9d", "a"}, []string{"", "\uFFFD\uFFFDa", ""}},
		{"bytes of no rune", []string{"\xff", "\x9e"}, []string{"\uFFFD", "\uFFFD", ""}},
		{"bytes after a pair's half", []string{`\ud834`, "\x9e"}, []string{"", "\uFFFD\uFFFD", ""}},
		{"a half at the very end of bytes", []string{"\xf0\x9d"}, []string{"", "\uFFFD"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h Halves
			for i, inner := range c.pieces {
				if got := h.Join(piece(t, inner)); got != c.want[i] {
					t.Errorf("piece %d, %q, adds %q, want %q", i, inner, got, c.want[i])
				}
			}
			if got, want := h.Rest(), c.want[len(c.pieces)]; got != want {
				t.Errorf("what is left is %q, want %q", got, want)
			}
		})
	}
}

// Wherever text is cut, by units or by bytes, it is whole again; and what isn't
// cut is what encoding/json reads.
func TestTextIsWholeWhereverItIsCut(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	alphabet := []rune("a\"\\\n\u00e9\u20ac𝄞😀\u2028\x01\uFFFD")
	for range 2000 {
		var text []rune
		for range r.IntN(12) {
			text = append(text, alphabet[r.IntN(len(alphabet))])
		}
		want := string(text)
		inner := func(escaped bool) []string {
			if !escaped {
				return pieces(r, strings.NewReplacer("\"", `\"`, `\`, `\\`, "\n", `\n`, "\x01", `\u0001`).Replace(want))
			}
			var units []string
			for _, u := range utf16.Encode(text) {
				units = append(units, escape(u))
			}
			return units
		}
		for _, escaped := range []bool{false, true} {
			var h Halves
			got, all := "", inner(escaped)
			for _, p := range all {
				s := h.Join(piece(t, p))
				if !utf8.ValidString(s) {
					t.Fatalf("of %q, %q is no UTF-8", all, s)
				}
				got += s
			}
			if got += h.Rest(); got != want {
				t.Fatalf("%q makes %q, want %q", all, got, want)
			}
		}
	}
}

// pieces cuts between bytes, but not within an escape.
func pieces(r *rand.Rand, s string) (all []string) {
	from := 0
	for i := 0; i < len(s); i++ {
		n := 1
		if s[i] == '\\' {
			if n = 2; s[i+1] == 'u' {
				n = 6
			}
		}
		i += n - 1
		if r.IntN(2) == 0 {
			all, from = append(all, s[from:i+1]), i+1
		}
	}
	return append(all, s[from:])
}

func escape(u uint16) string {
	const digits = "0123456789abcdef"
	return `\u` + string([]byte{digits[u>>12], digits[u>>8&15], digits[u>>4&15], digits[u&15]})
}

func TestPieceTakesWhatAStringTakes(t *testing.T) {
	p := Piece("before")
	if err := json.Unmarshal([]byte("null"), &p); err != nil || p != "before" {
		t.Errorf("null makes %q, %v", p, err)
	}
	for _, bad := range []string{"1", "{}", "true", `["a"]`} {
		if err := json.Unmarshal([]byte(bad), &p); err == nil {
			t.Errorf("%s is taken for %q", bad, p)
		}
	}
}

func piece(t *testing.T, inner string) (p Piece) {
	t.Helper()
	if err := json.Unmarshal([]byte(`"`+inner+`"`), &p); err != nil {
		t.Fatal(err)
	}
	return p
}
