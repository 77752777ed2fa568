package kvtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/kvstore"
)

// batchLimits goes to each limit and one past it.
func batchLimits(t *testing.T, c Config) {
	s := open(t, c)
	fits := func(b kvstore.Batch) {
		t.Helper()
		r := s.apply(b)
		for _, p := range b.Puts {
			s.has(string(p.Key), string(p.Value), r)
		}
	}
	tooLarge := func(b kvstore.Batch, says ...string) {
		t.Helper()
		err := s.refused(kvstore.ErrTooLarge, b)
		for _, part := range says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error %q doesn't say %q", err, part)
			}
		}
		for _, p := range b.Puts[:1] {
			s.lacks(string(p.Key))
		}
	}
	long := func(n int) string { return strings.Repeat("k", n) }
	value := func(n int) string { return strings.Repeat("v", n) }

	fits(kvstore.Batch{Puts: []kvstore.Put{put(long(kvstore.MaxKey), "v")}})
	tooLarge(kvstore.Batch{Puts: []kvstore.Put{put("1", ""), put(long(kvstore.MaxKey+1), "v")}},
		"513", "512")
	tooLarge(kvstore.Batch{Puts: []kvstore.Put{put("1", "")},
		Deletes: [][]byte{[]byte(long(kvstore.MaxKey + 1))}}, "513", "512")
	tooLarge(kvstore.Batch{Puts: []kvstore.Put{put("1", "")},
		Preconditions: []kvstore.Precondition{absent(long(kvstore.MaxKey + 1))}}, "513", "512")

	fits(kvstore.Batch{Puts: []kvstore.Put{put("large value", value(kvstore.MaxValue))}})
	tooLarge(kvstore.Batch{Puts: []kvstore.Put{put("larger value", value(kvstore.MaxValue+1))}},
		`"larger value"`, "65537", "65536")

	fits(operations("o", kvstore.MaxOperations))
	tooLarge(operations("p", kvstore.MaxOperations+1), "101", "100")

	fits(bytesOf("b", kvstore.MaxBatch))
	tooLarge(bytesOf("c", kvstore.MaxBatch+1), "524289", "524288")
}

// operations returns a batch of n: a third of them preconditions, one a delete,
// the rest puts.
func operations(prefix string, n int) kvstore.Batch {
	b := kvstore.Batch{Deletes: [][]byte{[]byte(prefix + "deleted")}}
	for i := range n / 3 {
		b.Preconditions = append(b.Preconditions, absent(fmt.Sprint(prefix, i)))
	}
	for i := 0; b.Operations() < n; i++ {
		b.Puts = append(b.Puts, put(fmt.Sprint(prefix, i), fmt.Sprint(i)))
	}
	return b
}

// bytesOf returns a batch of n bytes: a precondition and a delete, which count
// too, and puts.
func bytesOf(prefix string, n int) kvstore.Batch {
	kept, gone := prefix+"0", prefix+"gone"
	b := kvstore.Batch{Preconditions: []kvstore.Precondition{absent(kept)},
		Deletes: [][]byte{[]byte(gone)}}
	n -= len(kept) + len(gone)
	for i := 0; n > 0; i++ {
		p := put(fmt.Sprint(prefix, i), "")
		p.Value = []byte(strings.Repeat("v", min(n-len(p.Key), kvstore.MaxValue)))
		b.Puts = append(b.Puts, p)
		n -= len(p.Key) + len(p.Value)
	}
	return b
}

func malformedBatches(t *testing.T, c Config) {
	s := open(t, c)
	r := s.put("a", "1")
	many := kvstore.Batch{}
	for i := range 50 {
		many.Puts = append(many.Puts, put(fmt.Sprint("m", i), ""))
	}
	many.Deletes = [][]byte{[]byte("m17")}
	for name, b := range map[string]kvstore.Batch{
		"empty key in a put":    {Puts: []kvstore.Put{put("n", ""), put("", "v")}},
		"empty key in a delete": {Puts: []kvstore.Put{put("n", "")}, Deletes: [][]byte{nil}},
		"empty key in a precondition": {Puts: []kvstore.Put{put("n", "")},
			Preconditions: []kvstore.Precondition{absent("")}},
		"two puts": {Puts: []kvstore.Put{put("n", "1"), put("a", "2"),
			put("a", "2")}},
		"two deletes": {Deletes: [][]byte{[]byte("a"), []byte("b"), []byte("a")}},
		"a put and a delete": {Puts: []kvstore.Put{put("a", "2")},
			Deletes: [][]byte{[]byte("a")}},
		"two preconditions": {Preconditions: []kvstore.Precondition{at("a", r),
			at("a", r)}},
		"one of many": many,
	} {
		t.Run(name, func(t *testing.T) {
			s := store{t, s.kv}
			s.refused(kvstore.ErrInvalid, b)
			s.has("a", "1", r)
			s.lacks("n", "m0")
		})
	}
	s.put("a", "2", at("a", r)) // a precondition may name a key that is written
}
