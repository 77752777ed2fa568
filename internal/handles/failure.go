package handles

import (
	"errors"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/tool"
)

// The bounds of a trace that is kept.
const (
	maxTrace      = 40      // lines
	maxTraceWidth = 4 << 10 // bytes as JSON, of all
)

// Told returns what an error tells beside its text, to be kept; nil: nothing.
func Told(err error) *tool.HandleFailure {
	f, is := errors.AsType[*Failure](err)
	if !is || len(f.Trace) == 0 && !f.Transient {
		return nil
	}
	own := &tool.HandleFailure{Transient: f.Transient}
	for _, line := range f.Trace[:min(len(f.Trace), maxTrace)] {
		own.Trace = append(own.Trace, valid(line))
	}
	own.Trace = firstLines(own.Trace, maxTraceWidth)
	return own
}

// failureOf returns the failure that a handle stopped with. A trace that stands
// in the text as well is taken out of that.
func failureOf(text string, told *tool.HandleFailure) *Failure {
	f := &Failure{Message: text, Trace: []string{}}
	if told == nil {
		return f
	}
	f.Transient = told.Transient
	if len(told.Trace) > 0 {
		f.Trace = slices.Clone(told.Trace)
		f.Message = strings.Replace(text, "\n"+strings.Join(told.Trace, "\n"), "", 1)
	}
	return f
}

// Error returns the message and, a line each, how it came to it.
func (f *Failure) Error() string {
	return strings.Join(append([]string{f.Message}, f.Trace...), "\n")
}
