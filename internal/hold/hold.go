// Package hold lets a public type carry a value that only this module's own
// packages can take out. So a package that users see stays small, and the
// runner still reaches what lies behind it: without an exported accessor, and
// without an init that would tie the packages together.
//
// The public type embeds a [Handle]. The method that gives the value away is
// not exported, so no user can call it, and [Of] is in an internal package.
package hold

// Handle carries a value. It is made once, and never changed.
type Handle[T any] struct{ value T }

// New returns a handle on value.
func New[T any](value T) Handle[T] { return Handle[T]{value} }

func (h Handle[T]) held() T { return h.value }

// Holder is any type that embeds a [Handle] of T.
type Holder[T any] interface{ held() T }

// Of returns what h carries.
func Of[T any](h Holder[T]) T { return h.held() }
