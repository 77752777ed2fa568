package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
)

// A call whose tool was there when it was asked for, and is gone since, is
// parked: a deploy took the tool away, or the program that has it is another
// one. It keeps its answer, its decisions and its claim, and goes on as soon as
// a drive has the tool. Until then it waits as a pause does.

// Park parks a call until then; zero: for ever.
func (tx *Tx) Park(call string, until time.Time) error {
	c, err := tx.live(call)
	if err != nil || c.Parked != nil {
		return err
	}
	if c.Status == Pending {
		return fmt.Errorf("%w: call %s is %s", errMove, call, c.Status)
	}
	c.Parked = &Parked{Since: tx.Now, Until: until}
	tx.touch()
	return nil
}

// Unpark lets a call go on: its tool is back.
func (tx *Tx) Unpark(call string) error {
	c, err := tx.live(call)
	switch {
	case errors.Is(err, ErrSettled), errors.Is(err, ErrUnknownCall):
		return nil // it was ended meanwhile
	case err == nil && c.Parked != nil:
		c.Parked = nil
		tx.touch()
	}
	return err
}

// Parked lists the calls that wait for their tools, in call order.
func (s *State) Parked() (parked []event.Parked) {
	for i := range s.Calls {
		if c := &s.Calls[i]; c.Parked != nil {
			parked = append(parked, c.ShowParked())
		}
	}
	return parked
}

// ShowParked returns a parked call as callers see it.
func (c *Call) ShowParked() event.Parked {
	return event.Parked{Call: c.ID, Tool: c.Tool, Since: c.Parked.Since, Until: c.Parked.Until}
}

// indexParked keeps the session in the index of parked sessions under each tool
// that is missing, so that only a worker that has one of them looks at it.
func (tx *Tx) indexParked() {
	var missing []string
	for i := range tx.Calls {
		if c := &tx.Calls[i]; c.Parked != nil && tx.Ending == nil &&
			!slices.Contains(missing, c.Tool) {
			missing = append(missing, c.Tool)
		}
	}
	for i := range tx.Outbox {
		u := tx.Outbox[i].Undo
		if u == nil || !u.Tries.Parked {
			continue
		}
		if name := undoTool(u); !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 && len(tx.Missing) == 0 {
		return
	}
	slices.Sort(missing)
	for _, tool := range tx.Missing {
		if !slices.Contains(missing, tool) {
			tx.delete(parkedKey(tx.Agent, tool, tx.ID))
		}
	}
	for _, tool := range missing {
		if !slices.Contains(tx.Missing, tool) {
			tx.put(parkedKey(tx.Agent, tool, tx.ID), nil)
		}
	}
	tx.Missing = missing
}

// Parked lists sessions of an agent in which a call waits for a tool for which
// has reports true: at most a page of them. A tool for which it reports false
// costs one look, however many sessions wait for it.
func (s *Store) Parked(
	ctx context.Context, agent string, has func(tool string) bool,
) (sessions []string, err error) {
	r := kvstore.Range{Prefix: kvstore.Key("n", agent), Limit: 64}
	for {
		page, err := s.kv.Scan(ctx, r)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Entries {
			parts, err := kvstore.Parts(e.Key)
			if err != nil || len(parts) != 4 {
				return nil, fmt.Errorf("%w: %s", ErrCorrupt, keyName(e.Key))
			}
			r.After = e.Key
			if !has(parts[2]) {
				r.After = append(kvstore.Key("n", agent, parts[2]), 0xff) // the next tool
				break
			}
			if !slices.Contains(sessions, parts[3]) {
				sessions = append(sessions, parts[3])
			}
		}
		if len(page.Entries) == 0 || len(sessions) >= kvstore.MaxPage {
			return sessions, nil
		}
	}
}
