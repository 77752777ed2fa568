package session

import (
	"context"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// DueAgents returns since when work is due under the name of each agent that
// has any: the oldest that it finds of what stands in the wake index, and of
// what dead drives held. It costs a look or two in each index for each agent,
// whatever the number of its sessions.
func (s *Store) DueAgents(ctx context.Context) (all map[string]time.Time, err error) {
	all = map[string]time.Time{}
	older := func(agent string, at time.Time) {
		if due, ok := all[agent]; !ok || at.Before(due) {
			all[agent] = at
		}
	}
	err = s.firsts(ctx, "w", 4, func(parts []string, _ []byte) error {
		all[parts[1]] = since(parseMillis(parts[2]))
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = s.firsts(ctx, "v", 3, func(parts []string, value []byte) error {
		var w watched
		if err := decode(watchKey(parts[1], parts[2]), value, &w); err != nil {
			return err
		}
		older(parts[1], s.over(parts[2], &w))
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = s.firsts(ctx, "l", 4, func(parts []string, value []byte) error {
		var r recovery
		key := kvstore.Key(parts...)
		_, incarnation, _, err := recoveryParts(key)
		if err == nil {
			err = decode(key, value, &r)
		}
		if err == nil && !(s.exclusive && incarnation == s.incarnation) {
			older(parts[1], r.Since)
		}
		return err
	})
	now := s.Now()
	for agent, due := range all {
		if due.After(now) {
			delete(all, agent)
		}
	}
	return all, err
}

// DueSince returns since when work is due in the session, to the second where it
// was due at once; zero: none is, or a drive has it.
func (s *State) DueSince() time.Time { return since(s.Wake) }

// firsts calls f for the first of all entries of a kind that have the second part
// of their keys in common, such as an agent in an index. It gets the entry's value
// and the parts of its key, of which there are size.
func (s *Store) firsts(
	ctx context.Context, kind string, size int, f func(parts []string, value []byte) error,
) error {
	r := kvstore.Range{Prefix: kvstore.Key(kind), Limit: 1}
	for {
		page, err := s.kv.Scan(ctx, r)
		if err != nil || len(page.Entries) == 0 {
			return err
		}
		e := page.Entries[0]
		parts, err := kvstore.Parts(e.Key)
		if err != nil || len(parts) != size {
			return fmt.Errorf("%w: %s", ErrCorrupt, keyName(e.Key))
		}
		if err := f(parts, e.Value); err != nil {
			return err
		}
		r.After = append(kvstore.Key(kind, parts[1]), 0xff) // no third part begins so
	}
}
