package fakellm

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/fermata-ai/fermata/llm"
)

// ErrUsedUp is the error of a script that has no turn for a request.
var ErrUsedUp = errors.New("the script is used up")

// script is a list of turns, and its branches.
type script struct {
	name     string
	turns    []Turn
	branches []*script
	match    func(llm.Request) bool // nil for the whole script
}

func newScript(name string, turns []Turn) *script {
	s := &script{name: name}
	for _, t := range turns {
		if t.branch == nil {
			s.turns = append(s.turns, t)
			continue
		}
		b := newScript(fmt.Sprintf("branch %d of %s", len(s.branches), name), t.branch)
		b.match = t.match
		s.branches = append(s.branches, b)
	}
	return s
}

// at finds turn n, and the failing turns that stand before it.
func (s *script) at(n int) (failing []Turn, turn Turn, ok bool) {
	before := 0 // turns before this one
	for _, t := range s.turns {
		if t.broken {
			failing = append(failing, t)
			continue
		}
		if t.times() == forever || n < before+t.times() {
			if n > before {
				failing = nil // they spoiled the first repetition
			}
			return failing, t, true
		}
		if t.times() > 0 {
			before += t.times()
			failing = nil
		}
	}
	if n > before {
		failing = nil
	}
	return failing, Turn{}, false
}

// length returns how many turns the script has, repetitions included.
func (s *script) length() int {
	n := 0
	for _, t := range s.turns {
		if !t.broken {
			n += t.times()
		}
	}
	return n
}

// owner returns the script that answers a request: s, or a branch.
func (s *script) owner(req llm.Request) *script {
	for _, b := range s.branches {
		if b.match(req) {
			return b.owner(req)
		}
	}
	return s
}

// place is where in which script a request is.
type place struct {
	script *script
	number int
}

// place reads a request's place off its history.
func (s *script) place(req llm.Request) place {
	p := place{script: s.owner(req)}
	for i, m := range req.Messages {
		switch {
		case m.Role == llm.RoleUser && p.script != s:
			p.number = 0
		case m.Role == llm.RoleAssistant:
			before := req
			before.Messages = req.Messages[:i:i]
			if s.owner(before) == p.script {
				p.number++
			}
		}
	}
	return p
}

func (p place) usedUp(req llm.Request) error {
	at := around(req, len(req.Messages)-1, whole)
	if p.script.length() == 0 && len(p.script.branches) > 0 {
		return fmt.Errorf("%w: no When of %s matches the request, and there are no turns beside them%s",
			ErrUsedUp, p.script.name, at)
	}
	counted := "assistant messages in the history"
	if p.script.match != nil {
		counted = "assistant messages of its own since the user's last message"
	} else if len(p.script.branches) > 0 {
		counted += " that are no branch's"
	}
	return fmt.Errorf("%w: turn %d of %s is asked for, counted from 0, and it has %d in all (%s: %d)%s",
		ErrUsedUp, p.number, p.script.name, p.script.length(), counted, p.number, at)
}

// digest tells requests apart by what they say, and by the session that the
// runner names.
func digest(req llm.Request) string {
	b := []byte(req.Metadata["session"])
	for _, m := range req.Messages {
		b = append(b, 0)
		b, _ = m.AppendJSON(b) // checked before
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// UserSays matches requests in which the user's last message holds text.
func UserSays(text string) func(llm.Request) bool {
	return func(req llm.Request) bool { return strings.Contains(LastUserText(req), text) }
}
