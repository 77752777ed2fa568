// Package session is what a user holds of the sessions that are stored: the
// [Store], the errors that tell one refusal from another, the receipts of
// accepted operations, filters, retention, and the check of a whole store.
//
// It changes nothing by itself. Package runner drives the sessions of a Store.
// How a session is stored, and by which rules it changes, is in
// internal/session; the data and the errors here are those of that package.
package session

import (
	"context"
	"iter"
	"time"

	"github.com/fermata-ai/fermata/internal/hold"
	core "github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
)

// Store keeps sessions in a kvstore.Store. It may be used from many
// goroutines, and several may share an engine.
type Store struct{ handle }

// handle is how the runner reaches what lies behind a Store.
type handle = hold.Handle[*core.Store]

// Options configure a Store. The zero value means the defaults.
type Options = core.Options

// The defaults of Options.
const (
	// DefaultLease is how long a drive holds a session without a sign of life.
	DefaultLease = core.DefaultLease
	// DefaultMaxSkew is by how much the clocks of processes that share a store
	// differ at most.
	DefaultMaxSkew = core.DefaultMaxSkew
	// DefaultEngineTimeout is how long a call to an engine that this process
	// holds alone may take.
	DefaultEngineTimeout = core.DefaultEngineTimeout
)

// NewStore returns a Store over kv, which remains the caller's to close. Nil
// options are the defaults.
func NewStore(kv kvstore.Store, o *Options) *Store {
	return &Store{hold.New(core.NewStore(kv, o))}
}

// Check goes through the whole store and lists what is wrong with it: records
// that can't be read, histories with gaps or with calls without results,
// payloads that are missing, sessions that stand at the wrong place in the
// wake index or are not in it. It changes nothing. What changes while it runs
// may be listed in error; a store at rest is checked exactly. The error of an
// item is the engine's, and ends the list.
func (s *Store) Check(ctx context.Context) iter.Seq2[Problem, error] {
	return hold.Of(s).Check(ctx)
}

// Sweep removes what has outlived its retention, and what nothing refers to.
// Nil means the default retention. It goes through the store in small steps,
// with nothing held in between, and may be cut off at any of them. A session
// that can't be read is left alone; its error comes with those of the others,
// at the end. A worker sweeps by itself, unless it is told not to.
func (s *Store) Sweep(ctx context.Context, r *Retention) (Swept, error) {
	return hold.Of(s).Sweep(ctx, r)
}

// TokenKeys reads the keys that the store signs callback tokens with, the
// newest last. The first is made on first use. A program that gives keys of
// its own (runner.Options.TokenKeys) begins with these.
func (s *Store) TokenKeys(ctx context.Context) ([]TokenKey, error) {
	return hold.Of(s).TokenKeys(ctx)
}

// Lease returns how long a drive holds a session without a sign of life.
func (s *Store) Lease() time.Duration { return hold.Of(s).LeaseLength() }

// Problem is something that Check found wrong.
type Problem = core.Problem

// Retention is how long things are kept. Zero values are the defaults.
type Retention = core.Retention

// Swept counts what a sweep removed.
type Swept = core.Swept

// TokenKey is a secret that callback tokens are signed with.
type TokenKey = core.TokenKey

// MinTokenSecret is the shortest secret that a token is signed with, in bytes.
const MinTokenSecret = core.MinTokenSecret

// Filter picks sessions.
type Filter = core.Filter

// PauseFilter picks open pauses.
type PauseFilter = core.PauseFilter
