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
// first time, one that has its result, and the end: "7.p1s~9f3c". A head holds
// no number that counts events, and none is needed: by the place a follower
// tells what is new from any later head.
type place struct {
	number int
	turn   []sight
	rest   string // of the event.End that was shown last, while the session rests
}

// String returns the place as a cursor.
func (p *place) String() string {
	var b strings.Builder
	b.WriteString(strconv.Itoa(p.number))
	if n := p.shown(); n > 0 {
		b.WriteByte('.')
		for _, s := range p.turn[:n] {
			switch {
			case s.settled != "":
				b.WriteByte('s')
			case s.parked:
				b.WriteByte('k')
			case s.pause > 0:
				b.WriteByte('p')
				b.WriteString(strconv.Itoa(s.pause))
			default:
				b.WriteByte('-')
			}
		}
	}
	if p.rest != "" {
		b.WriteByte('~')
		b.WriteString(p.rest)
	}
	return b.String()
}

// shown counts the calls up to the last of which something was shown.
func (p *place) shown() int {
	// What comes of calls beyond the limit is shown again.
	for n := min(len(p.turn), agentcore.MaxCalls); n > 0; n-- {
		if p.turn[n-1] != (sight{}) {
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
		var s sight
		kind := turn[0]
		turn = turn[1:]
		switch kind {
		case 's':
			s.settled = event.Done
		case 'k':
			s.parked = true
		case 'p':
			digits := len(turn) - len(strings.TrimLeft(turn, "0123456789"))
			s.pause, err = strconv.Atoi(turn[:digits])
			wrong = err != nil || s.pause == 0
			turn = turn[digits:]
		case '-':
		default:
			wrong = true
		}
		p.turn = append(p.turn, s)
		wrong = wrong || len(p.turn) > agentcore.MaxCalls
	}
	if wrong {
		return place{}, fmt.Errorf("%w: %.40q", ErrInvalidCursor, cursor)
	}
	return p, nil
}

// saw notes what is shown of a call of the turn.
func (p *place) saw(i int, s sight) {
	for len(p.turn) <= i {
		p.turn = append(p.turn, sight{})
	}
	p.turn[i], p.rest = s, ""
}

// sees reports whether the place has what a head tells of a call.
func (p *place) sees(i int, c *session.Call) bool {
	s, was := sightOf(c), sight{}
	if i < len(p.turn) {
		was = p.turn[i]
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
