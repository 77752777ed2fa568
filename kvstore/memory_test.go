package kvstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/kvtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	kvtest.Run(t, kvtest.Config{
		Open: func(*testing.T) kvstore.Store { return kvstore.NewMemory() },
		Reopen: func(_ *testing.T, s kvstore.Store) kvstore.Store {
			return s.(*kvstore.Memory).Reopen()
		},
	})
}

// TestReopenEndsTheOldValue: who still holds it, as a goroutine of a process
// that is thought dead, can't write any more.
func TestReopenEndsTheOldValue(t *testing.T) {
	old := kvstore.NewMemory()
	b := kvstore.Batch{Puts: []kvstore.Put{{Key: []byte("a"), Value: []byte("1")}}}
	r, err := old.Apply(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	now := old.Reopen()
	if _, err := old.Apply(t.Context(), b); !errors.Is(err, kvstore.ErrClosed) {
		t.Errorf("Apply: %v", err)
	}
	if _, err := old.Get(t.Context(), []byte("a")); !errors.Is(err, kvstore.ErrClosed) {
		t.Errorf("Get: %v", err)
	}
	old.Close() // closes nothing but itself
	if e, err := now.Get(t.Context(), []byte("a")); err != nil || e.Revision != r {
		t.Errorf("Get from the new one: %d, %v", e.Revision, err)
	}
}

// BenchmarkMemory is a batch as a tool call makes them: two keys that are there
// already, one that is new, one precondition.
func BenchmarkMemory(b *testing.B) {
	m := kvstore.NewMemory()
	ctx := context.Background()
	head, wake, value := kvstore.Key("head", "chat-1"), kvstore.Key("wake", "agent", "chat-1"), make([]byte, 300)
	var r kvstore.Revision
	key := make([]byte, 0, 64)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		key = fmt.Appendf(key[:0], "call\x00chat-1\x00%08d\x00", n%100_000)
		var err error
		r, err = m.Apply(ctx, kvstore.Batch{
			Preconditions: []kvstore.Precondition{{Key: head, Revision: r}},
			Puts:          []kvstore.Put{{Key: head, Value: value}, {Key: wake, Value: value[:40]}, {Key: key, Value: value[:150]}},
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleStore() {
	ctx := context.Background()
	s := kvstore.NewMemory()
	defer s.Close()

	head := kvstore.Key("head", "chat-1")
	first, _ := s.Apply(ctx, kvstore.Batch{
		Preconditions: []kvstore.Precondition{{Key: head}}, // it must not be there yet
		Puts: []kvstore.Put{
			{Key: head, Value: []byte("v1")},
			{Key: kvstore.Key("message", "chat-1", "0001"), Value: []byte("hello")},
		},
	})
	change := kvstore.Batch{
		Preconditions: []kvstore.Precondition{{Key: head, Revision: first}},
		Puts:          []kvstore.Put{{Key: head, Value: []byte("v2")}},
	}
	_, err := s.Apply(ctx, change)
	fmt.Println(err)
	_, err = s.Apply(ctx, change)
	fmt.Println(err)

	page, _ := s.Scan(ctx, kvstore.Range{Prefix: kvstore.Key("message", "chat-1")})
	for _, e := range page.Entries {
		parts, _ := kvstore.Parts(e.Key)
		fmt.Println(parts[2], string(e.Value))
	}
	// Output:
	// <nil>
	// kvstore: a precondition did not hold
	// 0001 hello
}
