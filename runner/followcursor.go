package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/agentcore"
	"github.com/fermata-ai/fermata/internal/session"
)

// ErrInvalidCursor refuses a cursor that no event of the session had.
var ErrInvalidCursor = errors.New("runner: the cursor is none of this session")

// place is how far a follower has come: the number of the next message, what it
// was shown of the calls of the turn before that, in call order, and of how the
// session rests.
//
// As a cursor that is, of 7 messages, a call that was shown to wait for the
// first time, one that has its result, and the end: "7.p1s~9f3c". A call of which
// two lists of what it made were shown, and three artifacts of the next one, has
// "m2a3" behind that. A head holds no number that counts events, and none is
// needed: by the place a follower tells what is new from any later head.
type place struct {
	number int
	turn   []glimpse
	rest   string // of the event.End that was shown last, since the last message
}

// glimpse is what a follower was shown of a call.
type glimpse struct {
	sight
	made      int // lists of what it made
	artifacts int // of the next list
}

// maxCursor is how long a cursor may get, see event.Cursor.
const maxCursor = 1 << 10

// String returns the place as a cursor.
func (p *place) String() string {
	var b strings.Builder
	b.WriteString(strconv.Itoa(p.number))
	if n := p.shown(); n > 0 {
		b.WriteByte('.')
		for _, s := range p.turn[:n] {
			if b.Len() > maxCursor-100 {
				break // what comes of the calls from here on is shown again
			}
			switch {
			case s.settled != "":
				b.WriteByte('s')
			case s.parked:
				b.WriteByte('k')
			case s.pause > 0:
				counted(&b, 'p', s.pause)
			default:
				b.WriteByte('-')
			}
			counted(&b, 'm', s.made)
			counted(&b, 'a', s.artifacts)
		}
	}
	if p.rest != "" {
		b.WriteByte('~')
		b.WriteString(p.rest)
	}
	return b.String()
}

func counted(b *strings.Builder, what byte, n int) {
	if n > 0 {
		b.WriteByte(what)
		b.WriteString(strconv.Itoa(n))
	}
}

// shown counts the calls up to the last of which something was shown.
func (p *place) shown() int {
	// What comes of calls beyond the limit is shown again.
	for n := min(len(p.turn), agentcore.MaxCalls); n > 0; n-- {
		if p.turn[n-1] != (glimpse{}) {
			return n
		}
	}
	return 0
}

// parsePlace reads a cursor. How a call has settled is not in it: that it has
// is final.
func parsePlace(cursor string) (p place, err error) {
	left, rest, rests := strings.Cut(cursor, "~")
	number, turn, _ := strings.Cut(left, ".")
	p.rest = rest
	p.number, err = strconv.Atoi(number)
	wrong := err != nil || p.number < 0 || rests && rest == "" || len(rest) > 16
	for turn != "" && !wrong {
		var s glimpse
		s, turn, wrong = parseGlimpse(turn)
		p.turn = append(p.turn, s)
		wrong = wrong || len(p.turn) > agentcore.MaxCalls
	}
	if wrong {
		return place{}, fmt.Errorf("%w: %.40q", ErrInvalidCursor, cursor)
	}
	return p, nil
}

// parseGlimpse reads what was shown of a call, which left begins with, and
// returns what is left then.
func parseGlimpse(left string) (s glimpse, _ string, wrong bool) {
	// count reads a number behind the letter that comes next.
	count := func() (n int) {
		digits := len(left) - 1 - len(strings.TrimLeft(left[1:], "0123456789"))
		n, err := strconv.Atoi(left[1 : 1+digits])
		wrong = wrong || err != nil || n == 0
		left = left[1+digits:]
		return n
	}
	switch left[0] {
	case 's':
		s.settled, left = event.Done, left[1:]
	case 'k':
		s.parked, left = true, left[1:]
	case 'p':
		s.pause = count()
	case '-':
		left = left[1:]
	default:
		wrong = true
	}
	if strings.HasPrefix(left, "m") {
		s.made = count()
	}
	if strings.HasPrefix(left, "a") {
		s.artifacts = count()
	}
	return s, left, wrong
}

// of returns what is noted of a call of the turn, to be changed.
func (p *place) of(i int) *glimpse {
	for len(p.turn) <= i {
		p.turn = append(p.turn, glimpse{})
	}
	return &p.turn[i]
}

// saw notes what is shown of a call of the turn.
func (p *place) saw(i int, s sight) {
	g := p.of(i)
	if g.sight = s; s.settled != "" { // all that it made was shown
		g.made, g.artifacts = 0, 0
	}
}

// sees reports whether the place has what a head tells of a call.
func (p *place) sees(i int, c *session.Call) bool {
	s, was := sightOf(c), sight{}
	if i < len(p.turn) {
		was = p.turn[i].sight
	}
	return s == (sight{}) || s == was || s.settled != "" && was.settled != ""
}

// passed notes that a message is shown.
func (p *place) passed() { *p = place{number: p.number + 1, turn: p.turn[:0]} }

// restOf names how a session rests, as a last event has it.
func restOf(st *session.State, end *event.End) string {
	h := fnv.New64a()
	waits := make([]string, 0, len(end.Pending)+len(end.Parked))
	for _, p := range end.Pending {
		waits = append(waits, p.ID)
	}
	for _, p := range end.Parked {
		waits = append(waits, p.Call+" "+p.Session)
	}
	_ = json.NewEncoder(h).Encode([]any{st.Messages, st.Halt, st.Ended, end.Finish, end.Why, waits,
		end.MorePending})
	return strconv.FormatUint(h.Sum64(), 36)
}
