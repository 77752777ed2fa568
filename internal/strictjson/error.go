package strictjson

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Error is where a text is not what it has to be, and why.
type Error struct {
	Offset  int    // in bytes; at or after it
	Pointer string // to the value that is wrong, or holds what is: a JSON Pointer (RFC 6901)
	Reason  string // of the caller's text alone; the words of a library may change
}

func (e *Error) Error() string {
	if e.Pointer == "" {
		return fmt.Sprintf("%s (at byte %d)", e.Reason, e.Offset)
	}
	return fmt.Sprintf("%s (at byte %d, in %.200s)", e.Reason, e.Offset, e.Pointer)
}

// decode calls read with a decoder of the text, which has to read one value,
// and fails if anything else follows it. The error is an [*Error].
func decode(text []byte, read func(*jsontext.Decoder) error) error {
	err := json.Unmarshal(text, (*reading)(&read), tolerant)
	if err == nil {
		return nil
	}
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	if not, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return &Error{int(not.ByteOffset), string(not.JSONPointer), syntax(not.Err)}
	}
	if other, ok := errors.AsType[*json.SemanticError](err); ok {
		return &Error{int(other.ByteOffset), string(other.JSONPointer), other.Error()}
	}
	return &Error{Reason: err.Error()}
}

// syntax returns an error of the decoder in words.
func syntax(err error) string {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return "the text ends too early"
	}
	return err.Error()
}

// reading lends json.Unmarshal's decoder, which is made once and used often.
type reading func(*jsontext.Decoder) error

// UnmarshalJSONFrom is for json.Unmarshal.
func (r *reading) UnmarshalJSONFrom(d *jsontext.Decoder) error { return (*r)(d) }

// fail returns an error at the value that the decoder has read last, or at the
// one that it stands before.
func fail(d *jsontext.Decoder, reason string, args ...any) error {
	return &Error{int(d.InputOffset()), string(d.StackPointer()), fmt.Sprintf(reason, args...)}
}
