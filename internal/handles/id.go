package handles

import (
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/internal/excerpt"
)

// MaxID is how many characters the id of a handle has at most.
const MaxID = 64

const (
	idPattern = "^[!-~]{1,64}$"
	idWords   = "1 to 64 letters, digits and signs of ASCII, without spaces"
)

// CheckID returns what is wrong with the id of a handle. An id is ASCII, so
// that two of them can't look alike, and a byte is a character.
func CheckID(id string) error {
	switch n := len(id); {
	case n == 0:
		return errors.New("it is empty; an id has " + idWords)
	case n > MaxID:
		return fmt.Errorf("it has %d bytes; an id has %s", n, idWords)
	}
	for _, r := range id {
		if r < '!' || r > '~' {
			return fmt.Errorf("it has the character %q; an id has %s", excerpt.Of(string(r)),
				idWords)
		}
	}
	return nil
}
