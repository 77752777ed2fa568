package wide_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/internal/wide"
	"github.com/fermata-ai/fermata/kvstore"
)

// reads counts the records that are read, one by one and by scans.
type reads struct {
	kvstore.Store
	n, scanned int
}

func (s *reads) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	s.n++
	return s.Store.Get(ctx, key)
}

func (s *reads) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	p, err := s.Store.Scan(ctx, r)
	s.scanned += len(p.Entries)
	return p, err
}

// Handles that wait to be archived, however many, hide no deadline from lists and
// counts, and cost them no reads.
func TestABacklogHidesNoDeadline(t *testing.T) {
	kv := &reads{Store: kvstore.NewMemory()}
	r := newRig(t, kv, &wide.Options{Ended: time.Hour,
		Archive: func(context.Context, *wide.Handle) error { return errors.New("the archive is full") }})
	const old = 2000
	for n := range old {
		name := fmt.Sprintf("old-%d", n)
		r.create(name, "hook", 0)
		r.complete(name, `1`)
	}
	r.now = r.now.Add(2 * time.Hour)
	if n := len(r.outlived()); n != 256 {
		t.Errorf("a page of what is to be removed has %d", n)
	}
	r.create("late", "custom", time.Minute)
	r.now = r.now.Add(time.Hour)
	kv.n = 0
	is(t, "counts", r.counts(),
		"custom pending 0/1 0s, custom timeout 1/1 1m0s, hook completed 2000/2000 0s, hook pending 0/2000 0s")
	is(t, "pending", r.names(wide.Filter{Status: wide.Pending}), "")
	is(t, "timed out", r.names(wide.Filter{Status: wide.TimedOut}), "late")
	if kv.n > 20 {
		t.Errorf("they have read %d records", kv.n)
	}
	r.sound()
}

// A handle whose entry stands in the index of the other kind is moved, and is
// neither removed before its time nor forgotten.
func TestAMisplacedEntryIsMoved(t *testing.T) {
	r := newRig(t, kvstore.NewMemory(), &wide.Options{Ended: time.Hour})
	r.create("a", "custom", 0)
	r.complete("a", `1`)
	r.now = r.now.Add(2 * time.Hour)
	entry := r.outlived()[0]
	parts, err := kvstore.Parts(entry.Key)
	must(t, err)
	other := kvstore.Key(parts[0], "d", parts[2], parts[3], parts[4])
	_, err = r.kv.Apply(t.Context(), kvstore.Batch{Deletes: [][]byte{entry.Key},
		Puts: []kvstore.Put{{Key: other}}})
	must(t, err)
	page, err := r.Due(t.Context(), nil)
	must(t, err)
	for _, d := range page.Due {
		_, err := r.Attend(t.Context(), d)
		must(t, err)
	}
	r.sound()
	r.attend()
	is(t, "kept", r.names(wide.Filter{}), "")
	r.sound()
}

// Workers look at each other again and again, and read no handles for it.
func TestALookAtWorkersReadsNoHandle(t *testing.T) {
	kv := &reads{Store: kvstore.NewMemory()}
	r := newRig(t, kv, nil)
	r.owes()
	must(t, r.sessions.NoteWorker(t.Context(), "w", nil))
	kv.n, kv.scanned = 0, 0
	all, err := r.sessions.Workers(t.Context())
	if must(t, err); len(all) != 1 || kv.n+kv.scanned != 1 {
		t.Errorf("%d entries are read, and the workers are %+v", kv.n+kv.scanned, all)
	}
}
