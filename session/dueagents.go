package session

import (
	"context"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// DueAgents returns since when work is due under the name of each agent that
// has any: the oldest that it finds of what stands in the wake index, and of
// what dead drives held. It costs a look or two for each agent, whatever the
// number of its sessions.
func (s *Store) DueAgents(ctx context.Context) (since map[string]time.Time, err error) {
	since = map[string]time.Time{}
	err = s.firsts(ctx, "w", func(agent string, e kvstore.Entry, parts []string) {
		due := parseMillis(parts[2])
		if isAtOnce(due) {
			due = time.Unix(due.UnixMilli(), 0).UTC()
		}
		since[agent] = due
	})
	if err != nil {
		return nil, err
	}
	err = s.firsts(ctx, "v", func(agent string, e kvstore.Entry, parts []string) {
		var w watched
		if decode(e.Key, e.Value, &w) != nil {
			return // who loads the session is told what is wrong
		}
		over := s.over(parts[2], &w)
		if due, ok := since[agent]; !ok || over.Before(due) {
			since[agent] = over
		}
	})
	now := s.Now()
	for agent, due := range since {
		if due.After(now) {
			delete(since, agent)
		}
	}
	return since, err
}

// firsts calls f with the first entry of each agent in an index.
func (s *Store) firsts(ctx context.Context, index string, f func(agent string, e kvstore.Entry, parts []string)) error {
	r := kvstore.Range{Prefix: kvstore.Key(index), Limit: 1}
	for {
		page, err := s.kv.Scan(ctx, r)
		if err != nil || len(page.Entries) == 0 {
			return err
		}
		e := page.Entries[0]
		parts, err := kvstore.Parts(e.Key)
		if err != nil || len(parts) < 3 {
			return fmt.Errorf("%w: %s", ErrCorrupt, keyName(e.Key))
		}
		f(parts[1], e, parts)
		r.After = append(kvstore.Key(index, parts[1]), 0xff)
	}
}
