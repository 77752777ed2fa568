package wide

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/kvstore"
)

// ChangeKind is what has happened to a handle.
type ChangeKind string

// The changes.
const (
	Created    ChangeKind = "created"
	Progressed ChangeKind = "progress"
	Ended      ChangeKind = "ended"
	Removed    ChangeKind = "removed" // it has outlived its retention
)

// Change is one change of a handle of a scope. Those of one handle are in order.
// Status is what it had after it.
type Change struct {
	Kind   ChangeKind `json:"kind"`
	Name   string     `json:"name"`
	Type   string     `json:"type"`
	Status string     `json:"status"`
	At     time.Time  `json:"at"`
	// Cursor is the place behind the change, to go on from.
	Cursor string `json:"-"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

func (c *Change) check() error {
	if c.Kind == "" || c.Name == "" || c.At.IsZero() {
		return errIncomplete
	}
	return nil
}

func (c *Change) liesAt([]byte) bool { return true } // the key has its number alone

// cursor is a place in the log of a scope: in each shard the number of the last
// change before it. So no change is missed, whichever process made it: each has
// the next number of its shard, by the commit that makes it.
type cursor [shards]int

const cursorForm = "c1"

func (c *cursor) String() string {
	parts := []string{cursorForm}
	for _, n := range c {
		parts = append(parts, strconv.Itoa(n))
	}
	return strings.Join(parts, ".")
}

// parseCursor reads a cursor. None is the beginning.
func parseCursor(text string) (c cursor, err error) {
	if text == "" {
		return c, nil
	}
	parts := strings.Split(text, ".")
	ok := len(parts) == shards+1 && parts[0] == cursorForm
	for i := range c {
		if ok {
			c[i], err = strconv.Atoi(parts[i+1])
			ok = err == nil && c[i] >= 0
		}
	}
	if !ok {
		return c, fmt.Errorf("%w: %.40q", ErrBadCursor, text)
	}
	return c, nil
}

// Now returns the cursor behind all that has happened in a scope.
func (s *Store) Now(ctx context.Context, scope string) (string, error) {
	var c cursor
	for n := range shards {
		sh := shard{Scope: scope, Number: n}
		if _, err := s.read(ctx, shardKey(scope, n), &sh); err != nil {
			return "", err
		}
		c[n] = sh.Changes
	}
	return c.String(), nil
}

// Since returns some of what has happened in a scope after a cursor, and the
// cursor behind that. Nothing means that nothing more has happened yet.
func (s *Store) Since(ctx context.Context, scope, after string) (all []Change, next string, err error) {
	at, err := parseCursor(after)
	if err != nil {
		return nil, "", err
	}
	var lists [shards][]Change
	for n := range shards {
		if lists[n], err = s.shardSince(ctx, scope, n, at[n]); err != nil {
			return nil, "", err
		}
	}
	for {
		first := -1
		for n := range lists {
			if len(lists[n]) > 0 && (first < 0 || lists[n][0].At.Before(lists[first][0].At)) {
				first = n
			}
		}
		if first < 0 {
			return all, at.String(), nil
		}
		c := lists[first][0]
		lists[first] = lists[first][1:]
		at[first]++
		c.Cursor = at.String()
		all = append(all, c)
	}
}

// changesAtOnce is how many changes of a shard are read at once.
const changesAtOnce = 32

// shardSince returns the next changes of a shard after a number.
func (s *Store) shardSince(ctx context.Context, scope string, n, after int) ([]Change, error) {
	page, err := s.kv.Scan(ctx, kvstore.Range{Prefix: changesPrefix(scope, n),
		After: changeKey(scope, n, after), Limit: changesAtOnce})
	if err != nil {
		return nil, err
	}
	var list []Change
	for i, e := range page.Entries {
		var c Change
		if string(e.Key) != string(changeKey(scope, n, after+i+1)) {
			return nil, fmt.Errorf("%w: %q", ErrChangesGone, scope)
		}
		if err := decode(e, &c); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	if len(list) > 0 {
		return list, nil
	}
	sh := shard{Scope: scope, Number: n}
	if _, err := s.read(ctx, shardKey(scope, n), &sh); err != nil {
		return nil, err
	}
	if sh.Trimmed > after {
		return nil, fmt.Errorf("%w: %q", ErrChangesGone, scope)
	}
	return nil, nil
}

// poll is how often a subscriber looks without a signal: a commit of another
// process may give none.
const poll = time.Second

// Follow returns what happens in a scope after a cursor, as it happens, until
// ctx ends. Empty, the cursor is the beginning.
func (s *Store) Follow(ctx context.Context, scope, after string) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		signal, stop := s.sessions.WatchWaits(scope)
		defer stop()
		again := time.NewTicker(poll)
		defer again.Stop()
		for {
			all, next, err := s.Since(ctx, scope, after)
			if err != nil {
				yield(Change{}, errors.Join(context.Cause(ctx), err))
				return
			}
			for _, c := range all {
				if !yield(c, nil) {
					return
				}
			}
			if after = next; len(all) > 0 {
				continue
			}
			select {
			case <-signal:
			case <-again.C:
			case <-ctx.Done():
				yield(Change{}, context.Cause(ctx))
				return
			}
		}
	}
}
