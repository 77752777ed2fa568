package kvstore

// Immediate is implemented by an engine whose calls never wait: not for a
// disk, nor a network, nor another process. They are made where they are
// needed. Calls to any other engine are bounded, and one that doesn't return
// is left behind in a goroutine of its own.
type Immediate interface {
	Store
	// Immediate is a mark, and does nothing.
	Immediate()
}
