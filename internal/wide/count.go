package wide

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/kvstore"
)

// shard is one part of what is counted of a scope, and of its log.
type shard struct {
	Scope   string  `json:"scope"`
	Number  int     `json:"n"`
	Changes int     `json:"changes"`          // the number of the last one
	Trimmed int     `json:"trimmed,omitzero"` // up to which they are gone
	Counts  []Count `json:"counts,omitempty"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// Count is how many handles of a type and a status there are.
type Count struct {
	Type   string `json:"type"`
	Status string `json:"status"`
	Now    int    `json:"now"` // that are kept
	// Ever counts those that ever came to the status, also if they were removed,
	// and WaitedMS for how long they had been open.
	Ever     int `json:"ever"`
	WaitedMS int `json:"waited_ms,omitzero"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

func (s *shard) check() error {
	if s.Scope == "" || s.Number < 0 || s.Number >= shards || s.Trimmed < 0 || s.Trimmed > s.Changes {
		return errIncomplete
	}
	for i := range s.Counts {
		if c := &s.Counts[i]; c.Type == "" || c.Status == "" || c.Now < 0 || c.Ever < c.Now {
			return fmt.Errorf("its count of %s handles that are %s is none", c.Type, c.Status)
		}
	}
	return nil
}

func (s *shard) liesAt(key []byte) bool { return string(key) == string(shardKey(s.Scope, s.Number)) }

// of returns the count of a type and a status.
func (s *shard) of(kind, status string) *Count {
	for i := range s.Counts {
		if s.Counts[i].Type == kind && s.Counts[i].Status == status {
			return &s.Counts[i]
		}
	}
	s.Counts = append(s.Counts, Count{Type: kind, Status: status})
	return &s.Counts[len(s.Counts)-1]
}

// count brings up to date what is counted, and writes the log.
func (e *edit) count() error {
	if len(e.log) == 0 {
		return nil
	}
	n := shardOf(e.id.Name)
	sh, key := &shard{Scope: e.id.Scope, Number: n}, shardKey(e.id.Scope, n)
	rev, err := e.store.read(e.ctx, key, sh)
	if err != nil {
		return err
	}
	e.only = append(e.only, kvstore.Precondition{Key: key, Revision: rev})
	if e.was != nil && (e.h == nil || e.h.Status() != e.was.Status()) {
		sh.of(e.was.Type, e.was.Status()).Now--
	}
	if e.h != nil && (e.was == nil || e.h.Status() != e.was.Status()) {
		c := sh.of(e.h.Type, e.h.Status())
		c.Now, c.Ever = c.Now+1, c.Ever+1
		if e.h.End != nil {
			c.WaitedMS += int(e.h.Waited(e.now).Milliseconds())
		}
	}
	subject := e.h
	if subject == nil {
		subject = e.was
	}
	for _, kind := range e.log {
		sh.Changes++
		err := e.put(changeKey(e.id.Scope, n, sh.Changes), &Change{Kind: kind, Name: e.id.Name,
			Type: subject.Type, Status: subject.Status(), At: e.now})
		if err != nil {
			return err
		}
	}
	return e.put(key, sh)
}

// Counts returns what is counted of a scope, by type and status. Handles whose
// deadline has passed end first, see Expire.
func (s *Store) Counts(ctx context.Context, scope string) ([]Count, error) {
	if err := s.Expire(ctx, scope); err != nil {
		return nil, err
	}
	var sum shard
	page, err := s.kv.Scan(ctx, kvstore.Range{Prefix: kvstore.Key(kind, "s", scope)})
	if err != nil {
		return nil, err
	}
	for _, e := range page.Entries {
		var sh shard
		if err := decode(e, &sh); err != nil {
			return nil, err
		}
		for _, c := range sh.Counts {
			all := sum.of(c.Type, c.Status)
			all.Now, all.Ever, all.WaitedMS = all.Now+c.Now, all.Ever+c.Ever, all.WaitedMS+c.WaitedMS
		}
	}
	slices.SortFunc(sum.Counts, func(a, b Count) int {
		return strings.Compare(a.Type+" "+a.Status, b.Type+" "+b.Status)
	})
	return sum.Counts, nil
}
