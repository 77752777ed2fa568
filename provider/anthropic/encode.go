package anthropic

import (
	"bytes"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
)

// encode returns the request's JSON. The SDK escapes <, > and & everywhere,
// also within what is to be replayed byte for byte; here they come back. White
// space between values is gone, too, which the API doesn't send within a block.
func encode(p sdk.MessageNewParams) ([]byte, error) {
	b, err := p.MarshalJSON()
	if err != nil {
		return nil, err
	}
	out := b[:0] // what is written is never longer than what was read
	for {
		i := bytes.IndexByte(b, '\\')
		if i < 0 || i+1 == len(b) {
			return append(out, b...), nil
		}
		out = append(out, b[:i]...)
		b = b[i:]
		n := 2 // an escape, and as far as this goes, \uXXXX too
		switch {
		case bytes.HasPrefix(b, []byte(`\u003c`)):
			out, n = append(out, '<'), 6
		case bytes.HasPrefix(b, []byte(`\u003e`)):
			out, n = append(out, '>'), 6
		case bytes.HasPrefix(b, []byte(`\u0026`)):
			out, n = append(out, '&'), 6
		default:
			out = append(out, b[:n]...)
		}
		b = b[n:]
	}
}
