package session

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// storedSchema is a schema that is known to be in the store.
type storedSchema struct {
	raw      json.RawMessage
	compiled *tool.Schema
}

// SchemaHash names a schema by its bytes; the empty schema, which every value fits, has no name.
func SchemaHash(schema json.RawMessage) string {
	if len(schema) == 0 {
		return ""
	}
	h := sha256.Sum256(schema)
	return base64.RawURLEncoding.EncodeToString(h[:12])
}

// The longest schema fits one value, or this does not compile.
const _ = uint(kvstore.MaxValue - tool.MaxSchema)

// PutSchema makes sure that a schema is in the store, where it lies once under its hash, for ever.
func (s *Store) PutSchema(ctx context.Context, schema json.RawMessage) (hash string, err error) {
	hash = SchemaHash(schema)
	if hash == "" {
		return "", nil
	}
	if _, known := s.schemas.Load(hash); known {
		return hash, nil
	}
	compiled, err := tool.CompileSchema(schema)
	if err != nil {
		return "", fmt.Errorf("session: schema: %w", err)
	}
	if _, err := s.kv.Get(ctx, schemaKey(hash)); errors.Is(err, kvstore.ErrNotFound) {
		if err := s.repeat(ctx, kvstore.Batch{Puts: []kvstore.Put{{Key: schemaKey(hash), Value: schema}}}); err != nil {
			return "", fmt.Errorf("session: schema of %d bytes: %w", len(schema), err)
		}
	} else if err != nil {
		return "", err
	}
	s.schemas.Store(hash, &storedSchema{schema, compiled})
	return hash, nil
}

func (s *Store) schema(ctx context.Context, hash string) (*storedSchema, error) {
	if known, ok := s.schemas.Load(hash); ok {
		return known.(*storedSchema), nil
	}
	key := schemaKey(hash)
	e, err := s.kv.Get(ctx, key)
	if err != nil {
		return nil, unread(keyName(key), err)
	}
	compiled, err := tool.CompileSchema(e.Value)
	if err != nil || SchemaHash(e.Value) != hash {
		return nil, fmt.Errorf("%w: %s is not the schema of that hash", ErrCorrupt, keyName(key))
	}
	known := &storedSchema{e.Value, compiled}
	s.schemas.Store(hash, known)
	return known, nil
}

// Fits returns the check of values against stored schemas.
func (s *Store) Fits(ctx context.Context) Fits {
	return func(a Asked, value json.RawMessage) (misfit, err error) {
		if a.Schema == "" {
			return nil, nil
		}
		schema, err := s.schema(ctx, a.Schema)
		if err != nil {
			return nil, err
		}
		if a.Use == tool.AsArguments || a.Use == tool.AsAnswer { // which Go code decodes
			_, misfit = schema.compiled.Arguments(value)
			return misfit, nil
		}
		return schema.compiled.ValidateResult(value), nil
	}
}
