package runner

import (
	"slices"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
)

// reading is what a drive has read of its session beside the head: the history,
// and the open turn. It is good until others commit.
//
// The goroutine that drives owns it. An attempt gets what it needs of it when
// it is made, and sees no later change.
type reading struct {
	*subject
	*committer
	history []llm.Message  // nil: not loaded
	stored  past           // what the history begins with, as it is stored
	rides   int            // bytes of the messages after those, about
	asked   []llm.ToolCall // the open turn's calls; nil: not loaded
	turn    *turnFacts
	// Noticed is, by their sessions, how much of handles' content notices of the
	// history have come to.
	noticed map[string]int
	copied  []session.Call // what calls returns
	epoch   int            // of the head that those are of
}

// turnFacts are what attempts need to know of the open turn. They are not
// changed once an attempt has them.
type turnFacts struct {
	number int
	asked  time.Time
	// Signer is for the turn's tokens. A layer or a prompt may want one,
	// although no tool of the turn may pause.
	signer signer
	opened bool // by this drive, so it knows all that has run of the turn
}

// forget drops what was read.
func (r *reading) forget() { r.history, r.asked, r.noticed, r.rides = nil, nil, nil, 0 }

// calls copies the calls of the open turn. The copy is good until it is made
// again. Ending reports whether the run is being ended.
func (r *reading) calls() (open []session.Call, ending bool) {
	r.lease.View(func(st *session.State) {
		r.copied = append(r.copied[:0], st.Calls...)
		r.epoch, ending = st.Epoch, st.Ending != nil
	})
	return r.copied, ending
}

// placeOf returns the place of a call in the open turn.
func (r *reading) placeOf(call string) int {
	return slices.IndexFunc(r.asked, func(c llm.ToolCall) bool { return c.ID == call })
}

// loadHistory loads the history, if it isn't loaded. While a drive rests, with its
// lease given up, a message of the user's may be stored without it.
func (r *reading) loadHistory() (err error) {
	var st session.State // only its counts: the rest may change while bodies run
	r.lease.View(func(s *session.State) {
		st = session.State{ID: s.ID, Generation: s.Generation, Messages: s.Messages,
			Created: s.Created}
	})
	if r.history != nil && len(r.history) == st.Messages {
		return nil
	}
	known := r.stored
	if !known.of(&st) {
		known = r.rn.histories.take(&st)
	}
	rest, bytes, err := r.rn.store.SizedHistory(r.waiting, &st, len(known.messages))
	if err == nil {
		r.history, r.rides = append(known.messages, rest...), 0
		if r.history == nil {
			r.history = rest // loaded, and empty
		}
		r.stored = past{st.Generation, st.Created, r.history, known.bytes + bytes}
	}
	return err
}

// append appends a message to the history, if that is loaded. It rides until
// allStored is called. E is nil for a message that was queued: its entry was
// encoded by another drive.
func (r *reading) append(m llm.Message, e *session.Entry) {
	if r.history == nil {
		return
	}
	size := e.Size()
	if size == 0 {
		encoded, _ := m.AppendJSON(nil) // it was encoded before
		size = len(encoded)
	}
	r.history, r.rides = append(r.history, m), r.rides+size
}

// allStored notes that a commit has stored all of the history. If something of it
// rode and was dropped, since another commit came first, the head has fewer
// messages, and the drive is about to start over.
func (r *reading) allStored() {
	stored := 0
	r.lease.View(func(st *session.State) { stored = st.Messages })
	if r.history != nil && len(r.history) == stored {
		r.stored.messages, r.stored.bytes = r.history, r.stored.bytes+r.rides
		r.rides = 0
	}
}

// keep leaves what is stored of the history to the session's next drive.
func (r *reading) keep() {
	p := r.stored
	p.messages = p.messages[:len(p.messages):len(p.messages)] // what rode may be shown yet
	if len(r.history) == len(p.messages) {
		p.messages = r.history
	}
	r.rn.histories.put(r.session, p)
}

// loadTurn loads what is needed of the open turn, if the turn was not opened by
// this drive.
func (r *reading) loadTurn() error {
	if r.asked != nil {
		return nil
	}
	asked, err := r.rn.store.Asked(r.waiting, r.lease.State())
	if err != nil {
		return err
	}
	return r.opened(asked, false)
}

// opened notes the calls of the open turn, and whether this drive has opened
// it. Without a key to sign tokens with it is an error, and no body or layer is
// entered.
func (r *reading) opened(asked []llm.ToolCall, here bool) error {
	f := &turnFacts{opened: here}
	key := 0
	r.lease.View(func(st *session.State) {
		f.number, f.asked, key = st.Turn, st.Asked, st.TokenKey
	})
	var err error
	if f.signer, err = r.rn.ring.signer(r.waiting, key); err != nil {
		return err
	}
	r.asked, r.turn = asked, f
	return nil
}

// closed notes that the open turn was closed with a message of results.
func (r *reading) closed(m llm.Message, e *session.Entry) {
	r.asked = nil
	r.append(m, e)
}
