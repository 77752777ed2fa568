package kvstore

import (
	"bytes"
	"fmt"
)

// Operations returns what the batch counts towards MaxOperations.
func (b Batch) Operations() int { return len(b.Preconditions) + len(b.Puts) + len(b.Deletes) }

// Size returns what the batch counts towards MaxBatch.
func (b Batch) Size() int {
	n := 0
	for i := range b.Preconditions {
		n += len(b.Preconditions[i].Key)
	}
	for i := range b.Puts {
		n += len(b.Puts[i].Key) + len(b.Puts[i].Value)
	}
	for i := range b.Deletes {
		n += len(b.Deletes[i])
	}
	return n
}

// Check returns an error if the batch is beyond the limits, or ill formed.
// Every engine asks it first, so that none accepts what another would refuse.
// What it returns is an ErrTooLarge with the size and the limit, or an
// ErrInvalid; each names the key that is to blame, if one is.
func (b Batch) Check() error {
	if n := b.Operations(); n > MaxOperations {
		return fmt.Errorf("%w: a batch of %d operations, the limit is %d", ErrTooLarge, n,
			MaxOperations)
	}
	for i := range b.Preconditions {
		if err := checkKey("a precondition's", b.Preconditions[i].Key); err != nil {
			return err
		}
	}
	for i := range b.Puts {
		if err := checkKey("a put's", b.Puts[i].Key); err != nil {
			return err
		}
		if n := len(b.Puts[i].Value); n > MaxValue {
			return fmt.Errorf("%w: key %q: a value of %d bytes, the limit is %d", ErrTooLarge,
				b.Puts[i].Key, n, MaxValue)
		}
	}
	for i := range b.Deletes {
		if err := checkKey("a delete's", b.Deletes[i]); err != nil {
			return err
		}
	}
	if n := b.Size(); n > MaxBatch {
		return fmt.Errorf("%w: a batch of %d bytes, the limit is %d", ErrTooLarge, n, MaxBatch)
	}
	return b.checkRepeats()
}

func checkKey(whose string, key []byte) error {
	switch n := len(key); {
	case n == 0:
		return fmt.Errorf("%w: %s key is empty", ErrInvalid, whose)
	case n > MaxKey:
		return fmt.Errorf("%w: %s key of %d bytes, the limit is %d: it begins %q", ErrTooLarge,
			whose, n, MaxKey, key[:48])
	}
	return nil
}

func (b Batch) checkRepeats() error {
	if key := repeated(len(b.Preconditions), func(i int) []byte { return b.Preconditions[i].Key }); key != nil {
		return fmt.Errorf("%w: key %q stands twice among the preconditions", ErrInvalid, key)
	}
	written := func(i int) []byte {
		if i < len(b.Puts) {
			return b.Puts[i].Key
		}
		return b.Deletes[i-len(b.Puts)]
	}
	if key := repeated(len(b.Puts)+len(b.Deletes), written); key != nil {
		return fmt.Errorf("%w: key %q stands twice among the puts and deletes", ErrInvalid, key)
	}
	return nil
}

// repeated returns a key that occurs twice among n, or nil.
func repeated(n int, key func(int) []byte) []byte {
	// Up to here, comparing each with each is faster than a map, and allocates
	// nothing.
	const few = 12
	if n <= few {
		for i := 1; i < n; i++ {
			for j := range i {
				if bytes.Equal(key(i), key(j)) {
					return key(i)
				}
			}
		}
		return nil
	}
	seen := make(map[string]struct{}, n)
	for i := range n {
		k := key(i)
		if _, twice := seen[string(k)]; twice {
			return k
		}
		seen[string(k)] = struct{}{}
	}
	return nil
}
