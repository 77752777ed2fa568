package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/xid"

	"github.com/fermata-ai/fermata/internal/recent"
	"github.com/fermata-ai/fermata/kvstore"
)

// Store keeps sessions in a kvstore.Store. It may be used from many goroutines,
// and several may share an engine. After NewStore only what guards itself
// changes.
type Store struct {
	kv      *engine
	local   *kvstore.Local   // signals within this process, and the leases if exclusive
	signals kvstore.Signaler // those to other processes; nil: the engine has none
	// Exclusive: one process has the engine, and leases live in local. The
	// incarnation tells which of them a crash has voided.
	exclusive   bool
	incarnation uint64
	now         func() time.Time
	wall        func() time.Time // this process's own clock; now may be the engine's
	newID       func(kind string) string
	lease       time.Duration
	maxSkew     time.Duration
	steady      *steadyClock                       // the engine's clock; nil: no leases go by it
	schemas     recent.Cache[string, storedSchema] // by hash
	seen        sightings
	letters     letters
	couriers    Listeners[Owing]
	changes     Listeners[string]
	bell        bell
	notify      *Notify
	// release carries out the errands that give permits back, see OnRelease
	release atomic.Pointer[func(context.Context, string, HeldPermit) error]
}

// Options configure a Store. The zero value means the defaults.
type Options struct {
	// Lease is how long a drive holds a session without a sign of life, where
	// leases are stored; default 30 s.
	Lease time.Duration
	// MaxSkew is by how much the clocks of processes that share the store
	// differ at most; default 15 min, or ClockSkew where the engine has a clock.
	// A stored lease that ended longer ago is over; by the engine's clock, once
	// this process has seen that run for as long. Any other is over once this
	// process has seen it unchanged for its length and a tenth, by its own
	// monotonic clock. Where all processes run on one machine, and so have one
	// clock, a millisecond is enough, and a drive that died is followed sooner.
	MaxSkew time.Duration
	// EngineTimeout is how long a call to an engine that this process holds
	// alone may take; default 30 s. A write that takes longer counts as
	// uncertain, and a read as failed. A call to an engine that others share
	// may take a third of Lease.
	EngineTimeout time.Duration
	// Now is the clock; default the engine's, if it has one (kvstore.Clock), and
	// otherwise time.Now. What is stored has milliseconds.
	Now func() time.Time
	// Notify is what the outside is told; nil: nothing. Package notify sends it.
	Notify *Notify
	// NewID returns a new id that begins with kind; default: kind, '_' and an
	// xid. Ids are unique for ever and short, and have no '.', since a pause's
	// id is its call's id, '.' and a number.
	NewID func(kind string) string
}

// DefaultLease is how long a drive holds a session without a sign of life.
const DefaultLease = 30 * time.Second

// DefaultMaxSkew is by how much the clocks of processes that share a store
// differ at most.
const DefaultMaxSkew = 15 * time.Minute

// DefaultEngineTimeout is how long a call to an engine that this process holds
// alone may take.
const DefaultEngineTimeout = 30 * time.Second

// NewStore returns a Store over kv, which remains the caller's to close.
func NewStore(kv kvstore.Store, o *Options) *Store {
	if o == nil {
		o = &Options{}
	}
	s := &Store{now: o.Now, newID: o.NewID, lease: o.Lease, maxSkew: o.MaxSkew,
		bell: newBell()}
	if s.now == nil {
		s.now = time.Now
	}
	if s.newID == nil {
		s.newID = func(kind string) string { return kind + "_" + xid.New().String() }
	}
	if s.maxSkew <= 0 {
		s.maxSkew = DefaultMaxSkew
	}
	if s.lease <= 0 {
		s.lease = DefaultLease
	}
	s.seen.lease, s.wall = s.lease, s.now
	if o.Notify != nil {
		own := *o.Notify
		own.Kinds = slices.Clone(own.Kinds)
		s.notify = &own
	}
	if e, ok := kv.(kvstore.Exclusive); ok {
		s.exclusive, s.incarnation, s.local = true, e.Incarnation(), e.Local()
	} else {
		s.local = kvstore.NewLocal()
	}
	s.reach(kv, o)
	bound := s.lease / 3
	if s.exclusive {
		bound = o.EngineTimeout
		if bound <= 0 {
			bound = DefaultEngineTimeout
		}
	}
	s.kv = newEngine(kv, bound)
	return s
}

// Now returns the time by the store's clock, in the precision that is stored.
func (s *Store) Now() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// NewID returns a new id that begins with kind.
func (s *Store) NewID(kind string) string { return s.newID(kind) }

// Exclusive reports whether one process has the engine, so that Watch tells of
// all commits.
func (s *Store) Exclusive() bool { return s.exclusive }

// LeaseLength returns how long a drive holds a session without a sign of life.
func (s *Store) LeaseLength() time.Duration { return s.lease }

// Load reads a session's head.
func (s *Store) Load(ctx context.Context, id string) (*State, error) {
	h, err := s.head(ctx, id, nil)
	if err != nil {
		return nil, err
	}
	return h.lend(), nil
}

// LoadSeen is Load, and tells which head that was.
func (s *Store) LoadSeen(ctx context.Context, id string) (*State, Seen, error) {
	h, err := s.head(ctx, id, nil)
	if err != nil {
		return nil, Seen{}, err
	}
	return h.lend(), Seen{id, h.rev}, nil
}

// Update applies a transition to a session's head and commits it. A transition
// that changes nothing commits nothing. A refused one leaves nothing but the
// expiry of what was overdue. Update returns the refusal only after that expiry
// is committed: a caller that is told of a passed deadline can rely on it,
// although another answer comes at the same time.
func (s *Store) Update(ctx context.Context, id string, t Transition) error {
	h, err := s.head(ctx, id, nil)
	if err != nil {
		return err
	}
	return s.updateHead(ctx, h, id, t)
}

// updateHead is Update for a head that was read.
func (s *Store) updateHead(ctx context.Context, h *head, id string, t Transition) error {
	refused := h.update(ctx, nil, nil, t)
	for refused != nil && !errors.Is(refused, kvstore.ErrUncertain) {
		if s.Next(h.state).Kind != StepExpire {
			break
		}
		if err := h.update(ctx, nil, nil); err != nil {
			return err
		}
		refused = h.update(ctx, nil, nil, t)
	}
	s.local.Signal(topic(id))
	s.changed(id)
	return refused
}

// Transition changes a head. See Tx.
type Transition func(*Tx) error

// Watch returns a channel that gets a value after a commit to the session by
// another than its driver, as far as this process knows.
func (s *Store) Watch(id string) (c <-chan struct{}, stop func()) {
	return s.local.Watch(topic(id))
}

// WatchAll is Watch for a caller that doesn't drive: the driver's commits count
// as well.
func (s *Store) WatchAll(id string) (c <-chan struct{}, stop func()) {
	return s.local.Watch(followTopic(id))
}

// WatchWork returns a channel that gets a value when a session has become due,
// as far as this process knows.
func (s *Store) WatchWork() (c <-chan struct{}, stop func()) { return s.listenFor(workTopic) }

func topic(session string) string { return "session " + session }

func followTopic(session string) string { return "follow " + session }

const (
	workTopic   = "work"
	notifyTopic = "notify"
)

// repeat applies a batch that does no harm if it is applied more than once.
func (s *Store) repeat(ctx context.Context, b kvstore.Batch) error {
	var err error
	for range uncertainTries {
		if _, err = s.kv.Apply(ctx, b); !errors.Is(err, kvstore.ErrUncertain) {
			return err
		}
	}
	return err
}

// tries counts those of a write whose acknowledgements got lost.
type tries int

// again reports whether a write that ended so is to be tried again, after a
// fresh look at what it was made from.
func (n *tries) again(ctx context.Context, err error) bool {
	switch {
	case errors.Is(err, kvstore.ErrConflict):
		return true
	case errors.Is(err, kvstore.ErrUncertain) && ctx.Err() == nil && *n < uncertainTries:
		*n++
		return true
	}
	return false
}

func notFound(id string, err error) error {
	if errors.Is(err, kvstore.ErrNotFound) {
		return fmt.Errorf("%w: %q", ErrUnknownSession, id)
	}
	return err
}
