package session

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// What is committed inside a transaction of the user's is made known after the
// transaction's own commit, in this process and in others, and not before.
func TestWhatATransactionMakesKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		defer n.Close()
		holder, other := NewStore(n, nil), NewStore(n, nil)
		d := goes(t, holder, "s")
		defer d.Abandon()
		heard, stop := holder.Watch("s")
		defer stop()
		defer holder.Listen()()
		follows, stopFollows := other.WatchAll("s")
		defer stopFollows()
		synctest.Wait() // it listens
		begun := time.Now()
		inside, committed, err := other.Within(n.Store)
		if err != nil {
			t.Fatal(err)
		}
		if err := inside.Update(t.Context(), "s", touch); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(heard) > 0 || len(follows) > 0 {
			t.Error("it was made known before the commit")
		}
		committed()
		<-heard
		<-follows
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("it was made known after %v", waited)
		}
		committed() // once more is nothing
		synctest.Wait()
		if len(heard) > 0 || len(follows) > 0 {
			t.Error("it was made known twice")
		}
	})
}

// An engine of one process has no transactions of others.
func TestNoTransactionOnAnEngineOfOneProcess(t *testing.T) {
	kv := kvstore.NewMemory()
	defer kv.Close()
	if _, _, err := NewStore(kv, nil).Within(kv); !errors.Is(err, ErrNotShared) {
		t.Errorf("Within: %v", err)
	}
}
