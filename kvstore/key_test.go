package kvstore_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/internal/property"
	"github.com/fermata-ai/fermata/kvstore"
)

// tuples draws parts that are likely to be each other's beginnings, and to need
// escapes.
var tuples = rapid.SliceOfN(rapid.OneOf(
	rapid.StringOfN(rapid.SampledFrom([]rune("\x00\x01\x02ab")), 0, 4, -1),
	rapid.SampledFrom([]string{"chat-1", "chat-10", "chat-1\x00", "\xff", ""}),
	rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 6), func(b []byte) string { return string(b) }),
), 0, 4)

func TestKeyRoundTrip(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		parts := tuples.Draw(t, "parts")
		got, err := kvstore.Parts(kvstore.Key(parts...))
		if err != nil || !slices.Equal(got, parts) {
			t.Fatalf("Parts(Key(%q)) = %q, %v", parts, got, err)
		}
	})
}

// TestKeyOrder: keys sort as tuples do, part by part, the shorter first.
func TestKeyOrder(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		a, b := tuples.Draw(t, "a"), tuples.Draw(t, "b")
		if got, want := bytes.Compare(kvstore.Key(a...), kvstore.Key(b...)), slices.Compare(a, b); got != want {
			t.Fatalf("Key(%q) and Key(%q) compare as %d, want %d", a, b, got, want)
		}
	})
}

// TestKeyPrefix: a key is another's prefix if, and only if, its tuple is.
func TestKeyPrefix(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		a, b := tuples.Draw(t, "a"), tuples.Draw(t, "b")
		if rapid.Bool().Draw(t, "related") {
			b = append(slices.Clone(a), b...)
		}
		want := len(a) <= len(b) && slices.Equal(a, b[:len(a)])
		if got := bytes.HasPrefix(kvstore.Key(b...), kvstore.Key(a...)); got != want {
			t.Fatalf("Key(%q) is a prefix of Key(%q): %v, want %v", a, b, got, want)
		}
		if joined := kvstore.AppendKey(kvstore.Key(a...), b...); !bytes.Equal(joined, kvstore.Key(slices.Concat(a, b)...)) {
			t.Fatalf("AppendKey(Key(%q), %q) = %q", a, b, joined)
		}
	})
}

func TestPartsOfMalformedKeys(t *testing.T) {
	for key, says := range map[string]string{
		"a":              "no end",
		"a\x00b":         "no end",
		"\x01":           "byte 0",
		"ab\x01":         "byte 2",
		"ab\x01\x00":     "byte 2",
		"ab\x01\x03\x00": "byte 2",
	} {
		if parts, err := kvstore.Parts([]byte(key)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Parts(%q) = %q, %v; want an error with %q", key, parts, err, says)
		}
	}
}

// FuzzParts: whatever Parts accepts is what Key makes of the parts.
func FuzzParts(f *testing.F) {
	f.Fuzz(func(t *testing.T, key []byte) {
		parts, err := kvstore.Parts(key)
		if err != nil {
			return
		}
		if again := kvstore.Key(parts...); !bytes.Equal(again, key) {
			t.Errorf("Parts(%q) = %q, and Key makes %q of that", key, parts, again)
		}
	})
}
