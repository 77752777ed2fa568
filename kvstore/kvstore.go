// Package kvstore is the seam between fermata and storage: an ordered map of
// byte keys, with point reads, paged scans and atomic batches under
// preconditions. [NewMemory] keeps it in memory; package kvstore/bolt in a
// bbolt file; package kvstore/kvtest has the suite that every engine passes.
//
// What an engine owes: Apply and Get are linearizable; a call obeys its
// context, or is left behind: its caller goes on, and takes a write for
// uncertain. What such a write does late, it does with the preconditions it
// came with, so that it counts once or not at all.
//
// It is not a database interface: there are no transactions that a caller could
// hold open.
//
// Those who use a store need this file and [Key]. Those who write an engine
// find the checks that all engines share in [Batch.Check] and [Pager], what an
// engine may know beyond Store in [Exclusive], [Signaler] and [Clock], and
// wrappers for crash tests in package kvstore/faultkv.
package kvstore

import (
	"context"
	"errors"
	"fmt"
)

// Store is an engine. Its methods may be called from many goroutines. Slices
// that go in may be kept only until the call returns; slices that come out are
// copies, the caller's own.
//
// Apply and Get are linearizable, across a crash too: what has been read once
// was durable then.
type Store interface {
	// Get returns the entry under key, or ErrNotFound, also for a key that no
	// batch could hold.
	Get(ctx context.Context, key []byte) (Entry, error)
	// Scan returns one page of entries in key order, as of one moment. Nothing
	// is promised from page to page, but that a key which doesn't change is
	// seen once. A page ends before an entry that can't be read; a page that
	// would begin with one is a CorruptError instead. A caller that wants to go
	// on asks again After its key.
	Scan(ctx context.Context, r Range) (Page, error)
	// Apply checks every precondition and carries out every write, or does
	// nothing. It returns the revision that the batch's puts have now; zero if
	// it has none. Errors: ErrConflict, a precondition did not hold;
	// ErrTooLarge or ErrInvalid, what Batch.Check says; ErrUncertain, the batch
	// may or may not have been applied, or may yet be; ErrClosed; or another.
	// After every error but ErrUncertain the batch was certainly not applied,
	// and never will be. One that is ErrUncertain may be a context's error as
	// well.
	Apply(ctx context.Context, b Batch) (Revision, error)
	// Close waits for the calls that have begun and gives up the engine's
	// resources. Further calls answer ErrClosed; to close once more is no
	// error.
	Close() error
}

// Revision names the batch that last wrote a key. A revision is unique in its
// store and never used again, not after a delete or a restart either; later
// batches have greater ones. Zero is no revision: the key is absent.
type Revision uint64

// Entry is a key with its value.
type Entry struct {
	Key      []byte
	Value    []byte
	Revision Revision
}

// Range selects keys: those that begin with Prefix, lie after After and before
// Before. Each is left out if it is empty.
type Range struct {
	Prefix []byte
	After  []byte // exclusive; where the last page ended
	Before []byte // exclusive
	Limit  int    // entries in a page; 0 or more than MaxPage means MaxPage
}

// Page is a part of a scan. A page may be short; More reports whether to ask
// again, After its last key. An empty page is the last one.
type Page struct {
	Entries []Entry
	More    bool
}

// Batch is a set of writes that happen together or not at all. A key stands at
// most once among Puts and Deletes together, and at most once among
// Preconditions.
type Batch struct {
	Preconditions []Precondition
	Puts          []Put
	Deletes       [][]byte // deleting an absent key is no error
}

// Precondition holds if the key is at the revision. Revision zero: if the key
// is absent.
type Precondition struct {
	Key      []byte
	Revision Revision
}

// Put writes a value under a key.
type Put struct {
	Key   []byte
	Value []byte
}

// What every engine accepts. More is ErrTooLarge, from every engine, before
// anything is written.
const (
	MaxKey        = 512       // bytes; a key has at least one
	MaxValue      = 64 << 10  // bytes; an empty value is allowed
	MaxOperations = 100       // preconditions, puts and deletes of a batch together
	MaxBatch      = 512 << 10 // bytes of keys, in all three places, and values of a batch together
	// Entries; a page holds at most 1 MiB too, but always at least one entry if
	// there is one.
	MaxPage      = 1000
	MaxPageBytes = 1 << 20
)

// The errors that callers tell apart.
var (
	ErrNotFound = errors.New("kvstore: key not found")
	ErrConflict = errors.New("kvstore: a precondition did not hold")
	ErrTooLarge = errors.New("kvstore: over the limit")
	// An empty key, or one that stands twice: the caller's mistake.
	ErrInvalid   = errors.New("kvstore: malformed batch")
	ErrUncertain = errors.New("kvstore: the batch may or may not have been applied")
	ErrClosed    = errors.New("kvstore: store is closed")
	ErrCorrupt   = errors.New("kvstore: stored bytes are damaged") // every CorruptError
)

// CorruptError tells that something stored can't be read as what was written.
// It is an ErrCorrupt.
type CorruptError struct {
	Store string // where: a path, for engines that have one
	Key   []byte // which entry; empty if it is not just one
	Err   error  // what is wrong
}

func (e *CorruptError) Error() string {
	if len(e.Key) > 0 {
		return fmt.Sprintf("%v: %s: key %q: %v", ErrCorrupt, e.Store, e.Key, e.Err)
	}
	return fmt.Sprintf("%v: %s: %v", ErrCorrupt, e.Store, e.Err)
}

// Unwrap makes a CorruptError an ErrCorrupt, and whatever Err is.
func (e *CorruptError) Unwrap() []error { return []error{ErrCorrupt, e.Err} }
