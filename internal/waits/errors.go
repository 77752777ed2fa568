package waits

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool"
)

// Error is an error of a call as a model reads it:
// {"error": "what is wrong", "isError": true}.
type Error struct {
	Text string
	Err  error // that it stands for; may be nil
}

// Errorf returns an Error with these words.
func Errorf(format string, args ...any) *Error { return &Error{Text: fmt.Sprintf(format, args...)} }

func (e *Error) Error() string {
	b := append(strictjson.AppendString([]byte(`{"error":`), e.Text), `,"isError":true}`...)
	return string(b)
}

func (e *Error) Unwrap() error { return e.Err }

// UnknownError refuses an id that no handle has.
type UnknownError struct {
	ID    string
	Known []string // some ids that there are
	// Unlisted: the caller may not be told which there are.
	Unlisted bool
}

// maxKnown is how many ids are told.
const maxKnown = 20

func (e *UnknownError) Error() string {
	words := fmt.Sprintf("Wait handle %q not found.", excerpt.To(e.ID, maxID))
	if near, ok := schema.Nearest(e.ID, e.Known); ok {
		words += fmt.Sprintf(" Did you mean %q?", near)
	}
	switch n := len(e.Known); {
	case e.Unlisted:
		return words
	case n == 0:
		return words + " There are none: make one by create_wait_handle."
	case n > maxKnown:
		return words + " Some that there are: " + strings.Join(e.Known[:maxKnown], ", ") + "."
	}
	return words + " There are: " + strings.Join(e.Known, ", ") + "."
}

// DuplicateError refuses an id that a handle has already.
type DuplicateError struct {
	ID   string
	Tool string // it is no wait handle, but one of this tool; empty: a wait handle
}

func (e *DuplicateError) Error() string {
	if e.Tool != "" {
		return fmt.Sprintf("%q is a handle of %s, which goes on. Choose another id.",
			excerpt.To(e.ID, maxID), e.Tool)
	}
	return fmt.Sprintf("Wait handle %q exists already. Choose another id.", excerpt.To(e.ID, maxID))
}

// ConflictError refuses to end a handle that has ended in another way.
type ConflictError struct {
	First tool.Wait // as it ended
}

func (e *ConflictError) Error() string {
	w := &e.First
	words := fmt.Sprintf("Wait handle %q has ended already: %s", w.ID, w.Status)
	if !w.End.IsZero() {
		words += " at " + Time(w.End)
	}
	if w.Actor != "" {
		words += fmt.Sprintf(" by %q", excerpt.Of(w.Actor))
	}
	switch {
	case w.Status == tool.WaitCompleted:
		words += ", with the result " + excerpt.Of(string(w.Result))
	case w.Error != "":
		words += ", with the error " + fmt.Sprintf("%q", excerpt.Of(w.Error))
	}
	return words + ". Nothing was changed."
}

// InvalidError refuses what can't be done as it is asked for.
type InvalidError struct{ Err error }

func (e *InvalidError) Error() string {
	return "Nothing was done: " + strings.TrimRight(e.Err.Error(), ".") + "."
}

func (e *InvalidError) Unwrap() error { return e.Err }

// ForModel reports whether an error is one of those above, whose words are for
// the model.
func ForModel(err error) bool {
	return is[*Error](err) || is[*UnknownError](err) || is[*DuplicateError](err) ||
		is[*ConflictError](err) || is[*InvalidError](err)
}

// BadCursor refuses a cursor that no page of a list had.
func BadCursor(err error) error {
	return &Error{Text: "cursor is not the nextCursor of a page of this list.", Err: err}
}

func is[E error](err error) bool { _, ok := errors.AsType[E](err); return ok }
