package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/tool"
)

// decodeState reads a head. A version that this package doesn't know is ErrNewerVersion; a record that does not add up is
// ErrCorrupt: what is damaged is never taken for undecided, let alone for approved.
func decodeState(key, b []byte) (*State, error) {
	if s := quickState(b); s != nil && s.Version == Version && s.exactly(b) && s.check() == nil {
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

// check says what doesn't add up in a head.
func (s *State) check() error {
	switch {
	case s.ID == "":
		return fmt.Errorf("it has no id")
	case s.Messages < 0 || s.Turn < 0 || s.Epoch < 0 || s.Generation < 0:
		return fmt.Errorf("it has a negative count")
	case len(s.Calls) > 0 && s.Due:
		return fmt.Errorf("a turn is open, and yet the model's answer is due")
	case len(s.Calls) > 0 && s.Messages == 0:
		return fmt.Errorf("a turn is open, and no message asked for it")
	}
	for i := range s.Calls {
		c := &s.Calls[i]
		if c.ID == "" || s.Call(c.ID) != c {
			return fmt.Errorf("call %d has no id of its own", i)
		}
		if err := c.check(); err != nil {
			return fmt.Errorf("call %s: %w", c.ID, err)
		}
	}
	var err error
	s.blobs(func(b *Blob) {
		if e := b.check(); e != nil {
			err = e
		}
	})
	return err
}

func (c *Call) check() error {
	if _, known := transitions[c.Status]; !known && c.Status != Settled {
		return fmt.Errorf("unknown status %q", c.Status)
	}
	switch c.Effect {
	case tool.Once, tool.Idempotent, tool.ReadOnly:
	default:
		return fmt.Errorf("unknown effect %q", c.Effect)
	}
	switch {
	case (c.Status == Pending) != (c.Pause != nil):
		return fmt.Errorf("it is %s, and its pause doesn't go with that", c.Status)
	case c.Status == Pending && c.Pauses < 1:
		return fmt.Errorf("it is pending, and never paused")
	case (c.Status == Settled) != (c.Settled != ""):
		return fmt.Errorf("it is %s, and its end doesn't go with that", c.Status)
	case c.Status == Answered && c.Answer == nil && len(c.Decisions) == 0:
		return fmt.Errorf("it is answered, and has no answer")
	case c.Status == Running && c.Attempt < 1:
		return fmt.Errorf("it is running, and was never claimed")
	}
	if c.Pause != nil {
		if err := c.Pause.check(); err != nil {
			return err
		}
	}
	for _, a := range []*Answer{c.Answer, c.Early} {
		if a != nil && (a.Pause < 1 || a.Payload == nil || !answers[a.Kind] || (a == c.Answer && a.Mode == "")) {
			return fmt.Errorf("an answer is incomplete")
		}
	}
	for _, d := range c.Decisions {
		if d.Gate == "" || d.Shown == "" || d.Pause < 1 {
			return fmt.Errorf("a decision is incomplete")
		}
	}
	return checkSettled(c.Settled)
}

var answers = map[Kind]bool{KindComplete: true, KindFail: true, KindMessage: true, KindTimer: true}

func checkSettled(s event.Status) error {
	switch s {
	case "", event.Done, event.Failed, event.Denied, event.Cancelled, event.Expired, event.Unknown:
		return nil
	}
	return fmt.Errorf("unknown end %q", s)
}

// check says what doesn't add up in a call's record.
func (r *Record) check() error {
	switch {
	case r.Version > Version:
		return ErrNewerVersion
	case r.Version < 1 || r.Call == "" || r.Status == "":
		return fmt.Errorf("it is incomplete")
	}
	if err := r.Output.check(); err != nil {
		return err
	}
	return checkSettled(r.Status)
}

func (p *Pause) check() error {
	if p.Gate != "" && (p.Mode != tool.ModeReenter || p.Shown == "") {
		return fmt.Errorf("a layer's pause is incomplete")
	}
	a := tool.Await{Reason: p.Reason, Mode: p.Mode, Gate: p.Gate}
	if _, err := a.Normalize(); err != nil || p.Mode == "" || p.Reason == "" {
		return fmt.Errorf("its pause has reason %q and mode %q", p.Reason, p.Mode)
	}
	return nil
}
