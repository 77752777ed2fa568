package schema

import "strconv"

// Package gotype writes these into the schemas of Go types, and faults are
// explained by them.

// NilComment marks a schema that takes null for a nil slice or map. An error
// doesn't mention null: a program that makes it reads no errors, and a model
// that reads them should write a list.
const NilComment = "null is a nil slice or map"

// InNanoseconds describes a time.Duration. Its last word, in a description,
// marks one.
const (
	Nanoseconds   = "nanoseconds"
	InNanoseconds = "a duration in " + Nanoseconds
)

// The greatest floats, as encoding/json writes them. A number further from zero
// can't be decoded, but for a little that is rounded.
const (
	MaxFloat32 = "3.4028235e38"
	MaxFloat64 = "1.7976931348623157e308"
)

// IntegerBounds returns the least and the greatest integer of a size, in
// digits.
func IntegerBounds(signed bool, bits int) (least, most string) {
	if signed {
		return strconv.FormatInt(-1<<(bits-1), 10), strconv.FormatInt(1<<(bits-1)-1, 10)
	}
	return "0", strconv.FormatUint(^uint64(0)>>(64-bits), 10)
}
