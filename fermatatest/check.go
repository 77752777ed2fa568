package fermatatest

import (
	"maps"
	"slices"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/tool"
)

// compare holds a history that was cut in some way against the uncut one. It
// reports whether a call's outcome remained unknown.
func (h *history) compare(got *account) (unknown bool) {
	want := h.uncut
	exempt := h.exempt(got)
	for place := range exempt {
		unknown = unknown || got.calls[place].status != want.calls[place].status
	}
	diverged := h.compareTranscripts(got, exempt)
	if diverged {
		return unknown
	}
	for text := range got.errors {
		if !want.errors[text] {
			h.violation("a run ended with an error, unlike in the uncut history: %s", text)
		}
	}
	for at := range both(got.rests, want.rests) {
		if got.rests[at] != want.rests[at] {
			h.violation("%s is left so: %q; in the uncut history: %q", at, got.rests[at],
				want.rests[at])
		}
	}
	for at := range both(got.used, want.used) {
		if got.used[at] != want.used[at] && len(exempt) == 0 && !h.way.interrupts {
			h.violation("the run of %s has used %s; in the uncut history: %s", at, got.used[at],
				want.used[at])
		}
	}
	for _, place := range slices.Sorted(maps.Keys(want.calls)) {
		h.compareCalls(place, got.calls[place], want.calls[place], exempt[place], h.way.exact)
	}
	return unknown
}

// exempt returns the calls that needn't have come to the same end: those that
// were lost, or were cancelled and may have begun; and, where bodies were
// interrupted, those that ran beside them, and may have waited for them.
func (h *history) exempt(got *account) map[string]bool {
	type turn struct {
		above  string
		number int
	}
	exempt, interrupted := map[string]bool{}, map[turn]bool{}
	for place, c := range got.calls {
		uncut, there := h.uncut.calls[place]
		cancelled := c.status == event.Cancelled && (h.blurred[c.id] || h.way.interrupts)
		// Below the root a fault ends a drive of which the life isn't told.
		lost := h.lost[c.id] || c.above != "" && h.way.interrupts && c.status == event.Unknown
		if there && (lost || cancelled) {
			exempt[place] = true
			if h.way.interrupts && uncut.status != event.Cancelled {
				interrupted[turn{c.above, c.turn}] = true
			}
			for h.s.Diverges && c.above != "" { // what a session does is its call's end
				exempt[c.above] = true
				c = got.calls[c.above]
			}
		}
	}
	some := len(exempt) > 0
	for place, c := range got.calls {
		// What acts on handles tells how those came to their end.
		if interrupted[turn{c.above, c.turn}] || some && c.acts {
			exempt[place] = true
		}
	}
	return exempt
}

// compareTranscripts compares those of all sessions. It reports whether one of
// them diverged, as the scenario lets it. Then those that its later turns have
// made are others, too.
func (h *history) compareTranscripts(got *account, exempt map[string]bool) (any bool) {
	all := both(got.transcripts, h.uncut.transcripts)
	diverged := map[string]int{} // the first turn with an exempt call
	for at := range all {
		for _, ln := range got.transcripts[at] {
			if h.s.Diverges && exempt[ln.call] {
				diverged[at], any = ln.turn, true
				break
			}
		}
	}
	for at := range all {
		if !h.followsFrom(at, got, diverged) {
			h.compareTranscript(at, got.transcripts[at], h.uncut.transcripts[at], exempt, diverged[at])
		}
	}
	return any
}

// followsFrom reports whether a session was made by a turn that came after one
// in which its session diverged.
func (h *history) followsFrom(at string, got *account, diverged map[string]int) bool {
	for above := callOf(at); above != ""; {
		c, there := got.calls[above]
		if !there {
			c = h.uncut.calls[above]
		}
		if turn := diverged[sessionBelow(c.above)]; turn > 0 && c.turn > turn {
			return true
		}
		above = c.above
	}
	return false
}

func (h *history) compareTranscript(
	at string, got, want []line, exempt map[string]bool, diverged int,
) {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			h.violation("the transcript of %s ends early; in the uncut history there follows %s",
				at, want[i].text)
			return
		case diverged > 0 && (got[i].turn > diverged || i >= len(want)):
			return
		case diverged > 0 && want[i].turn > diverged && got[i].notice:
			return // the model is told of what was lost before it goes on
		case i >= len(want):
			h.violation("the transcript of %s goes on, unlike in the uncut history, with %s",
				at, got[i].text)
			return
		case got[i].text != want[i].text && !(exempt[got[i].call] && got[i].call == want[i].call):
			h.violation("the transcript of %s has %s; in the uncut history: %s",
				at, got[i].text, want[i].text)
			return
		}
	}
}

// both returns the keys of both maps.
func both[V any](a, b map[string]V) map[string]bool {
	keys := map[string]bool{}
	for k := range a {
		keys[k] = true
	}
	for k := range b {
		keys[k] = true
	}
	return keys
}

// compareCalls holds one call against the same one in the uncut history. If
// exact, its body may not have been entered more often. Of effect once it is
// entered once for each answer, and once more for each time that an operator
// states that an entry did not happen.
func (h *history) compareCalls(place string, got, want callAccount, exempt, exact bool) {
	if !exempt && got.summary != want.summary {
		h.violation("%s: %s; in the uncut history: %s", place, got.summary, want.summary)
	}
	if !exempt && !got.shifted && got.pauses != want.pauses {
		h.violation("%s: it has paused %d times; in the uncut history: %d times", place, got.pauses,
			want.pauses)
	}
	once := want.effect == tool.Once
	for key, n := range got.entries {
		if want.entries[key] == 0 && !got.shifted {
			h.violation("%s: the body was entered with key %s, unlike in the uncut history",
				place, key)
		}
		if n > 1+got.again && once || exact && n > want.entries[key] {
			h.violation("%s: the body was entered %d times with key %s; its effect is %q",
				place, n, key, want.effect)
		}
	}
	for key := range want.entries {
		if got.entries[key] == 0 && !exempt && !got.shifted {
			h.violation("%s: the body was never entered with key %s, unlike in the uncut history",
				place, key)
		}
	}
}
