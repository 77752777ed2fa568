//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package bolt

import (
	"os"
	"syscall"
)

// unlock gives up the lock on a file that bbolt left locked. To close the file
// isn't enough here: it stays open, and locked, for as long as it is mapped.
func unlock(f *os.File) { syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
