// Package waits is what models, tools and the runner say to each other about
// wait handles: the schemas that a model is told, the replies that it reads, and
// how the tools reach the runtime.
//
// Package tool/wait makes tools of it, and the runner is their [Host]. It stores
// nothing.
package waits

// Where things are:
//
//   - how tools reach the runtime: host.go
//   - what a model is told of the tools: specs.go, taskspecs.go
//   - what it reads: replies.go, listed.go, errors.go, words.go
//   - tasks, which are wait handles: tasks.go

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool"
)

// The bounds of a wait handle.
const (
	maxID       = 64      // bytes
	maxMetadata = 4 << 10 // bytes of JSON
	MaxProgress = 8 << 10 // bytes of JSON
)

const idWords = "1 to 64 letters, digits and signs of ASCII, without spaces"

// CheckID returns what is wrong with the id of a wait handle.
func CheckID(id string) error {
	switch n := len(id); {
	case n == 0:
		return errors.New("handleId is empty; an id has " + idWords)
	case n > maxID:
		return fmt.Errorf("handleId has %d bytes; an id has %s", n, idWords)
	}
	for _, r := range id {
		if r < '!' || r > '~' {
			return fmt.Errorf("handleId has the character %q; an id has %s",
				excerpt.Of(string(r)), idWords)
		}
	}
	return nil
}

// CheckMetadata returns what is wrong with a handle's metadata.
func CheckMetadata(raw []byte) error {
	if len(raw) > maxMetadata {
		return fmt.Errorf("metadata has %d bytes, at most %d are taken", len(raw), maxMetadata)
	}
	if len(raw) > 0 {
		if err := strictjson.Check(raw); err != nil {
			return fmt.Errorf("metadata: %w", err)
		}
	}
	return nil
}

// Known reports whether there is such a type.
func Known(t tool.WaitType) bool {
	return slices.Contains(tool.WaitTypes(), t)
}
