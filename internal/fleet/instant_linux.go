package fleet

import (
	"syscall"
	"unsafe"
)

// now returns the time by CLOCK_MONOTONIC.
func now() instant {
	const monotonic = 1
	var t syscall.Timespec
	_, _, failed := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, monotonic,
		uintptr(unsafe.Pointer(&t)), 0)
	if failed != 0 {
		panic(failed)
	}
	return instant(t.Nano())
}
