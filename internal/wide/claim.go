package wide

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// Claim is that of a pause of a call on a permit.
type Claim struct {
	Session  string `json:"session"`
	Call     string `json:"call"`
	Pause    int    `json:"pause"`
	Priority int    `json:"priority,omitzero"` // the greater is the first
	Number   int    `json:"n,omitzero"`        // its place among those that had to wait
	Given    bool   `json:"given,omitzero"`    // the call has it

	Rest strictjson.Rest `json:"-"` // of a later version
}

func (c *Claim) check() error {
	if c.Session == "" || c.Call == "" || c.Pause < 1 || !c.Given && c.Number < 1 {
		return errIncomplete
	}
	return nil
}

// place is what the claim is of, as one part of a key.
func (c *Claim) place() string {
	return c.Session + " " + c.Call + "." + strconv.Itoa(c.Pause)
}

func (c *Claim) key(id ID) []byte { return claimKey(id, c.place()) }

func claimKey(id ID, place string) []byte { return kvstore.Key(kind, "h", id.Scope, id.Name, place) }

func claimsPrefix(id ID) []byte { return kvstore.Key(kind, "h", id.Scope, id.Name) }

func (c *Claim) givenKey(id ID) []byte {
	return kvstore.Key(kind, "g", id.Scope, id.Name, c.place())
}

func givenPrefix(id ID) []byte { return kvstore.Key(kind, "g", id.Scope, id.Name) }

func queuePrefix(id ID) []byte { return kvstore.Key(kind, "q", id.Scope, id.Name) }

// queueKey is the place of a claim that waits: by priority, then in order.
func (c *Claim) queueKey(id ID) []byte {
	priority := min(max(c.Priority, -tool.MaxPriority), tool.MaxPriority)
	return kvstore.Key(kind, "q", id.Scope, id.Name, fmt.Sprintf("%04d", tool.MaxPriority-priority),
		fmt.Sprintf("%014d", c.Number))
}

func (c *Claim) liesAt(key []byte) bool {
	parts, err := kvstore.Parts(key)
	return err == nil && len(parts) == 5 && strings.HasPrefix(parts[4], c.Session+" ") &&
		parts[4] == c.place()
}
