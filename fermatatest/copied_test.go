package fermatatest_test

import (
	"context"
	"testing"

	"github.com/fermata-ai/fermata/fermatatest"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/kvtest"
)

// moving is a place whose store is copied to another engine after each crash: by
// turns to one that a process holds alone, and to one that processes share.
type moving struct {
	last  *kvstore.Memory
	moves int
}

func (m *moving) Open() (kvstore.Store, error) {
	m.moves++
	next := kvstore.NewMemory()
	for range m.moves {
		next = next.Reopen() // incarnations grow
	}
	if m.last != nil {
		from := kvtest.Shared(m.last.Reopen())
		if _, err := kvstore.Copy(context.Background(), from, next, nil); err != nil {
			return nil, err
		}
	}
	m.last = next
	if m.moves%2 == 0 {
		return kvtest.Shared(next), nil
	}
	return next, nil
}

func (m *moving) Remove() error { return nil }

// A store that is moved to another engine goes on there as it would have on its
// own, wherever its process was killed.
func TestKilledAndMovedToAnotherEngine(t *testing.T) {
	t.Parallel()
	e := fermatatest.Engine{Name: "moved",
		New: func() (fermatatest.Place, error) { return &moving{}, nil }}
	killed(t, .1, fermatatest.Options{Engines: []fermatatest.Engine{e}}, eachNth(4, scenarios())...)
}
