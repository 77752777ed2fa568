package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// A model that has nothing more to say ends its run. If handles are open then
// that are not kept, the run lingers: the driver decides what becomes of each,
// by its policy or by what the model answers to an inquiry, and stores that.
// What is to be waited for, the session waits for as it does for answers: no
// drive holds it. Once it has come, the model's answer is due again.

// Linger is a run that would be over but for its handles.
type Linger struct {
	// Turn is its number among those of the session: that of the model's message
	// that had nothing to add, or a greater one.
	Turn int `json:"turn"`
	// Waits: each handle's fate is stored. Otherwise the driver has to decide.
	Waits bool      `json:"waits,omitzero"`
	Until time.Time `json:"until,omitzero"` // with Waits: when the driver decides anew
	// Open counts the handles that are waited for and have not stopped. Waited:
	// there were some.
	Open   int  `json:"open,omitzero"`
	Waited bool `json:"waited,omitzero"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// Lingering reports whether the run waits for handles, and for nothing else.
func (s *State) Lingering() bool { return s.Linger != nil && s.Linger.Waits }

func (s *State) checkLinger() error {
	l := s.Linger
	switch {
	case l == nil:
		return nil
	case s.Due || len(s.Calls) > 0:
		return errors.New("its run lingers, and yet goes on")
	case l.Turn < 1 || l.Open < 0 || l.Waits != !l.Until.IsZero() || l.Open > 0 && !l.Waited:
		return errors.New("how its run lingers doesn't go together")
	}
	return nil
}

// lingers keeps a run from its end: the model is to hear first what has
// happened, or handles are open.
func (tx *Tx) lingers() bool {
	switch {
	case tx.Wakes > tx.NoticesTold:
		tx.Due = true
	case tx.Handles > tx.Kept:
		tx.Lingered = max(tx.Turn, tx.Lingered+1)
		tx.Linger = &Linger{Turn: tx.Lingered}
		tx.outdates()
	default:
		return false
	}
	return true
}

// ownLinger returns the run's lingering, for a transition to change. Readers of
// the head see the one before.
func (tx *Tx) ownLinger() *Linger {
	own := *tx.Linger
	tx.Linger = &own
	tx.touch()
	return tx.Linger
}

// keep has no run wait for a handle.
func (tx *Tx) keep(h *Handle) {
	if !h.Kept {
		h.Kept = true
		tx.Kept++
	}
}

// lingersFor reports whether the run waits for a handle.
func (s *State) lingersFor(h *Handle) bool { return s.Linger != nil && h.Linger == s.Linger.Turn }

// handleLeft takes note that a handle is open no more.
func (tx *Tx) handleLeft(h *Handle, lingered bool) {
	if h.Kept {
		tx.Kept = max(0, tx.Kept-1)
	}
	if h.Policy.NewContent {
		tx.Telling = max(0, tx.Telling-1)
	}
	if !lingered {
		return
	}
	own := tx.ownLinger()
	if own.Open = max(0, own.Open-1); own.Waits && own.Open == 0 {
		tx.speakAgain()
	}
}

// speakAgain makes the model's answer due: what its run waited for has come.
func (tx *Tx) speakAgain() {
	tx.touch()
	tx.Linger, tx.Due = nil, true
	tx.gotOn()
}

// NothingNew ends a run whose model was to hear of handles, and there is nothing
// that it hasn't heard.
func (tx *Tx) NothingNew() error {
	if err := tx.due(); err != nil {
		return err
	}
	tx.touch()
	tx.runEnds()
	if tx.Due = false; !tx.lingers() {
		tx.Finish, tx.Ended = event.FinishStop, tx.Now
	}
	return nil
}

// lingeredEnough has the driver decide anew, once the deadline has passed.
func (tx *Tx) lingeredEnough() {
	if tx.Lingering() && !tx.Linger.Until.After(tx.Now) {
		own := tx.ownLinger()
		own.Waits, own.Until = false, time.Time{}
	}
}

// Patience is how long the end of a run waits for the handle.
func (h *Handle) Patience() time.Duration {
	if h.Limit == 0 {
		return tool.DefaultHandleLimit
	}
	return time.Duration(h.Limit) * time.Millisecond
}

// HandleFate is what becomes of a handle at the end of a run: it is waited for
// until some time, or aborted.
type HandleFate struct {
	Name, Child string
	Until       time.Time // zero: it is aborted
}

// Fates is what a driver has decided of handles at the end of a run.
type Fates struct {
	Turn int // of the Linger
	List []HandleFate
	// Last: there are no more. Until is when the driver decides anew; zero:
	// nothing is waited for any more.
	Last  bool
	Until time.Time
	// Left: others are to be decided of once nothing is waited for.
	Left bool
	// Inquired: the model has been asked, and has used Usage.
	Inquired bool
	Usage    llm.Usage
}

// MaxFates is how many fates a commit stores.
const MaxFates = 40

// Decide stores the fates of handles. With the last of them the session waits,
// or, if nothing is waited for, the model speaks again, or the run is over.
func (tx *Tx) Decide(f *Fates) error {
	if tx.Linger == nil || tx.Linger.Turn != f.Turn || tx.Linger.Waits {
		return fmt.Errorf("%w: nothing is to be decided of handles", ErrStale)
	}
	own := tx.ownLinger()
	tx.Run.Usage = tx.Run.Usage.Add(f.Usage)
	if f.Inquired {
		tx.Run.Inquiries++
	}
	aborts := false
	for _, fate := range f.List {
		h, found, err := tx.handle(fate.Name)
		if err != nil {
			return err
		}
		if !found || h.Child != fate.Child || !h.Open() || h.Kept {
			continue
		}
		if fate.Until.IsZero() {
			h.Abort, aborts = true, true
			tx.keep(h)
		} else {
			if h.Linger != own.Turn {
				own.Open++
			}
			h.Linger, h.Until, own.Waited = own.Turn, fate.Until, true
		}
		tx.putHandle(h)
	}
	if aborts {
		tx.oweAbort("", "the model's turn was over", 0)
	}
	if f.Last {
		tx.decided(own, f)
	}
	return nil
}

// decided goes on once all fates are stored.
func (tx *Tx) decided(own *Linger, f *Fates) {
	switch {
	case tx.Wakes > tx.NoticesTold: // it came since the run began to linger
		tx.speakAgain()
	case own.Open > 0 && !f.Until.IsZero():
		own.Waits, own.Until = true, f.Until
		tx.gotOn()
	case own.Waited:
		tx.speakAgain()
	case f.Left: // what was to be waited for has stopped, and is not told
	default:
		tx.runEnds()
		tx.Linger = nil
		tx.Finish, tx.Ended = event.FinishStop, tx.Now
	}
}
