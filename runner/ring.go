package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
)

// ring holds the keys that tokens are signed with: those that the program gave,
// or the store's, as they were read last. So turns and tokens cost no read of
// the store, except one a minute, which finds out what other processes have
// added and retired.
type ring struct {
	store *session.Store // nil: the program gave the keys

	// reading is full while a goroutine reads the store. Others wait for it
	// with a context, since a store may hang.
	reading chan struct{}

	mu    sync.Mutex         // guards the rest; never held over the store
	keys  []session.TokenKey // the one that signs last; replaced as a whole
	reads int                // how often the store was read
	err   error              // of the last read
	last  time.Time          // when that was, by this process's monotonic clock
}

const (
	// ringStale is how old the keys in memory may be.
	ringStale = time.Minute
	// ringPatience is the time between two reads of the store that come
	// without a credential: tokens with the number of a key that isn't known.
	ringPatience = time.Second
)

func newRing(store *session.Store, given []session.TokenKey) (*ring, error) {
	if given == nil {
		return &ring{store: store, reading: make(chan struct{}, 1)}, nil
	}
	if err := session.CheckTokenKeys(given); err != nil {
		return nil, fmt.Errorf("runner: Options.TokenKeys: %w", err)
	}
	keys := slices.Clone(given)
	for i := range keys {
		keys[i].Secret = slices.Clone(keys[i].Secret)
	}
	return &ring{keys: keys}, nil
}

// view returns what is in memory. A ring whose keys the program gave is never
// stale.
func (r *ring) view() (keys []session.TokenKey, reads int, age time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.store == nil {
		return r.keys, 0, 0
	}
	return r.keys, r.reads, time.Since(r.last)
}

// newest returns the number of the key that signs the tokens of a call asked
// for now.
func (r *ring) newest(ctx context.Context) (int, error) {
	keys, err := r.trusted(ctx)
	if err != nil {
		return 0, err
	}
	return keys[len(keys)-1].ID, nil
}

// signer returns the key of a number. If a head notes no key, or a retired one,
// it returns the oldest that isn't retired.
func (r *ring) signer(ctx context.Context, id int) (signer, error) {
	keys, err := r.trusted(ctx)
	if err == nil && r.store != nil && id > keys[len(keys)-1].ID { // another process has made it
		_, reads, _ := r.view()
		if err = r.read(ctx, reads); err == nil {
			keys, _, _ = r.view()
		}
	}
	if err != nil {
		return signer{}, err
	}
	if i := find(keys, id); i >= 0 {
		return newSigner(keys[i])
	}
	return newSigner(keys[0])
}

// held returns the key itself while it isn't retired, and otherwise the oldest.
// It doesn't read the store, since a body asks for it.
func (r *ring) held(s signer) signer {
	keys, _, _ := r.view()
	if len(keys) > 0 && find(keys, s.id) < 0 {
		if oldest, err := newSigner(keys[0]); err == nil {
			return oldest
		}
	}
	return s
}

// trusted returns the ring for a driver. If the store fails, what is in memory
// is good enough.
func (r *ring) trusted(ctx context.Context) ([]session.TokenKey, error) {
	keys, reads, age := r.view()
	if len(keys) > 0 && age < ringStale {
		return keys, nil
	}
	err := r.read(ctx, reads)
	if keys, _, _ = r.view(); len(keys) > 0 {
		return keys, nil
	}
	return nil, err
}

// errRingUnread is why a token can't be judged for a moment.
var errRingUnread = fmt.Errorf("runner: the token's key is not known yet: %w",
	session.ErrNotYetKnown)

// verifier returns the key of a number that a token bears. Any sender may have
// written the number, so unknown ones must not make the store be read all the
// time.
func (r *ring) verifier(ctx context.Context, id int) (signer, error) {
	keys, reads, age := r.view()
	i := find(keys, id)
	switch {
	case r.store == nil, i >= 0 && age < ringStale:
	// No ring ever had the key, or it is retired.
	case i < 0 && (id < 1 || len(keys) > 0 && id < keys[0].ID):
	case age < ringPatience:
		if i < 0 {
			return signer{}, errRingUnread
		}
	default:
		err := r.read(ctx, reads)
		if keys, _, _ = r.view(); err != nil && find(keys, id) < 0 {
			return signer{}, err
		}
		i = find(keys, id)
	}
	if i < 0 {
		return signer{}, fmt.Errorf("%w: it is signed with key %d, which is not in the ring",
			ErrBadToken, id)
	}
	return newSigner(keys[i])
}

func find(keys []session.TokenKey, id int) int {
	return slices.IndexFunc(keys, func(k session.TokenKey) bool { return k.ID == id })
}

// read reads the store's keys, unless another goroutine has done so since the
// caller saw that many reads. Then the result of that read counts.
func (r *ring) read(ctx context.Context, reads int) error {
	select {
	case r.reading <- struct{}{}:
		defer func() { <-r.reading }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	r.mu.Lock()
	now, err := r.reads, r.err
	r.mu.Unlock()
	if now != reads {
		return err
	}
	keys, err := r.store.TokenKeys(ctx)
	r.put(keys, err, ctx.Err() == nil)
	return err
}

// put notes the result of a read of the store. If the reader's context ended,
// it doesn't count, and the next goroutine reads for itself. A ring that a
// rotation has replaced since it was read is dropped: it would make retired
// keys good again.
func (r *ring) put(keys []session.TokenKey, err error, counts bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = time.Now()
	if counts {
		r.reads++
		r.err = err
	}
	if err == nil && !older(keys, r.keys) {
		r.keys = keys
	}
}

// older reports whether a ring of the store was replaced by another one: its
// first and its last number only grow.
func older(ring, other []session.TokenKey) bool {
	switch {
	case len(other) == 0:
		return false
	case len(ring) == 0:
		return true
	}
	return ring[0].ID < other[0].ID || ring[len(ring)-1].ID < other[len(other)-1].ID
}

// ErrGivenKeys refuses to rotate keys that the program gave in
// Options.TokenKeys.
var ErrGivenKeys = errors.New(
	"runner: the token keys come from Options.TokenKeys; rotate them there")

// rotate adds a key to the store's ring.
func (r *ring) rotate(ctx context.Context, retire time.Time) error {
	if r.store == nil {
		return ErrGivenKeys
	}
	keys, err := r.store.RotateTokenKeys(ctx, retire)
	if err == nil {
		r.put(keys, nil, true)
	}
	return err
}
