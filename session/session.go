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

	"github.com/fermata-ai/fermata/internal/hold"
	core "github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
)

// Store keeps sessions in a kvstore.Store. It may be used from many
// goroutines, and several may share an engine.
type Store struct{ handle }

// handle is how the runner reaches what lies behind a Store.
type handle = hold.Handle[*core.Store]

// Options configure a Store. The zero value means the defaults. The fields are
// Lease and EngineTimeout; MaxSkew, by how much clocks of processes may differ;
// Now, the clock, by default the engine's if it has one; Notify, what the outside
// is told (nil: nothing); and NewID, which makes ids.
type Options = core.Options

// Notify is what the sessions of a Store tell the outside, as Options.Notify has
// it: Kinds, those of package notify, which sends what is told (empty: all); and
// Remind, how long before the deadline of a pause there is a reminder (zero:
// there is none). Each process that commits to the sessions needs the same, also
// one that only takes answers.
type Notify = core.Notify

// The defaults of Options.
const (
	// DefaultLease is how long a drive holds a session without a sign of life.
	DefaultLease = core.DefaultLease
	// DefaultMaxSkew is by how much the clocks of processes that share a store
	// differ at most.
	DefaultMaxSkew = core.DefaultMaxSkew
	// ClockSkew is the default where the engine has a clock of its own.
	ClockSkew = core.ClockSkew
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

// Problem is something that Check found wrong. It has the Session (empty if it
// is of none), the Key of the record as text (empty if it is the session as a
// whole), and What is wrong.
type Problem = core.Problem

// Retention is how long things are kept, each as a time.Duration. Zero values
// are the defaults: Receipts 30 days after a call's result, with the call's
// record and pauses; Sessions for ever; Handles, by their names, 30 days after
// they have stopped; Tombstones three times Receipts; Schemas 30 days after their
// last use; Orphans an hour.
type Retention = core.Retention

// Swept counts what a sweep removed: Sessions, Tombstones, Calls, the names of
// Handles, Payloads, Entries of indexes, Schemas.
type Swept = core.Swept

// TokenKey is a secret that callback tokens are signed with: an ID that stands
// for it for ever, from 1; the Secret, MinTokenSecret bytes or more; and when it
// was Created.
type TokenKey = core.TokenKey

// MinTokenSecret is the shortest secret that a token is signed with, in bytes.
const MinTokenSecret = core.MinTokenSecret

// Filter picks sessions: those of a User, those of an Agent, those whose ids
// come After one, at most Limit of them. Zero values pick all but two kinds.
// Those that calls have made, the children, are listed with Children, and cost
// nothing without it. Those that are none of their user's conversations, such as
// schedules, are listed with Hidden, or by their Agent. Root picks one session
// with all below it.
type Filter = core.Filter

// PauseFilter picks open pauses: by Reason, User, Session and Tool, at most Limit
// of them. Zero values pick all. People picks what a person or an operator
// answers; such a list costs nothing for the calls that wait for machines. A
// Session is listed with what people answer in the sessions below it.
type PauseFilter = core.PauseFilter

// UndoFilter picks what tools are to call off outside, of calls that ended while
// they waited: by User, Session and Tool, at most Limit of it. Zero values pick
// all that did not come off at the first try, or can't be tried just now; GivenUp
// picks what is tried no more by itself. Of a Session also the rest is picked.
type UndoFilter = core.UndoFilter
