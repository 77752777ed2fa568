package strictjson

import (
	"bytes"
	"encoding/json"
	"testing"
)

// What is JSON to encoding/json can be walked over, and strings mean the same
// to both.
func FuzzWalk(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		err := Check(b)
		if (err == nil) != json.Valid(b) {
			t.Fatalf("%q: encoding/json says %v, we say %v", b, json.Valid(b), err)
		}
		var walked []byte
		walk := Walk(b, func(c *Cursor) (err error) { walked, err = c.Value(); return err })
		if (err == nil) != (walk == nil) ||
			err == nil && !bytes.Equal(walked, bytes.Trim(b, " \t\r\n")) {
			t.Fatalf("%q: %v, and walking over it %q, %v", b, err, walked, walk)
		}
		if walk := Walk(b, step); (err == nil) != (walk == nil) {
			t.Fatalf("%q: %v, and walking into it %v", b, err, walk)
		}
		var want string
		if err != nil || json.Unmarshal(b, &want) != nil || walked[0] != '"' {
			return
		}
		got := Unquote(walked)
		if got != want {
			t.Fatalf("%q means %q, not %q", b, want, got)
		}
		var back string
		if err := json.Unmarshal(AppendString(nil, got), &back); err != nil || back != want {
			t.Fatalf("%q, quoted again, means %q: %v", want, back, err)
		}
	})
}

// step passes a value by each of its parts.
func step(c *Cursor) error {
	open := c.Next()
	if open != '{' && open != '[' {
		_, err := c.Value()
		return err
	}
	if err := c.Enter(open); err != nil {
		return err
	}
	for c.More() {
		if open == '{' {
			if _, err := c.Value(); err != nil {
				return err
			}
		}
		if err := step(c); err != nil {
			return err
		}
	}
	return c.Leave()
}

// A value that is to stand within others is checked with the depth of all.
func TestCheckWithin(t *testing.T) {
	nest := func(n int) []byte {
		return bytes.Join([][]byte{bytes.Repeat([]byte("["), n), bytes.Repeat([]byte("]"), n)}, nil)
	}
	for _, c := range []struct {
		value  []byte
		depth  int
		within bool
	}{
		{nest(maxDepth), 0, true}, {nest(maxDepth), 1, false}, {nest(maxDepth - 4), 4, true},
		{nest(maxDepth - 3), 4, false},
		{[]byte("1],[1"), 4, false}, {[]byte(`{"a":"` + string(nest(maxDepth)) + `"}`), 4, true},
		{nil, 4, false},
	} {
		if err := CheckWithin(c.value, c.depth); (err == nil) != c.within {
			t.Errorf("%.20q in %d: %v", c.value, c.depth, err)
		}
	}
}
