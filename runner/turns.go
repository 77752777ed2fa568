package runner

import "slices"

// turns is a line in which users take turns, however much waits for each. What
// waits for one user stays in order. The zero value is empty. It has no lock.
type turns[T any] struct {
	of    map[string][]T // by user; none is empty
	order []string       // of the users, the next one first
}

// add puts v at the end of what waits for a user.
func (t *turns[T]) add(user string, v T) {
	if t.of == nil {
		t.of = map[string][]T{}
	}
	if len(t.of[user]) == 0 {
		t.order = append(t.order, user)
	}
	t.of[user] = append(t.of[user], v)
}

// first returns what is next; false: nothing is.
func (t *turns[T]) first() (v T, ok bool) {
	if len(t.order) == 0 {
		return v, false
	}
	return t.of[t.order[0]][0], true
}

// pop takes what is next away. The turn of its user is over.
func (t *turns[T]) pop() {
	user := t.order[0]
	t.order = slices.Delete(t.order, 0, 1)
	if left := t.of[user][1:]; len(left) > 0 {
		t.of[user], t.order = left, append(t.order, user)
		return
	}
	delete(t.of, user)
}

// skip has the user wait whose turn it is, until all others had theirs.
func (t *turns[T]) skip() { t.order = append(t.order[1:], t.order[0]) }

// drop takes away what waits for a user and for which gone reports true.
func (t *turns[T]) drop(user string, gone func(T) bool) {
	left := slices.DeleteFunc(t.of[user], gone)
	if len(left) > 0 {
		t.of[user] = left
		return
	}
	delete(t.of, user)
	t.order = slices.DeleteFunc(t.order, func(u string) bool { return u == user })
}
