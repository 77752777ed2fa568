package runner

import (
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/event"
)

// speech is what the model is saying in a session. It is kept whole until the
// message is committed or given up. So a follower needs no queue of deltas: it
// knows how far it has come, and takes the rest whenever it comes to it. A slow
// one gets longer deltas, and none holds the drive.
type speech struct {
	fence  int64 // of the drive
	call   int   // of the model: counts those of the process
	number int   // that the message will have
	goesOn bool
	kept   bool   // it is committed, if it doesn't go on
	text   []byte // whole characters
	broken string // the first bytes of one
	pieces []piece
}

// piece is a part of what is said that is all text, or all reasoning.
type piece struct {
	reasoning bool
	end       int // in the text of the speech
}

func (s *speech) end(kept bool) {
	s.goesOn, s.kept, s.text, s.broken, s.pieces = false, kept, nil, "", nil
}

// add adds whole characters.
func (s *speech) add(reasoning bool, text string) {
	s.text = append(s.text, text...)
	if n := len(s.pieces); n > 0 && s.pieces[n-1].reasoning == reasoning {
		s.pieces[n-1].end = len(s.text)
	} else {
		s.pieces = append(s.pieces, piece{reasoning, len(s.text)})
	}
}

// from lists what was said from a byte on.
func (s *speech) from(at int) iter.Seq2[string, bool] {
	return func(yield func(said string, reasoning bool) bool) {
		for _, p := range s.pieces {
			if p.end > at {
				if !yield(string(s.text[at:p.end]), p.reasoning) {
					return
				}
				at = p.end
			}
		}
	}
}

// begins notes that the model is called for the message of that number. Call is
// greater than that of any call before it in the process.
func (f *feed) begins(fence int64, call, number int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = speech{fence: fence, call: call, number: number, goesOn: true}
}

// ends notes that the message is committed or, if not kept, given up.
func (f *feed) ends(kept bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.said.goesOn {
		return
	}
	f.said.end(kept)
	f.signal()
}

// say takes a delta. One that comes when the model is not speaking, from a turn
// layer that kept it back, is lost to followers.
func (f *feed) say(reasoning bool, delta string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.said
	if !s.goesOn || delta == "" {
		return
	}
	if s.broken != "" || !utf8.ValidString(delta) { // a character may come in pieces
		delta = s.broken + delta
		whole := wholeRunes(delta)
		delta, s.broken = strings.ToValidUTF8(whole, "\uFFFD"), delta[len(whole):]
	}
	if delta != "" {
		s.add(reasoning, delta)
		f.signal()
	}
}

// tap is where one follower takes what is in a feed. But for wake, the feed's
// lock guards it.
type tap struct {
	feed   *feed
	wake   chan struct{} // gets a value when there may be something new
	events []event.Event

	call   int  // of the speech that it takes
	number int  // that the message will have
	at     int  // how far it has taken it
	shown  bool // some of it was taken, and no message has come for it
}

// tap returns a tap of the feed, until it is closed.
func (f *feed) tap() *tap {
	t := &tap{feed: f, wake: make(chan struct{}, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taps[t] = struct{}{}
	return t
}

func (t *tap) close() {
	t.feed.mu.Lock()
	defer t.feed.mu.Unlock()
	delete(t.feed.taps, t)
}

func (t *tap) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// told returns what was queued.
func (t *tap) told() []event.Event {
	t.feed.mu.Lock()
	defer t.feed.mu.Unlock()
	return t.take()
}

func (t *tap) take() (events []event.Event) {
	events, t.events = t.events, nil
	for _, ev := range events {
		if _, voids := ev.(event.Retry); voids {
			t.shown = false
		}
	}
	return events
}

// heard returns what was queued, and what the model has said since the last
// time. Next is the number of the follower's next message: what is said of one
// that it has is no news. The two are taken at once: a Retry is about what was
// taken before it. If messages before those of the model's call that speaks are
// missing to the follower, nothing is taken, and ahead is the call; asked is the
// last one for which the follower has looked.
func (t *tap) heard(next, asked int) (events []event.Event, ahead int) {
	f := t.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.said
	if s.goesOn && s.number > next && s.call > asked {
		return nil, s.call
	}
	events = t.take()
	t.shown = t.shown && t.number >= next
	givenUp := t.call == s.call && !s.goesOn && !s.kept
	if t.shown && (givenUp || t.call != s.call && s.number <= t.number) { // what was said is void
		t.shown = false
		if !s.goesOn || len(s.text) == 0 {
			events = append(events, event.TextDelta{Start: true})
		}
	}
	if !s.goesOn || s.number < next {
		return events, 0
	}
	if t.call != s.call {
		t.call, t.number, t.at = s.call, s.number, 0
	}
	for said, reasoning := range s.from(t.at) {
		start := t.at == 0
		if t.at, t.shown = t.at+len(said), true; reasoning {
			events = append(events, event.ReasoningDelta{Delta: said, Start: start})
		} else {
			events = append(events, event.TextDelta{Delta: said, Start: start})
		}
	}
	return events, 0
}

// again notes that the receiver forgets what is said and not committed: it was
// shown a message of the model, or the end of a run.
func (t *tap) again() {
	t.feed.mu.Lock()
	defer t.feed.mu.Unlock()
	t.at, t.shown = 0, false
}

// wholeRunes returns what was said but for a character of which only the first
// bytes have come.
func wholeRunes(said string) string {
	for n := 1; n < utf8.UTFMax && n <= len(said); n++ {
		if utf8.RuneStart(said[len(said)-n]) {
			if !utf8.FullRuneInString(said[len(said)-n:]) {
				return said[:len(said)-n]
			}
			break
		}
	}
	return said
}
