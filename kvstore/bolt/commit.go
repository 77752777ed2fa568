package bolt

import (
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/fermata-ai/fermata/kvstore"
)

// attempt is one transaction for a group.
type attempt struct {
	group    []*request
	verdicts []verdict
	id       int    // of the transaction; zero if it didn't begin
	last     uint64 // revision
}

var errNothingWritten = errors.New("nothing written")

// commit carries out a group in one transaction, and answers each request.
func (s *Store) commit(group []*request) {
	if err := s.synced.failed(); err != nil {
		refuse(group, err)
		return
	}
	a := attempt{group: group, verdicts: make([]verdict, len(group))}
	f := s.synced.begin()
	err := s.update(func(tx *bbolt.Tx) error { return a.run(s.db.path, tx) })
	switch {
	case err == nil:
		s.synced.end(f, a.last, nil)
		a.answer()
	case errors.Is(err, errNothingWritten):
		s.synced.end(f, s.synced.durable.Load(), nil)
		a.answer()
	default:
		s.commitFailed(&a, f, err)
	}
}

func (a *attempt) run(path string, tx *bbolt.Tx) error {
	a.id = tx.ID()
	entries := tx.Bucket(entriesBucket)
	wrote := false
	for i, r := range a.group {
		v, err := r.carryOut(path, entries)
		if err != nil {
			return err
		}
		a.verdicts[i] = v
		wrote = wrote || v.wrote
	}
	a.last = entries.Sequence()
	if !wrote {
		return errNothingWritten
	}
	return nil
}

func (a *attempt) answer() {
	for i, r := range a.group {
		r.answer(a.verdicts[i].revision, a.verdicts[i].err)
	}
}

// commitFailed answers a group whose transaction couldn't be begun, filled or
// committed. The last thing that bbolt writes is the file's header. If that
// isn't the transaction's, nothing has happened, and the store goes on: the
// disk was full, most likely. If it is, then its sync has failed. What is on the
// disk can't be known then, and a further sync doesn't tell: nothing may be
// built on it.
func (s *Store) commitFailed(a *attempt, f *flight, cause error) {
	err := fmt.Errorf("kvstore/bolt: commit to %s: %w", s.db.path, cause)
	if a.id != 0 && s.reached(a.id) {
		s.synced.end(f, 0, fmt.Errorf("%w, the store has to be opened again: %w", ErrFailed, err))
		for i, r := range a.group {
			if a.verdicts[i].wrote {
				r.answer(0, fmt.Errorf("%w: %w", kvstore.ErrUncertain, err))
			} else {
				// Whatever the verdict was, it took writes for granted that may
				// not be there.
				r.answer(0, err)
			}
		}
		return
	}
	s.synced.end(f, s.synced.durable.Load(), nil)
	if errors.Is(err, kvstore.ErrCorrupt) && len(a.group) > 1 {
		// One of them touches a damaged page; the others have nothing to do
		// with it.
		for i := range a.group {
			s.commit(a.group[i : i+1])
		}
		return
	}
	refuse(a.group, err)
}

// reached reports whether a transaction's header is in the file, as far as one
// can see.
func (s *Store) reached(id int) bool {
	newest := 0
	err := s.db.view(func(tx *bbolt.Tx) error {
		newest = tx.ID()
		return nil
	})
	return err != nil || newest >= id
}

func refuse(group []*request, err error) {
	for _, r := range group {
		r.answer(0, err)
	}
}
