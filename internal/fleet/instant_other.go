//go:build !linux

package fleet

import "time"

// now returns the time by the machine's wall clock: the monotonic one is not to
// be had from the standard library here, and is each process's own.
func now() instant { return instant(time.Now().UnixNano()) }
