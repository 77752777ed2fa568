package kvstore

import "bytes"

// Pager fills the page of an engine's Scan, so that all engines read a Range in
// the same way and keep the same limits. The engine goes to Seek and hands over
// what it finds there, in order:
//
//	p := kvstore.NewPager(r)
//	for e := range engine.from(p.Seek()) {
//		if !p.Takes(e.key, len(e.value)) {
//			break
//		}
//		p.Add(e.key, e.value, e.revision)
//	}
//	return p.Page(), nil
type Pager struct {
	within Range
	page   Page
	bytes  int
	free   []byte // the rest of what was allocated for entries
}

// NewPager returns a Pager with an empty page of r.
func NewPager(r Range) *Pager {
	if r.Limit <= 0 || r.Limit > MaxPage {
		r.Limit = MaxPage
	}
	return &Pager{within: r}
}

// Seek returns the least key that can lie in the range.
func (p *Pager) Seek() []byte {
	if r := p.within; len(r.After) > 0 && bytes.Compare(r.After, r.Prefix) >= 0 {
		return append(bytes.Clone(r.After), 0) // no key lies between the two
	}
	return p.within.Prefix
}

// Takes reports whether the next key, with a value of so many bytes, goes on
// the page. If not, the page is at its end.
func (p *Pager) Takes(key []byte, value int) bool {
	r := p.within
	if !bytes.HasPrefix(key, r.Prefix) || len(r.Before) > 0 && bytes.Compare(key, r.Before) >= 0 {
		return false
	}
	n := len(p.page.Entries)
	p.page.More = n == r.Limit || n > 0 && p.bytes+len(key)+value > MaxPageBytes
	return !p.page.More
}

// Add puts a copy of an entry on the page.
func (p *Pager) Add(key, value []byte, revision Revision) {
	size := len(key) + len(value)
	if size > len(p.free) {
		// Entries share an allocation, which grows with the page.
		p.free = make([]byte, max(size, min(2*p.bytes, sharedMax)))
	}
	p.page.Entries = append(p.page.Entries, entryIn(p.free[:size:size], key, value, revision))
	p.free = p.free[size:]
	p.bytes += size
}

// sharedMax bounds how much memory an entry may keep alive beside its own, in
// bytes.
const sharedMax = 8 << 10

// Page returns the page.
func (p *Pager) Page() Page { return p.page }

// Broken ends the page before an entry that can't be read: err is that entry's,
// and the answer if the page would begin with it.
func (p *Pager) Broken(err error) (Page, error) {
	if len(p.page.Entries) == 0 {
		return Page{}, err
	}
	p.page.More = true
	return p.page, nil
}

// NewEntry returns an entry with copies of key and value.
func NewEntry(key, value []byte, revision Revision) Entry {
	return entryIn(make([]byte, len(key)+len(value)), key, value, revision)
}

// entryIn copies key and value into both. Each half is capped, so that an
// append to it leaves the other alone.
func entryIn(both, key, value []byte, revision Revision) Entry {
	k := copy(both, key)
	copy(both[k:], value)
	return Entry{Key: both[:k:k], Value: both[k:], Revision: revision}
}
