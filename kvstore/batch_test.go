package kvstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/kvstore"
)

// The error names the key, and the limit.
// (What is refused, kvtest knows.)
func TestCheckNamesTheKey(t *testing.T) {
	put := func(key string, value int) kvstore.Put {
		return kvstore.Put{Key: []byte(key), Value: make([]byte, value)}
	}
	many := kvstore.Batch{Puts: make([]kvstore.Put, 101)}
	for _, test := range []struct {
		b    kvstore.Batch
		want error
		says string
	}{
		{kvstore.Batch{}, nil, ""},
		{many, kvstore.ErrTooLarge, "a batch of 101 operations, the limit is 100"},
		{kvstore.Batch{Puts: []kvstore.Put{put("a", 0), put("big", kvstore.MaxValue+1)}}, kvstore.ErrTooLarge, `key "big": a value of 65537 bytes, the limit is 65536`},
		{kvstore.Batch{Puts: []kvstore.Put{put(strings.Repeat("long", 200), 0)}}, kvstore.ErrTooLarge, `a put's key of 800 bytes, the limit is 512: it begins "longlong`},
		{kvstore.Batch{Deletes: [][]byte{make([]byte, 513)}}, kvstore.ErrTooLarge, "a delete's key of 513 bytes"},
		{kvstore.Batch{Preconditions: []kvstore.Precondition{{}}}, kvstore.ErrInvalid, "a precondition's key is empty"},
		{kvstore.Batch{Puts: []kvstore.Put{put("twice", 0)}, Deletes: [][]byte{[]byte("twice")}}, kvstore.ErrInvalid, `key "twice" stands twice among the puts and deletes`},
		{kvstore.Batch{Preconditions: []kvstore.Precondition{{Key: []byte("p")}, {Key: []byte("p")}}}, kvstore.ErrInvalid, `key "p" stands twice among the preconditions`},
	} {
		err := test.b.Check()
		if test.want == nil && err == nil {
			continue
		}
		if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("got %v, want %q", err, test.says)
		}
		if len(err.Error()) > 300 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	}
}
