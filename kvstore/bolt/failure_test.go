package bolt

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"go.etcd.io/bbolt"

	"github.com/fermata-ai/fermata/kvstore"
)

var errDisk = errors.New("the disk said no")

// failBefore makes a store's commits fail before they have changed anything
// that counts.
func failBefore(s *Store) {
	s.update = func(f func(*bbolt.Tx) error) error {
		return s.db.update(func(tx *bbolt.Tx) error {
			if err := f(tx); err != nil {
				return err
			}
			return errDisk
		})
	}
}

// failAfter makes them fail in the sync of the file's header, when all is
// written.
func failAfter(s *Store) {
	s.update = func(f func(*bbolt.Tx) error) error {
		if err := s.db.update(f); err != nil {
			return err
		}
		return errDisk
	}
}

func TestFailedCommitIsCertain(t *testing.T) {
	s := open(t)
	r, err := s.Apply(t.Context(), put("a", "1"))
	if err != nil {
		t.Fatal(err)
	}
	failBefore(s)
	for range 2 {
		if _, err := s.Apply(t.Context(), putAt("a", "2", r)); !errors.Is(err, errDisk) || errors.Is(err, kvstore.ErrUncertain) {
			t.Fatalf("Apply: %v", err)
		}
		has(t, s, "a", "1")
	}
	s.update = s.db.update
	if next, err := s.Apply(t.Context(), putAt("a", "3", r)); err != nil || next <= r {
		t.Fatalf("Apply, when the disk is well again: %d, %v", next, err)
	}
	has(t, s, "a", "3")
}

func TestFailedSyncIsUncertain(t *testing.T) {
	s := open(t)
	path := s.db.path
	failAfter(s)
	if _, err := s.Apply(t.Context(), put("a", "1")); !errors.Is(err, kvstore.ErrUncertain) || !errors.Is(err, errDisk) {
		t.Fatalf("Apply: %v", err)
	}
	s.update = s.db.update
	if _, err := s.Apply(t.Context(), put("b", "1")); !errors.Is(err, ErrFailed) || errors.Is(err, kvstore.ErrUncertain) {
		t.Errorf("Apply after that: %v", err)
	}
	if _, err := s.Get(t.Context(), []byte("a")); !errors.Is(err, ErrFailed) {
		t.Errorf("Get after that: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	has(t, again, "a", "1")
	lacks(t, again, "b")
}

// TestFailedGroup: in a group whose commit failed, each batch is told what is
// true of it.
func TestFailedGroup(t *testing.T) {
	for name, fail := range map[string]func(*Store){"before": failBefore, "after": failAfter} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t)
				fail(s)
				failing, calls := s.update, 0
				s.update = func(f func(*bbolt.Tx) error) error {
					if calls++; calls == 1 {
						return s.db.update(f)
					}
					return failing(f)
				}
				g := hold(s)
				first := apply(t.Context(), s, put("a", "1"))
				wins, loses := apply(t.Context(), s, putAt("b", "1", 0)), apply(t.Context(), s, putAt("b", "2", 0))
				g.pass(2)
				synctest.Wait()
				if !first.done || first.err != nil {
					t.Errorf("the group before: %+v", *first)
				}
				// The second of the two is no conflict either: what it
				// conflicts with may never have been.
				if want := name == "after"; errors.Is(wins.err, kvstore.ErrUncertain) != want || wins.err == nil {
					t.Errorf("written: %v", wins.err)
				}
				if !errors.Is(loses.err, errDisk) || errors.Is(loses.err, kvstore.ErrUncertain) || errors.Is(loses.err, kvstore.ErrConflict) {
					t.Errorf("refused: %v", loses.err)
				}
			})
		})
	}
}

// TestDamageInACommit: a batch that a damaged page keeps from being committed
// fails alone.
func TestDamageInACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		s.update = func(f func(*bbolt.Tx) error) error {
			return s.db.update(func(tx *bbolt.Tx) error {
				if err := f(tx); err != nil {
					return err
				}
				if tx.Bucket(entriesBucket).Get([]byte("damaged")) != nil {
					panic("a page that isn't one")
				}
				return nil
			})
		}
		g := hold(s)
		first := apply(t.Context(), s, put("a", "1"))
		before, culprit, after := apply(t.Context(), s, put("b", "1")), apply(t.Context(), s, put("damaged", "1")), apply(t.Context(), s, put("c", "1"))
		g.pass(10)
		synctest.Wait()
		if first.err != nil || before.err != nil || after.err != nil || !after.done || after.revision <= before.revision {
			t.Errorf("the others: %+v, %+v, %+v", *first, *before, *after)
		}
		if !errors.Is(culprit.err, kvstore.ErrCorrupt) || errors.Is(culprit.err, kvstore.ErrUncertain) {
			t.Errorf("the culprit: %+v", *culprit)
		}
		has(t, s, "c", "1")
		lacks(t, s, "damaged")
	})
}

// TestReadersOfTheSyncedDontWait: not for a commit that has nothing to do with
// what they see.
func TestReadersOfTheSyncedDontWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		path := s.db.path
		if _, err := s.Apply(t.Context(), put("a", "1")); err != nil {
			t.Fatal(err)
		}
		s.Close()
		s, err := Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		g := hold(s)
		write := apply(t.Context(), s, put("a", "2"))
		has(t, s, "a", "1") // would be a deadlock
		g.pass(1)
		synctest.Wait()
		if !write.done {
			t.Error("the write waits")
		}
	})
}

// TestReadersWaitForTheSync: bbolt shows what it has written before it is
// synced; we don't.
func TestReadersWaitForTheSync(t *testing.T) {
	for _, failing := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t)
			if _, err := s.Apply(t.Context(), put("a", "1")); err != nil {
				t.Fatal(err)
			}
			synced := make(chan error)
			s.update = func(f func(*bbolt.Tx) error) error {
				if err := s.db.update(f); err != nil {
					return err
				}
				return <-synced
			}
			write := apply(t.Context(), s, kvstore.Batch{Deletes: [][]byte{[]byte("a")}})
			impatient, cancel := context.WithCancel(t.Context())
			read := func(ctx context.Context) *answer {
				a := &answer{}
				go func() {
					_, a.err = s.Get(ctx, []byte("a"))
					a.done = true
				}()
				synctest.Wait()
				return a
			}
			waits, leaves := read(t.Context()), read(impatient)
			if waits.done || leaves.done || write.done {
				t.Fatalf("read %+v and %+v, before the write was durable", *waits, *leaves)
			}
			cancel()
			synctest.Wait()
			if !errors.Is(leaves.err, context.Canceled) {
				t.Errorf("a cancelled read: %+v", *leaves)
			}
			var want error = kvstore.ErrNotFound
			if failing {
				want = ErrFailed
				synced <- errDisk
			} else {
				synced <- nil
			}
			synctest.Wait()
			if !waits.done || !errors.Is(waits.err, want) {
				t.Errorf("read %+v, want %v", *waits, want)
			}
		})
	}
}
