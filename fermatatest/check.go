package fermatatest

import (
	"maps"
	"slices"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/tool"
)

// compare holds a history against the uncut one. Exact says that no body may have been entered more often than there. It says
// whether a call's outcome remained unknown.
func (h *history) compare(got *account, exact bool) (unknown bool) {
	want := h.uncut
	exempt := map[string]bool{}
	diverged := 0 // the first turn with an exempt call
	for place, c := range got.calls {
		uncut, there := want.calls[place]
		open := c.status == event.Unknown || c.status == event.Cancelled && uncut.effect != tool.Once || c.by == "operator"
		if there && h.lost[c.id] && open {
			exempt[place] = true
			unknown = unknown || c.status != uncut.status
		}
	}
	for _, ln := range got.transcript {
		if exempt[ln.call] && diverged == 0 {
			diverged = ln.turn
		}
	}
	if !h.s.Diverges {
		diverged = 0
	}
	h.compareTranscripts(got.transcript, want.transcript, exempt, diverged)
	if diverged > 0 {
		return unknown
	}
	for text := range got.errors {
		if !want.errors[text] {
			h.violation("a run ended with an error, unlike in the uncut history: %s", text)
		}
	}
	if got.rest != want.rest {
		h.violation("the session is left so: %s; in the uncut history: %s", got.rest, want.rest)
	}
	for _, place := range slices.Sorted(maps.Keys(want.calls)) {
		h.compareCalls(place, got.calls[place], want.calls[place], exempt[place], exact)
	}
	return unknown
}

func (h *history) compareTranscripts(got, want []line, exempt map[string]bool, diverged int) {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			h.violation("the transcript ends early; in the uncut history there follows %s", want[i].text)
			return
		case diverged > 0 && got[i].turn > diverged:
			return
		case i >= len(want):
			h.violation("the transcript goes on, unlike in the uncut history, with %s", got[i].text)
			return
		case got[i].text != want[i].text && !(exempt[got[i].call] && got[i].call == want[i].call):
			h.violation("the transcript has %s; in the uncut history: %s", got[i].text, want[i].text)
			return
		}
	}
}

// compareCalls holds one call against itself.
func (h *history) compareCalls(place string, got, want callAccount, exempt, exact bool) {
	if !exempt && got.summary != want.summary {
		h.violation("%s: %s; in the uncut history: %s", place, got.summary, want.summary)
	}
	once := want.effect == tool.Once
	for key, n := range got.entries {
		if want.entries[key] == 0 {
			h.violation("%s: the body was entered with key %s, unlike in the uncut history", place, key)
		}
		if n > 1 && once || exact && n > want.entries[key] {
			h.violation("%s: the body was entered %d times with key %s; its effect is %q", place, n, key, want.effect)
		}
	}
	for key := range want.entries {
		if got.entries[key] == 0 && !exempt {
			h.violation("%s: the body was never entered with key %s, unlike in the uncut history", place, key)
		}
	}
}
