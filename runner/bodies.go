package runner

import "github.com/fermata-ai/fermata/internal/session"

// bodies are the attempts that the loop has started at calls of the open turn,
// the last of each call, linked by next. A layer may return while its call is
// being claimed, or be given up then: from what stands here the loop knows a
// claim by which no body was entered. Only the loop's goroutine uses it.
type bodies struct{ first *body }

// add puts an attempt in the place of the last one at its call.
func (bs *bodies) add(b *body) {
	for at := &bs.first; *at != nil; at = &(*at).next {
		if (*at).c.ID == b.c.ID {
			*at = (*at).next
			break
		}
	}
	b.next, bs.first = bs.first, b
}

// shut returns the attempt at a call by which the tool's body was not entered,
// and no longer can be; nil: there is none.
func (bs *bodies) shut(call string) *body {
	for b := bs.first; b != nil; b = b.next {
		if b.c.ID != call {
			continue
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.entered {
			return nil
		}
		b.over = true
		return b
	}
	return nil
}

// unclaims returns what takes back the claims that are under way, or stand, of
// attempts whose layers have returned without having entered the body.
func (bs *bodies) unclaims() (ts []session.Transition) {
	for b := bs.first; b != nil; b = b.next {
		b.mu.Lock()
		if b.over && b.claimed && !b.entered && b.c.Effect.NeedsClaim() {
			ts = append(ts, b.unclaim)
		}
		b.mu.Unlock()
	}
	return ts
}
