package wide

import (
	"context"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// Permits are how many calls may hold a handle at a time, and how many do.
type Permits struct {
	Most   int `json:"most"`
	Held   int `json:"held,omitzero"`
	Queued int `json:"queued,omitzero"` // claims that wait
	Last   int `json:"last,omitzero"`   // the number of the last claim that had to wait

	Rest strictjson.Rest `json:"-"` // of a later version
}

func (p *Permits) check() error {
	if p.Most < 1 || p.Held < 0 || p.Queued < 0 || p.Last < 0 {
		return fmt.Errorf("%d of its %d permits are held, and %d are waited for", p.Held, p.Most,
			p.Queued)
	}
	return nil
}

// permitType is the type of a handle that was made for its permits.
const permitType = string(tool.CustomWait)

// Acquire claims a permit for a pause of a call, once. It reports whether the
// call has it. If it doesn't, the call is told when it has. A handle that isn't
// there is made, with most permits. Claims wait by priority, the greater first,
// and then in order.
//
// Nothing is noted of the call at the same time. So each permit that is given is
// told as well, and one that its call no longer waits for is given back then.
func (s *Store) Acquire(ctx context.Context, id ID, c Claim, most int) (held bool, err error) {
	if most < 1 {
		return false, fmt.Errorf("%w: %q is to have %d permits", ErrInvalid, id.Name, most)
	}
	if err := checkID(id); err != nil {
		return false, err
	}
	err = s.edit(ctx, id, func(e *edit) error {
		held = false
		if e.h == nil {
			e.create(NewHandle{Type: permitType, Permits: most})
		}
		switch {
		case e.h.End != nil:
			return &EndedError{e.h}
		case e.h.Permits == nil:
			return fmt.Errorf("%w: %q has no permits", ErrInvalid, id.Name)
		}
		var was Claim
		rev, err := s.read(ctx, c.key(id), &was)
		if err != nil || rev != 0 {
			held = was.Given
			return err
		}
		e.only = append(e.only, kvstore.Precondition{Key: c.key(id)})
		p := e.ownPermits()
		if held = p.Held < p.Most && p.Queued == 0; held {
			return e.give(c)
		}
		p.Queued++
		p.Last++
		c.Number = p.Last
		e.puts = append(e.puts, kvstore.Put{Key: c.queueKey(id), Value: []byte(c.place())})
		return e.put(c.key(id), &c)
	})
	return held, err
}

// Release gives back a permit, or gives up the claim to one, once. The next claim
// gets it.
func (s *Store) Release(ctx context.Context, id ID, c Claim) error {
	return s.edit(ctx, id, func(e *edit) error {
		var was Claim
		rev, err := s.read(ctx, c.key(id), &was)
		if err != nil || rev == 0 {
			return err
		}
		e.only = append(e.only, kvstore.Precondition{Key: c.key(id), Revision: rev})
		e.deletes = append(e.deletes, was.key(id))
		if !was.Given {
			e.deletes = append(e.deletes, was.queueKey(id))
		}
		if e.h == nil || e.h.Permits == nil {
			return nil
		}
		p := e.ownPermits()
		if !was.Given {
			p.Queued--
			return nil
		}
		p.Held--
		return e.giveNext()
	})
}

// ownPermits returns the permits of the handle, for the edit to change.
func (e *edit) ownPermits() *Permits {
	own := *e.h.Permits
	e.h.Permits, e.dirty = &own, true
	return &own
}

// give gives a claim its permit.
func (e *edit) give(c Claim) error {
	e.h.Permits.Held++
	c.Given = true
	e.puts = append(e.puts, kvstore.Put{Key: c.givenKey(e.id)})
	e.tell()
	return e.put(c.key(e.id), &c)
}

// giveNext gives a permit to the claim whose turn it is, if there is one. Each
// change of the queue writes the handle, so what is read here holds. A claim that
// is damaged loses its place, so that the others don't wait for it.
func (e *edit) giveNext() error {
	p := e.h.Permits
	if e.h.End != nil || p.Queued == 0 || p.Held >= p.Most {
		return nil
	}
	page, err := e.store.kv.Scan(e.ctx, kvstore.Range{Prefix: queuePrefix(e.id), Limit: toldAtOnce})
	if err != nil {
		return err
	}
	if len(page.Entries) == 0 {
		return fmt.Errorf("wait handle %q: %d claims wait for its permits, and none is found", e.id.Name,
			p.Queued)
	}
	for _, first := range page.Entries {
		c := Claim{}
		rev, err := e.store.read(e.ctx, claimKey(e.id, string(first.Value)), &c)
		damaged := errors.Is(err, session.ErrCorrupt) || err == nil && rev == 0
		if err != nil && !damaged {
			return fmt.Errorf("wait handle %q: the claim of %q can't be read: %w", e.id.Name, first.Value, err)
		}
		p.Queued--
		e.deletes = append(e.deletes, first.Key)
		if !damaged {
			return e.give(c)
		}
	}
	return nil
}

// droppedAtOnce is how many claims a commit forgets, each with a precondition and
// two entries.
const droppedAtOnce = kvstore.MaxOperations / 4

// dropClaims forgets some claims on a handle that has ended, and reports whether
// there were any. A call that has a permit then gives back nothing: a new handle
// of the name doesn't count it.
func (e *edit) dropClaims() (some bool, err error) {
	if e.h.Permits == nil {
		return false, nil
	}
	page, err := e.store.kv.Scan(e.ctx, kvstore.Range{Prefix: claimsPrefix(e.id), Limit: droppedAtOnce})
	if err != nil || len(page.Entries) == 0 {
		return false, err
	}
	p := e.ownPermits()
	for _, entry := range page.Entries {
		var c Claim
		err := decode(entry, &c)
		damaged := errors.Is(err, session.ErrCorrupt)
		if err != nil && !damaged {
			return false, err
		}
		e.only = append(e.only, kvstore.Precondition{Key: entry.Key, Revision: entry.Revision})
		e.deletes = append(e.deletes, entry.Key)
		switch {
		case damaged: // nothing tells what it was
		case c.Given:
			p.Held--
			e.deletes = append(e.deletes, c.givenKey(e.id))
		default:
			p.Queued--
			e.deletes = append(e.deletes, c.queueKey(e.id))
		}
	}
	return true, nil
}
