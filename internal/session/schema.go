package session

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/internal/toolbox"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// storedSchema is a schema that is known to be in the store.
type storedSchema struct {
	raw      json.RawMessage
	compiled *schema.Schema
	used     time.Time // when its use was last noted, as far as this process knows
}

// schemaUse notes that a schema is in use, beside it. A sweep removes those
// that no open call names and whose last use is long ago.
type schemaUse struct {
	At time.Time `json:"at"`
}

// useEvery is how often a schema's use is noted: not with each pause. It is far
// less than the time that a sweep waits, so that no sweep removes a schema
// which a pause in the making counts on.
const useEvery = 24 * time.Hour

// SchemaHash names a schema by its bytes; the empty schema, which every value
// fits, has no name.
func SchemaHash(text json.RawMessage) string {
	if len(text) == 0 {
		return ""
	}
	h := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(h[:12])
}

// The longest schema fits one value, or this does not compile.
const _ = uint(kvstore.MaxValue - tool.MaxSchema)

// PutSchema makes sure that a schema is in the store. It lies there once, under
// its hash, as long as it is in use.
func (s *Store) PutSchema(ctx context.Context, text json.RawMessage) (hash string, err error) {
	hash = SchemaHash(text)
	if hash == "" {
		return "", nil
	}
	now := s.Now()
	known, ok := s.schemas.Get(hash)
	switch {
	case !ok:
		compiled, err := schema.Compile(text)
		if err != nil {
			return "", fmt.Errorf("session: schema: %w", err)
		}
		known = storedSchema{raw: bytes.Clone(text), compiled: compiled}
	case !stale(known.used, now):
		return hash, nil
	}
	if known.used, err = s.useSchema(ctx, hash, known.raw, now); err != nil {
		return "", fmt.Errorf("session: schema of %d bytes: %w", len(text), err)
	}
	s.schemas.Put(hash, known, maxSchemas)
	return hash, nil
}

// maxSchemas is how many compiled schemas are kept in memory.
const maxSchemas = 512

// stale reports whether a use is to be noted anew. A clock that was set back
// makes it so as well.
func stale(used, now time.Time) bool {
	age := now.Sub(used)
	return age < 0 || age >= useEvery
}

// useSchema stores a schema, if it isn't there, and notes that it is in use,
// unless that is noted already. It returns when the use was noted.
func (s *Store) useSchema(
	ctx context.Context, hash string, text json.RawMessage, now time.Time,
) (time.Time, error) {
	key := schemaKey(hash)
	use, err := encode(schemaUse{now})
	if err != nil {
		return now, err
	}
	for lost := tries(0); ; {
		stored, err := s.kv.Get(ctx, key)
		if err != nil && !errors.Is(err, kvstore.ErrNotFound) {
			return now, err
		}
		// A sweep that is faster makes this a conflict.
		b := kvstore.Batch{
			Preconditions: []kvstore.Precondition{{Key: key, Revision: stored.Revision}},
			Puts:          []kvstore.Put{{Key: schemaUseKey(hash), Value: use}},
		}
		if stored.Revision == 0 {
			b.Puts = append(b.Puts, kvstore.Put{Key: key, Value: text})
		} else {
			var last schemaUse
			if found, err := s.read(ctx, schemaUseKey(hash), &last); err != nil {
				return now, err
			} else if found && !stale(last.At, now) {
				return last.At, nil
			}
		}
		if _, err = s.kv.Apply(ctx, b); !lost.again(ctx, err) {
			return now, err
		}
	}
}

// schema returns a stored schema, compiled. A look is no use that has to be
// noted: the pause that names the schema is open.
func (s *Store) schema(ctx context.Context, hash string) (known storedSchema, err error) {
	if known, ok := s.schemas.Get(hash); ok {
		return known, nil
	}
	key := schemaKey(hash)
	e, err := s.kv.Get(ctx, key)
	if err != nil {
		return known, unread(keyName(key), err)
	}
	compiled, err := schema.Compile(e.Value)
	if err != nil || SchemaHash(e.Value) != hash {
		return known, fmt.Errorf("%w: %s is not the schema of that hash", ErrCorrupt, keyName(key))
	}
	known = storedSchema{raw: e.Value, compiled: compiled}
	s.schemas.Put(hash, known, maxSchemas)
	return known, nil
}

// ChildSchema returns the JSON Schema of what a child's last message has to be;
// nil: it is no child, or its message is text.
func (s *Store) ChildSchema(ctx context.Context, p *Parent) (json.RawMessage, error) {
	if p == nil || p.Schema == "" {
		return nil, nil
	}
	known, err := s.schema(ctx, p.Schema)
	return bytes.Clone(known.raw), err
}

// Fits returns the check of values against stored schemas.
func (s *Store) Fits(ctx context.Context) Fits {
	return func(a Asked, value json.RawMessage) (misfit, err error) {
		if a.Schema == "" {
			return nil, nil
		}
		known, err := s.schema(ctx, a.Schema)
		if err != nil {
			return nil, err
		}
		if a.Use == toolbox.AsArguments || a.Use == toolbox.AsAnswer { // which Go code decodes
			_, misfit = known.compiled.Arguments(value)
			return misfit, nil
		}
		return known.compiled.ValidateResult(value), nil
	}
}
