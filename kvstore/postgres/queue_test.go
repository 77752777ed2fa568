package postgres

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/fermata-ai/fermata/kvstore"
)

// held is a queue whose commits wait to be let go.
type held struct {
	q      queue
	groups chan heldGroup
}

type heldGroup struct {
	keys []string
	goOn chan struct{}
}

func newHeld(writers int) *held {
	h := &held{groups: make(chan heldGroup, 100)}
	h.q.init(writers, func(group []*request) {
		g := heldGroup{goOn: make(chan struct{})}
		for _, r := range group {
			g.keys = append(g.keys, r.keys...)
		}
		h.groups <- g
		<-g.goOn
		for _, r := range group {
			r.answer(1, nil)
		}
	})
	return h
}

func (h *held) push(t *testing.T, keys ...string) *request {
	t.Helper()
	var b kvstore.Batch
	for _, key := range keys {
		b.Puts = append(b.Puts, kvstore.Put{Key: []byte(key)})
	}
	r := newRequest(b)
	if err := h.q.push(r); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return r
}

// What comes while all writers are at it goes together, in order; but no two
// batches that have a key in common are under way at once, and none overtakes
// another for a key.
func TestGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeld(2)
		// next returns the release of the next group, which is of those keys.
		next := func(keys ...string) func() {
			t.Helper()
			g := <-h.groups
			if !slices.Equal(g.keys, keys) {
				t.Errorf("the next group is %q, want %q", g.keys, keys)
			}
			return func() { close(g.goOn) }
		}
		h.push(t, "a")
		h.push(t, "a", "b") // waits for a
		h.push(t, "c")
		h.push(t, "d")
		h.push(t, "b") // waits for the second
		h.push(t, "e")
		gone := h.push(t, "f")
		if err := gone.leave(errors.New("gone")); errors.Is(err, kvstore.ErrUncertain) {
			t.Errorf("withdrawn: %v", err)
		}
		a, c := next("a"), next("c")
		c()
		de := next("d", "e")
		a()
		ab := next("a", "b")
		synctest.Wait()
		if len(h.groups) > 0 {
			t.Error("there are more than two writers, or b has overtaken")
		}
		de()
		ab()
		next("b")()
		h.q.close()
		if h.q.push(newRequest(kvstore.Batch{})) == nil {
			t.Error("a closed queue takes a request")
		}
	})
}

// A request that goes alone keeps no writer, and keeps its keys from others.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue
		waits, order := make(chan struct{}), []string{}
		q.init(1, func(group []*request) {
			for _, r := range group {
				if r.keys[0] == "locked" && !r.alone {
					q.goAlone(r)
					continue
				}
				if r.alone {
					<-waits
				}
				order = append(order, r.keys[0]+fmt.Sprint(len(r.keys)))
				r.answer(1, nil)
			}
		})
		push := func(keys ...string) *request {
			var b kvstore.Batch
			for _, key := range keys {
				b.Puts = append(b.Puts, kvstore.Put{Key: []byte(key)})
			}
			r := newRequest(b)
			if err := q.push(r); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return r
		}
		push("locked")
		other, after := push("other"), push("after", "locked")
		<-other.done
		select {
		case <-after.done:
			t.Error("a batch has overtaken the one that waits for its key")
		default:
		}
		close(waits)
		<-after.done
		q.close()
		if !slices.Equal(order, []string{"other1", "locked1", "after2"}) {
			t.Errorf("the order is %q", order)
		}
	})
}

func TestServersThatAreRefused(t *testing.T) {
	for version, want := range map[string]error{
		"PostgreSQL 15.13 (Debian 15.13-0+deb12u1) on x86_64-pc-linux-gnu": nil,
		"PostgreSQL 18beta1 on aarch64-apple-darwin":                       nil,
		"PostgreSQL 15.12-YB-2025.1.0.0-b0 on x86_64-pc-linux-gnu":         ErrNotPostgreSQL,
		"CockroachDB CCL v25.2.1 (x86_64-pc-linux-gnu, built 2025/06/04)":  ErrNotPostgreSQL,
		"PostgreSQL 13.0.0 CockroachDB in the guise of it":                 ErrNotPostgreSQL,
		"": ErrNotPostgreSQL,
	} {
		if err := judge(version); !errors.Is(err, want) {
			t.Errorf("%q: %v", version, err)
		}
	}
	if err := judge("PostgreSQL 12.22 on x86_64"); err == nil || errors.Is(err, ErrNotPostgreSQL) {
		t.Errorf("an old one: %v", err)
	}
}
