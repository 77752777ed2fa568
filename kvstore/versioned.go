package kvstore

// Versioned is implemented by an engine that keeps what was deleted for a while,
// such as until the last transaction has ended that might still read it, of
// whatever program. No Scan returns it, but a Scan that passes over its place
// pays for it. So who deletes at the front of a range, and reads it again and
// again, begins where it found the first entry the last time, and looks at all
// of the range only now and then.
type Versioned interface {
	Store
	// Versioned is a mark, and does nothing.
	Versioned()
}
