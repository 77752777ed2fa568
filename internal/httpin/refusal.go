// Package httpin has what handlers share that take requests over HTTP from
// anyone: bodies that are bounded in size and time, rates by user and address,
// and refusals of what doesn't get to the runner. It knows nothing of what a
// request asks for. Package webhook makes problems of its refusals.
package httpin

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Refusal is why a request does not get to the runner. Detail is for its
// sender.
type Refusal struct {
	Code   string // of one of the problems that package webhook lists
	Detail string
}

// Refuse returns a refusal.
func Refuse(code, detail string) *Refusal { return &Refusal{code, detail} }

func (e *Refusal) Error() string { return "http: " + e.Detail }

// AsRefusal returns the refusal in err, nil if there is none.
func AsRefusal(err error) *Refusal {
	var e *Refusal
	errors.As(err, &e)
	return e
}

// Cut returns a text without what stands behind its first bytes, for answers and
// logs.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Limited refuses a request that is one too many.
type Limited struct {
	Of   string
	Wait time.Duration // until the next one is taken
}

func (e *Limited) Error() string {
	return fmt.Sprintf("http: there are too many requests of one %s; the next one is taken in %v",
		e.Of, e.Wait)
}
