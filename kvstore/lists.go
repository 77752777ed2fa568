package kvstore

import "slices"

// Enlist puts a name on a list. Once there, it is put there no second time.
func (l *Local) Enlist(list, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, found := slices.BinarySearch(l.lists[list], name); !found {
		l.lists[list] = slices.Insert(l.lists[list], at, name)
	}
}

// Strike takes a name off a list.
func (l *Local) Strike(list, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, found := slices.BinarySearch(l.lists[list], name)
	switch {
	case !found:
	case len(l.lists[list]) == 1:
		delete(l.lists, list)
	default:
		l.lists[list] = slices.Delete(l.lists[list], at, at+1)
	}
}

// IsListed reports whether a name is on a list.
func (l *Local) IsListed(list, name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, found := slices.BinarySearch(l.lists[list], name)
	return found
}

// Listed returns the names on a list that come after the given one, in order,
// and limit of them at most.
func (l *Local) Listed(list, after string, limit int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := l.lists[list]
	at, found := slices.BinarySearch(names, after)
	if found {
		at++
	}
	return slices.Clone(names[at:min(len(names), at+limit)])
}
