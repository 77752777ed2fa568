package handles

import "strings"

// Error returns the message and, a line each, how it came to it.
func (f *Failure) Error() string {
	return strings.Join(append([]string{f.Message}, f.Trace...), "\n")
}
