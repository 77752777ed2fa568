package strictjson

// A value of a megabyte takes some dozen times that while it is parsed and
// validated. So large ones take turns, in the whole process: any number of
// senders may deliver such values at once, and the memory stays that of two.
const largeValue = 64 << 10

var turns = make(chan struct{}, 2)

// Turn waits until a value of that size may be worked on. The wait is bounded:
// a goroutine that has a turn parses and validates one value, which is bounded,
// and waits for nothing meanwhile but the validations before its own.
func Turn(size int) (done func()) {
	if size < largeValue {
		return func() {}
	}
	turns <- struct{}{}
	return func() { <-turns }
}
