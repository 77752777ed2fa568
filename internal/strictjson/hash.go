package strictjson

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"hash"
	"slices"
	"strconv"
	"strings"
)

// Hash returns a name of a JSON value up to JSON equality: order of names,
// white space and escapes of strings don't count. Numbers are compared digit
// for digit, as text: 1, 1.0 and 1e0 are three values, since a float64 would
// take 2^53 and 2^53+1 for one. By it a duplicate of an answer is told from
// another answer. The error is of a value that is no JSON, or has two equal
// names.
func Hash(value json.RawMessage) (string, error) {
	defer Turn(len(value))()
	d, err := Parse(value, Strict(false))
	if err != nil {
		return "", err
	}
	h := sha256.New()
	writeCanonical(h, d.Root)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:18]), nil
}

// writeCanonical writes a form of v that no other value has: each piece begins
// with its kind and its length.
func writeCanonical(h hash.Hash, v any) {
	write := func(what byte, s string) {
		h.Write([]byte(strconv.Itoa(len(s)) + string(what) + s))
	}
	switch v := v.(type) {
	case nil:
		write('z', "")
	case bool:
		write('b', strconv.FormatBool(v))
	case String:
		write('s', v.Text)
	case Number:
		write('n', v.Text)
	case Array:
		write('a', strconv.Itoa(len(v)))
		for _, e := range v {
			writeCanonical(h, e)
		}
	case Object:
		members := slices.SortedFunc(slices.Values(v.Members), func(a, b Member) int {
			return strings.Compare(a.Name, b.Name)
		})
		write('o', strconv.Itoa(len(members)))
		for _, m := range members {
			write('s', m.Name)
			writeCanonical(h, m.Value)
		}
	}
}
