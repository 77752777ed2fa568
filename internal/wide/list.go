package wide

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/fermata-ai/fermata/kvstore"
)

// Filter selects handles of a scope. Empty fields select all.
type Filter struct {
	Status, Type string
	Limit        int    // default 50, at most 200
	Cursor       string // of the page before
}

// Page is some handles of a list, in the order in which they were made.
type Page struct {
	Handles []*Handle
	Next    string // the cursor of the next page; empty: this is the last
}

// The index of a list is named after what it selects.
const allHandles = "all"

func byStatus(status string) string     { return "status " + status }
func byType(kind string) string         { return "type " + kind }
func byBoth(status, kind string) string { return "both " + status + " " + kind }

// filters are the indexes in which a handle stands.
func (h *Handle) filters() []string {
	status := h.Status()
	return []string{allHandles, byType(h.Type), byStatus(status), byBoth(status, h.Type)}
}

// index brings up to date where a handle stands in the lists.
func (e *edit) index() {
	has := map[string]bool{}
	if e.was != nil {
		for _, f := range e.was.filters() {
			has[f] = true
		}
	}
	if e.h != nil {
		for _, f := range e.h.filters() {
			if !has[f] {
				e.puts = append(e.puts, kvstore.Put{Key: indexKey(f, e.h)})
			}
			delete(has, f)
		}
	}
	for f := range has {
		e.deletes = append(e.deletes, indexKey(f, e.was))
	}
}

// List returns a page of the handles of a scope. It reads that page, and what
// is counted, however many handles there are.
func (s *Store) List(ctx context.Context, scope string, f Filter) (p Page, err error) {
	index := allHandles
	switch {
	case f.Status != "" && f.Type != "":
		index = byBoth(f.Status, f.Type)
	case f.Status != "":
		index = byStatus(f.Status)
	case f.Type != "":
		index = byType(f.Type)
	}
	if f.Limit <= 0 {
		f.Limit = 50
	}
	prefix := kvstore.Key(kind, "i", scope, index)
	r := kvstore.Range{Prefix: prefix, Limit: min(f.Limit, 200)}
	if r.After, err = afterCursor(prefix, f.Cursor); err != nil {
		return p, err
	}
	got, err := s.kv.Scan(ctx, r)
	if err != nil {
		return p, err
	}
	for _, e := range got.Entries {
		parts, err := kvstore.Parts(e.Key)
		if err != nil || len(parts) != 6 {
			continue // Check reports it
		}
		h, _, err := s.get(ctx, ID{Scope: scope, Name: parts[5]})
		if err != nil {
			return p, err
		}
		if h != nil { // it was removed meanwhile
			p.Handles = append(p.Handles, h)
		}
	}
	if got.More {
		last := got.Entries[len(got.Entries)-1].Key
		p.Next = base64.RawURLEncoding.EncodeToString(last[len(prefix):])
	}
	return p, nil
}

// afterCursor returns the key at which a page had ended; nil: there was none.
func afterCursor(prefix []byte, cursor string) ([]byte, error) {
	if cursor == "" {
		return nil, nil
	}
	end, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		var parts []string
		if parts, err = kvstore.Parts(end); err == nil && len(parts) != 2 {
			err = fmt.Errorf("it has %d parts", len(parts))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %.40q: %w", ErrBadCursor, cursor, err)
	}
	return append(prefix[:len(prefix):len(prefix)], end...), nil
}
