package session

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// TokenKey is a secret that callback tokens are signed with.
type TokenKey struct {
	ID      int       `json:"id"` // of the store's own: from 1, in the order of their making
	Secret  []byte    `json:"secret"`
	Created time.Time `json:"created"`
}

// String names the key without its secret, so that one that is printed by
// mistake gives nothing away.
func (k TokenKey) String() string { return fmt.Sprintf("token key %d", k.ID) }

// GoString is String.
func (k TokenKey) GoString() string { return k.String() }

// MinTokenSecret is the shortest secret that a token is signed with, in bytes.
const MinTokenSecret = 32

// CheckTokenKeys returns what is wrong with keys that a program gives.
func CheckTokenKeys(keys []TokenKey) error {
	if len(keys) == 0 {
		return errors.New("session: there is no token key; at least one is needed")
	}
	known := map[int]bool{}
	for i, k := range keys {
		switch {
		case k.ID < 1:
			return fmt.Errorf("session: the token key at %d has the id %d; ids begin with 1",
				i, k.ID)
		case known[k.ID]:
			return fmt.Errorf("session: two token keys have the id %d", k.ID)
		case len(k.Secret) < MinTokenSecret:
			return fmt.Errorf(
				"session: the secret of token key %d has %d bytes; at least %d are needed",
				k.ID, len(k.Secret), MinTokenSecret)
		}
		known[k.ID] = true
	}
	return nil
}

// keyRing is how the store keeps its keys. Those below the floor are retired,
// and gone.
type keyRing struct {
	Version int        `json:"v"`
	Floor   int        `json:"floor,omitzero"` // the first key's id; version 1 has none: 1
	Keys    []TokenKey `json:"keys"`
}

const (
	// A ring with a floor has a version of its own, so that no older program
	// takes it for damage.
	floorVersion = 2
	secretSize   = MinTokenSecret
	// maxTokenKeys is how many keys a ring holds; they have to fit one value of
	// the engine. One more retires the oldest.
	maxTokenKeys = 512
)

// check returns what doesn't add up in a ring.
func (r *keyRing) check() error {
	switch {
	case r.Version > floorVersion:
		return ErrNewerVersion
	case r.Version < 1 || len(r.Keys) == 0 || (r.Version == floorVersion) != (r.Floor > 1):
		return errIncomplete
	}
	first := max(1, r.Floor)
	for i, k := range r.Keys {
		if k.ID != first+i || len(k.Secret) != secretSize {
			// With a shorter secret, tokens could be forged.
			return fmt.Errorf("key %d is damaged", first+i)
		}
	}
	return nil
}

// add puts a key at the ring's end, and retires those that another key replaced
// at or before the given time, or that find no room.
func (r *keyRing) add(secret []byte, now, retire time.Time) {
	id := 1
	if n := len(r.Keys); n > 0 {
		id = r.Keys[n-1].ID + 1
	}
	r.Keys = append(r.Keys, TokenKey{ID: id, Secret: secret, Created: now})
	for len(r.Keys) > 1 && (len(r.Keys) > maxTokenKeys || !r.Keys[1].Created.After(retire)) {
		r.Keys = r.Keys[1:]
	}
	if r.Version, r.Floor = Version, r.Keys[0].ID; r.Floor > 1 {
		r.Version = floorVersion
	} else {
		r.Floor = 0
	}
}

var keyRingKey = kvstore.Key("x", "token-keys")

// TokenKeys reads the ring of token keys, the newest last. The first is made on
// first use.
func (s *Store) TokenKeys(ctx context.Context) ([]TokenKey, error) {
	var ring keyRing
	found, err := s.read(ctx, keyRingKey, &ring)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return s.addTokenKey(ctx, true, time.Time{})
	}
	return ring.Keys, nil
}

// RotateTokenKeys adds a key, and retires those that another one replaced at or
// before the given time: tokens signed with them are not valid any more. It
// returns the ring. A ring that is full retires its oldest.
func (s *Store) RotateTokenKeys(ctx context.Context, retire time.Time) ([]TokenKey, error) {
	return s.addTokenKey(ctx, false, retire)
}

// addTokenKey adds a key to the ring; with first only if there is none.
func (s *Store) addTokenKey(ctx context.Context, first bool, retire time.Time) ([]TokenKey, error) {
	secret := make([]byte, secretSize)
	rand.Read(secret) // never fails
	for lost := tries(0); ; {
		var ring keyRing
		e, err := s.kv.Get(ctx, keyRingKey)
		if err == nil {
			err = decode(keyRingKey, e.Value, &ring)
		} else if errors.Is(err, kvstore.ErrNotFound) {
			err = nil
		}
		switch {
		case err != nil:
			return nil, err
		case first && len(ring.Keys) > 0:
			return ring.Keys, nil
		}
		for _, k := range ring.Keys {
			if bytes.Equal(k.Secret, secret) {
				return ring.Keys, nil // an acknowledgement was lost
			}
		}
		ring.add(secret, s.Now(), retire)
		value, err := encode(ring)
		if err != nil {
			return nil, err
		}
		_, err = s.kv.Apply(ctx, kvstore.Batch{
			Preconditions: []kvstore.Precondition{{Key: keyRingKey, Revision: e.Revision}},
			Puts:          []kvstore.Put{{Key: keyRingKey, Value: value}},
		})
		switch {
		case err == nil:
			return ring.Keys, nil
		case !lost.again(ctx, err):
			return nil, err
		}
	}
}
