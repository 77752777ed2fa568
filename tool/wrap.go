package tool

// maxWrappers bounds how deep As looks: a chain longer than that is a cycle.
const maxWrappers = 100

// As finds the first of t and the tools it wraps that is a T. T is an interface
// or a concrete tool type.
func As[T any](t Tool) (T, bool) {
	for range maxWrappers {
		if found, ok := t.(T); ok {
			return found, true
		}
		u, ok := t.(Unwrapper)
		if !ok {
			break
		}
		t = u.Unwrap()
	}
	var none T
	return none, false
}
