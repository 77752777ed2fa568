package kvstore

import "context"

// reader goes through a store, page by page.
type reader struct {
	store Store
	page  Page
	at    int
	after []byte // the last key of the page before
	begun bool
}

// entry returns the entry that the reader is at; nil: there is none any more.
func (r *reader) entry(ctx context.Context) (*Entry, error) {
	for r.at == len(r.page.Entries) {
		if r.begun && !r.page.More {
			return nil, nil
		}
		var err error
		if r.page, err = r.store.Scan(ctx, Range{After: r.after}); err != nil {
			return nil, err
		}
		r.begun, r.at = true, 0
		if n := len(r.page.Entries); n > 0 {
			r.after = r.page.Entries[n-1].Key
		}
	}
	return &r.page.Entries[r.at], nil
}

// next goes to the next entry, and reports whether the page is at its end.
func (r *reader) next() (end bool) {
	r.at++
	return r.at == len(r.page.Entries)
}
