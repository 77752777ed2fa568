package kvstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
)

// ErrNotEmpty is the error of Copy into a store that holds something which no
// Copy has begun.
var ErrNotEmpty = errors.New("kvstore: the store to copy to is not empty")

// ErrChanged is the error of Copy from a store that was written to while it was
// compared at the end. What was copied stays; Copy goes on from there.
var ErrChanged = errors.New("kvstore: the store was written to while it was copied")

// ErrUnfinished is the error of [Finished]: the store is a copy that no Copy has
// finished.
var ErrUnfinished = errors.New(
	"kvstore: the store is a copy that isn't finished: Copy goes on with it")

// CopyOptions are for [Copy]; nil means the defaults.
type CopyOptions struct {
	// Ahead copies what is there, while processes still write to it, and leaves
	// the copy unfinished: the Copy that finishes it has less left to write.
	Ahead bool
	// OnProgress, if set, is called after each page.
	OnProgress func(Copied)
}

// Copied is what a Copy has done so far.
type Copied struct {
	Compared int // entries of the store that is copied; at the end each is compared once more
	Written  int // of those, and
	Deleted  int // entries that the copy had, and the store has no more
}

// Copy makes an empty store hold what another one holds. It is for moving to
// another engine: end all processes, copy, and start them on the copy. Calls
// that wait go on waiting, and answers that come meanwhile have to be sent
// again. The processes must not go on with the store that was copied.
//
// A Copy that was interrupted, or failed, is called again, and writes only what
// differs. Until it is finished an entry marks the copy, under a key that no
// session has. It is finished once each entry of the one store was found equal
// in the other, and there is no other: before that, all is compared once more,
// without a write, and looked through for what was written meanwhile. Until then
// sessions refuse it, see [Finished]. Revisions aren't copied. Sessions know the
// incarnations in which they were driven, so that of an [Exclusive] copy must be
// greater than all those, also where a store of another kind came between. From
// bbolt to bbolt, copy the file.
func Copy(ctx context.Context, from, to Store, o *CopyOptions) (Copied, error) {
	if o == nil {
		o = &CopyOptions{}
	}
	c := copier{from: from, to: to, onProgress: o.OnProgress}
	err := c.begin(ctx)
	if err == nil {
		err = c.walk(ctx)
	}
	if err == nil && !o.Ahead {
		err = c.finish(ctx)
	}
	if err != nil {
		return c.done, fmt.Errorf("copying a store: %w", err)
	}
	return c.done, nil
}

// Finished returns [ErrUnfinished] for a copy that isn't finished. What is
// written to such a store, the next Copy deletes. A session store asks before it
// first uses an engine.
func Finished(ctx context.Context, kv Store) error {
	switch _, err := kv.Get(ctx, copyMark); {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	return ErrUnfinished
}

// copyMark is the key of what marks a copy that isn't finished.
var copyMark = Key("", "copy")

// copier is one Copy.
type copier struct {
	from, to   Store
	onProgress func(Copied)
	done       Copied

	mark        Revision // of the mark
	incarnation uint64   // the greatest of the store that is copied; zero: none
	verifies    bool     // nothing is written, and seen has what is compared
	seen        revisions
}

// begin makes sure that to is a copy that isn't finished, or empty.
func (c *copier) begin(ctx context.Context) error {
	if err := c.incarnations(ctx); err != nil {
		return err
	}
	if err := Finished(ctx, c.from); err != nil {
		return fmt.Errorf("the store to copy from: %w", err)
	}
	if err := c.found(ctx); !errors.Is(err, ErrNotFound) {
		return err
	}
	p, err := c.to.Scan(ctx, Range{Limit: 1})
	if err != nil {
		return err
	}
	if len(p.Entries) > 0 {
		return fmt.Errorf("%w: it has the key %q", ErrNotEmpty, p.Entries[0].Key)
	}
	_, err = c.to.Apply(ctx, Batch{Preconditions: []Precondition{{Key: copyMark}},
		Puts: []Put{{Key: copyMark}}})
	if err != nil && !errors.Is(err, ErrUncertain) && !errors.Is(err, ErrConflict) {
		return err
	}
	if err = c.found(ctx); err == nil {
		err = c.apart(ctx)
	}
	return err
}

// apart makes sure that the new mark isn't in the store that is copied: then
// both are one store.
func (c *copier) apart(ctx context.Context) error {
	err := Finished(ctx, c.from)
	if !errors.Is(err, ErrUnfinished) {
		return err
	}
	return errors.Join(errors.New("the store can't be copied to itself"), c.unmark(ctx))
}

// copyIncarnation is the key of the greatest incarnation under which sessions
// were driven before they were copied. It goes along with all that is copied.
var copyIncarnation = Key("", "incarnation")

// incarnations learns under which incarnations sessions may have been driven,
// and makes sure that the copy's is a later one.
func (c *copier) incarnations(ctx context.Context) error {
	e, err := c.from.Get(ctx, copyIncarnation)
	if err == nil {
		c.incarnation, err = strconv.ParseUint(string(e.Value), 10, 64)
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if from, ok := c.from.(Exclusive); ok {
		c.incarnation = max(c.incarnation, from.Incarnation())
	}
	if to, ok := c.to.(Exclusive); ok && to.Incarnation() <= c.incarnation {
		return fmt.Errorf("the copy is of incarnation %d, and must be of one after %d: "+
			"copy the file, or open and close the copy as often as that", to.Incarnation(),
			c.incarnation)
	}
	return nil
}

// found reads the mark.
func (c *copier) found(ctx context.Context) error {
	e, err := c.to.Get(ctx, copyMark)
	c.mark = e.Revision
	return err
}

// finish compares the two stores, and takes the mark away. What is written behind
// the place where it compares shows only when the store is looked through once
// more.
func (c *copier) finish(ctx context.Context) error {
	c.verifies = true
	c.seen.begin()
	if err := c.walk(ctx); err != nil {
		return err
	}
	if err := c.seen.unchanged(ctx, c.from); err != nil {
		return err
	}
	return c.unmark(ctx)
}

// unmark takes the mark away. With it the copy gets the greatest incarnation.
func (c *copier) unmark(ctx context.Context) error {
	last := Batch{Preconditions: []Precondition{{Key: copyMark, Revision: c.mark}},
		Deletes: [][]byte{copyMark}}
	if c.verifies && c.incarnation > 0 {
		value := strconv.AppendUint(nil, c.incarnation, 10)
		last.Puts = []Put{{Key: copyIncarnation, Value: value}}
	}
	for range copyTries {
		_, err := c.to.Apply(ctx, last)
		if !errors.Is(err, ErrUncertain) && !errors.Is(err, ErrConflict) {
			return err
		}
		if _, err = c.to.Get(ctx, copyMark); errors.Is(err, ErrNotFound) {
			return nil
		}
	}
	return fmt.Errorf("%w: the mark of the copy is still there", ErrUncertain)
}

// copyTries is how often a write is repeated whose acknowledgement was lost.
const copyTries = 5

// walk goes through both stores in the order of keys. Whatever differs is made
// equal, or, when they are compared, an error.
func (c *copier) walk(ctx context.Context) error {
	from, to := reader{store: c.from}, reader{store: c.to}
	var b Batch
	for {
		this, err := from.entry(ctx)
		if err != nil {
			return err
		}
		that, err := to.entry(ctx)
		if err != nil {
			return err
		}
		switch { // what is Copy's own
		case this != nil && bytes.Equal(this.Key, copyIncarnation):
			from.next()
			continue
		case that != nil && (bytes.Equal(that.Key, copyMark) || bytes.Equal(that.Key, copyIncarnation)):
			to.next()
			continue
		}
		if this == nil && that == nil {
			return c.write(ctx, b)
		}
		order := compareEntries(this, that)
		if order <= 0 {
			c.seen.add(this)
			if from.next() {
				c.progress()
			}
			c.done.Compared++
		}
		if order >= 0 {
			to.next()
		}
		switch {
		case order == 0 && bytes.Equal(this.Value, that.Value):
			continue
		case c.verifies && order <= 0:
			return fmt.Errorf("%w: the key %q", ErrChanged, this.Key)
		case c.verifies:
			return fmt.Errorf("%w: the key %q", ErrChanged, that.Key)
		case order <= 0:
			b.Puts = append(b.Puts, Put{Key: this.Key, Value: this.Value})
			c.done.Written++
		default:
			b.Deletes = append(b.Deletes, that.Key)
			c.done.Deleted++
		}
		// The next entry must fit, and the mark, which is a precondition.
		if b.Operations() >= MaxOperations-1 || b.Size() > MaxBatch-MaxKey-MaxValue-len(copyMark) {
			if err := c.write(ctx, b); err != nil {
				return err
			}
			b = Batch{}
		}
	}
}

// compareEntries compares the keys of two entries; nil lies behind all.
func compareEntries(a, b *Entry) int {
	switch {
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return bytes.Compare(a.Key, b.Key)
}

// write applies a batch, which does no harm if it is applied twice, while the
// mark is there.
func (c *copier) write(ctx context.Context, b Batch) error {
	if b.Operations() == 0 {
		return nil
	}
	b.Preconditions = []Precondition{{Key: copyMark, Revision: c.mark}}
	var err error
	for range copyTries {
		if _, err = c.to.Apply(ctx, b); !errors.Is(err, ErrUncertain) {
			break
		}
	}
	if errors.Is(err, ErrConflict) {
		return fmt.Errorf("another Copy has finished it: %w", err)
	}
	return err
}

func (c *copier) progress() {
	if c.onProgress != nil {
		c.onProgress(c.done)
	}
}
