package session

import (
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/kvstore"
)

// encode is the one way in which records become bytes. The struct tags define
// how.
func encode(v any) ([]byte, error) { return strictjson.Append(nil, v) }

// decode is the one way back. A damaged record is ErrCorrupt, and never taken
// for undecided, let alone for approved. A version that this package doesn't
// know is ErrNewerVersion.
func decode(key, b []byte, v any) error {
	err := strictjson.Read(b, v)
	switch {
	case err != nil && isNewer(b, v):
		err = ErrNewerVersion // whose records may look otherwise
	case err != nil:
	default:
		err = checkRecord(key, v)
	}
	switch {
	case errors.Is(err, ErrNewerVersion):
		return fmt.Errorf("%w: %s", err, keyName(key))
	case err != nil:
		return fmt.Errorf("%w: %s: %w", ErrCorrupt, keyName(key), err)
	}
	return nil
}

// checkRecord returns what is wrong with a record that was read under key.
func checkRecord(key []byte, v any) error {
	if c, ok := v.(interface{ check() error }); ok {
		if err := c.check(); err != nil {
			return err
		}
	}
	if r, ok := v.(interface{ liesAt(key []byte) bool }); ok && !r.liesAt(key) {
		return errElsewhere
	}
	return nil
}

// isNewer reports whether b is of a later version than this package knows of
// such a record.
func isNewer(b []byte, v any) bool {
	known, ok := v.(interface{ newest() int })
	var said struct {
		Version int `json:"v,omitzero"`
	}
	return ok && strictjson.Read(b, &said) == nil && said.Version > known.newest()
}

func (s *State) newest() int   { return newestVersion }
func (r *Record) newest() int  { return Version }
func (r *keyRing) newest() int { return floorVersion }

// decodeState reads a head.
func decodeState(key, b []byte) (*State, error) {
	s := new(State)
	if err := decode(key, b, s); err != nil {
		return nil, err
	}
	return s, nil
}

// keyName returns a key as errors show it.
func keyName(key []byte) string {
	parts, err := kvstore.Parts(key)
	if err != nil {
		return fmt.Sprintf("%q", key)
	}
	return fmt.Sprintf("%q", parts)
}
