package wire

import (
	"fmt"
	"io"
	"net/http"

	"github.com/fermata-ai/fermata/llm"
)

// MaxWhole is how many bytes of a message that comes at once are read. Images
// come within one.
const MaxWhole = 64 << 20

// maxError is how many bytes of an error are read. The SDKs read them to their
// end.
const maxError = 1 << 20

// ReadWhole reads a message that comes at once. One that goes over [MaxWhole]
// is an [*llm.Error] of kind [llm.ErrTooLong]: without a bound, an answer that
// has no end would fill the memory.
func ReadWhole(provider string, r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxWhole+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > MaxWhole:
		return nil, TooLong(provider)
	}
	return data, nil
}

// TooLong returns the error of a message that goes over [MaxWhole].
func TooLong(provider string) error {
	return &llm.Error{Kind: llm.ErrTooLong, Provider: provider,
		Err: fmt.Errorf("the answer has more than %d MiB, and is read no further", MaxWhole>>20)}
}

// boundError cuts an answer that is an error off.
func boundError(res *http.Response) {
	if res.StatusCode/100 != 2 {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, maxError), res.Body}
	}
}
