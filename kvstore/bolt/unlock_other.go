//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package bolt

import "os"

// unlock does nothing: to close the file is enough.
func unlock(*os.File) {}
