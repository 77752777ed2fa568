package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// TokenKey is a secret that callback tokens are signed with.
type TokenKey struct {
	ID      int       `json:"id"` // from 1, in the order of their making
	Secret  []byte    `json:"secret"`
	Created time.Time `json:"created"`
}

type keyRing struct {
	Version int        `json:"v"`
	Keys    []TokenKey `json:"keys"`
}

// check says what doesn't add up in a ring.
func (r *keyRing) check() error {
	switch {
	case r.Version > Version:
		return ErrNewerVersion
	case r.Version < 1 || len(r.Keys) == 0:
		return errIncomplete
	}
	for i, k := range r.Keys {
		if k.ID != i+1 || len(k.Secret) != secretSize {
			return fmt.Errorf("key %d is damaged", i+1) // with a shorter secret, anybody could make tokens
		}
	}
	return nil
}

const secretSize = 32 // bytes

var keyRingKey = kvstore.Key("x", "token-keys")

// TokenKeys reads the ring of token keys, the newest last. The first is made on first use.
func (s *Store) TokenKeys(ctx context.Context) ([]TokenKey, error) {
	var ring keyRing
	found, err := s.read(ctx, keyRingKey, &ring)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return s.addTokenKey(ctx, true)
	}
	return ring.Keys, nil
}

// RotateTokenKeys adds a key. Calls that are asked for from now on get tokens signed with it; earlier tokens stay good.
func (s *Store) RotateTokenKeys(ctx context.Context) error {
	if _, err := s.TokenKeys(ctx); err != nil {
		return err
	}
	_, err := s.addTokenKey(ctx, false)
	return err
}

// addTokenKey adds a key to the ring; with first only if there is none.
func (s *Store) addTokenKey(ctx context.Context, first bool) ([]TokenKey, error) {
	secret := make([]byte, secretSize)
	rand.Read(secret) // never fails
	for {
		ring := keyRing{Version: Version}
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
			if string(k.Secret) == string(secret) {
				return ring.Keys, nil // an acknowledgement was lost
			}
		}
		ring.Keys = append(ring.Keys, TokenKey{ID: len(ring.Keys) + 1, Secret: secret, Created: s.Now()})
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
		case !errors.Is(err, kvstore.ErrConflict) && !errors.Is(err, kvstore.ErrUncertain):
			return nil, err
		}
	}
}
