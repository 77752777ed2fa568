package wide

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

// Outcome is what a handle is completed with: a result, or an error.
type Outcome struct {
	Result json.RawMessage
	Error  string
	Actor  string
}

// Complete ends a handle, once. The same again is a duplicate. Another outcome
// is refused with an [EndedError], which has what came first.
func (s *Store) Complete(ctx context.Context, id ID, o Outcome) (h *Handle, duplicate bool, err error) {
	end, err := o.end()
	if err != nil {
		return nil, false, err
	}
	err = s.edit(ctx, id, func(e *edit) error {
		duplicate = false
		switch {
		case e.h == nil:
			return unknown(id)
		case e.h.End == nil:
			own := end
			own.At = e.now
			e.end(own)
		case !e.h.End.same(&end):
			return &EndedError{e.h}
		default:
			duplicate = !e.mine(e.h.End.At) || e.h.End.Actor != end.Actor
		}
		h = e.h
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	return h, duplicate, nil
}

// TimeOut ends an open handle as one whose time was over then, before it is. One
// that has ended stays as it is.
func (s *Store) TimeOut(
	ctx context.Context, id ID, actor string, then time.Time,
) (h *Handle, err error) {
	err = s.edit(ctx, id, func(e *edit) error {
		if e.h == nil {
			return unknown(id)
		}
		if e.h.End == nil {
			at := e.now
			if then.Before(at) {
				at = then
			}
			e.end(End{Status: TimedOut, Error: notInTime, Actor: actor, At: at})
		}
		h = e.h
		return nil
	})
	return h, err
}

// end returns the end that an outcome makes, but for its time.
func (o *Outcome) end() (End, error) {
	switch {
	case len(o.Result) > 0 && o.Error != "":
		return End{}, fmt.Errorf("%w: there is a result and an error; a handle ends with one", ErrInvalid)
	case o.Error != "":
		return End{Status: Failed, Error: o.Error, Actor: o.Actor},
			tooLarge("error", len(o.Error), maxError)
	case len(o.Result) == 0:
		return End{}, fmt.Errorf("%w: there is neither a result nor an error", ErrInvalid)
	}
	return End{Status: Completed, Result: o.Result, Actor: o.Actor},
		checkJSON("result", o.Result, maxResult)
}

// same reports whether two ends are equal by what they are.
func (e *End) same(o *End) bool {
	if e.Status != o.Status || e.Error != o.Error || len(e.Result) == 0 || len(o.Result) == 0 {
		return e.Status == o.Status && e.Error == o.Error && len(e.Result) == len(o.Result)
	}
	a, err1 := strictjson.Hash(e.Result)
	b, err2 := strictjson.Hash(o.Result)
	return err1 == nil && err2 == nil && a == b
}

// Report notes how far an open handle has come, in place of what was told of it
// before.
func (s *Store) Report(ctx context.Context, id ID, value json.RawMessage) error {
	if err := checkJSON("progress", value, maxProgress); err != nil {
		return err
	}
	if len(value) == 0 {
		return fmt.Errorf("%w: the progress is empty", ErrInvalid)
	}
	return s.edit(ctx, id, func(e *edit) error {
		switch {
		case e.h == nil:
			return unknown(id)
		case e.h.End != nil:
			return &EndedError{e.h}
		}
		e.h.Progress, e.dirty = &Progress{Value: value, At: e.now}, true
		e.log = append(e.log, Progressed)
		return nil
	})
}
