package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
)

// decodeState reads a head. A version that this package doesn't know is ErrNewerVersion; a record that does not add up is
// ErrCorrupt: what is damaged is never taken for undecided, let alone for approved.
func decodeState(key, b []byte) (*State, error) {
	if s := quickState(b); s != nil && s.Version == Version && s.exactly(b) && s.check() == nil && s.liesAt(key) {
		return s, nil
	}
	s := new(State)
	err := json.Unmarshal(b, s)
	if err != nil || s.Version != Version {
		if err := checkVersion(key, b); err != nil {
			return nil, err
		}
	}
	if err == nil && !s.exactly(b) {
		err = keepLater(b, reflect.ValueOf(s))
	}
	if err == nil {
		err = s.check()
	}
	if err == nil && !s.liesAt(key) {
		err = errElsewhere
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, keyName(key), err)
	}
	return s, nil
}

func checkVersion(key, b []byte) error {
	var v struct {
		Version *int `json:"v"`
	}
	if err := decode(key, b, &v); err != nil {
		return err
	}
	switch {
	case v.Version == nil || *v.Version < 1:
		return fmt.Errorf("%w: %s has no version", ErrCorrupt, keyName(key))
	case *v.Version > Version:
		return fmt.Errorf("%w: %s has version %d, this program reads up to %d", ErrNewerVersion, keyName(key), *v.Version, Version)
	}
	return nil
}

// exactly says whether the head, written again, is what it was read from, to the byte. Nearly always it is.
func (s *State) exactly(b []byte) bool {
	again, err := s.appendJSON(make([]byte, 0, len(b)))
	return err == nil && bytes.Equal(again, b)
}

// UnmarshalJSON wants to be told whether it was approved: what is damaged must not be read as either.
func (d *Decision) UnmarshalJSON(b []byte) error {
	type plain Decision
	var said struct {
		Approved *bool `json:"approved"`
	}
	if err := json.Unmarshal(b, &said); err != nil {
		return err
	}
	if said.Approved == nil {
		return fmt.Errorf("a decision does not say whether it approves")
	}
	return json.Unmarshal(b, (*plain)(d))
}

// closeObject ends an object with the fields that this version doesn't know.
func closeObject(b []byte, extra map[string]json.RawMessage) ([]byte, error) {
	if len(extra) == 0 {
		return append(b, '}'), nil
	}
	more, err := encode(extra)
	if err != nil {
		return nil, err
	}
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(b, more[1:]...), nil
}
