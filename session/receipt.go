package session

import (
	"strconv"
	"time"

	"github.com/fermata-ai/fermata/event"
)

// Kind is what an operation on a call was.
type Kind string

// The kinds. Those of one pause exclude each other.
const (
	KindComplete Kind = "complete"
	KindFail     Kind = "fail"
	KindDecision Kind = "decision"
	KindMessage  Kind = "message" // the user's next message was the answer
	KindTimer    Kind = "timer"   // the deadline was
	KindCancel   Kind = "cancel"  // of a call, whatever its pause
)

// Fate is what became of an operation after it was accepted, where that isn't what it asked for.
type Fate string

// The fates.
const (
	Superseded Fate = "superseded" // the call settled otherwise
	Refused    Fate = "refused"    // the pause that was written wants another kind of answer
)

// Receipt is the durable trace of an accepted operation. In what Resume returns it may also stand for a refused one: then
// Err says why, and nothing is stored.
type Receipt struct {
	Call     string    `json:"call"`
	Pause    int       `json:"pause"` // zero for a cancellation
	Kind     Kind      `json:"kind"`
	Hash     string    `json:"hash,omitempty"` // of the payload, by content
	By       string    `json:"by,omitempty"`
	Delivery string    `json:"delivery,omitempty"`
	At       time.Time `json:"at"`
	Fate     Fate      `json:"fate,omitempty"`
	// Decided is, of a decision, "approved" or "denied"; empty in a receipt that was written before receipts said so.
	Decided string `json:"decided,omitempty"`

	Duplicate bool  `json:"-"` // it was accepted before
	Err       error `json:"-"` // it was refused
}

// slot is where a receipt lies among those of its call. That of an answer which was refused after it had been accepted makes
// room for the answer that its pause still waits for.
func (r Receipt) slot() string {
	switch {
	case r.Kind == KindCancel:
		return "cancel"
	case r.Fate == Refused:
		return refusedSlot(r.Pause)
	}
	return strconv.Itoa(r.Pause)
}

func refusedSlot(pause int) string { return strconv.Itoa(pause) + ".refused" }

func (tx *Tx) putReceipt(r Receipt) {
	tx.putJSON(receiptKey(tx.ID, r.Call, r.slot()), r)
}

// receipt returns the receipt in a slot of a call, if there is one.
func (tx *Tx) receipt(call, slot string) (Receipt, bool, error) {
	var r Receipt
	found, err := tx.read(receiptKey(tx.ID, call, slot), &r)
	return r, found, err
}

// receipt is that of an answer in the head.
func (a *Answer) receipt(call string) Receipt {
	return Receipt{Call: call, Pause: a.Pause, Kind: a.Kind, Hash: a.Hash, By: a.By, Delivery: a.Delivery, At: a.At}
}

// Record is what is kept of a settled call.
type Record struct {
	Version   int          `json:"v"`
	Call      string       `json:"call"`
	Tool      string       `json:"tool"`
	Turn      int          `json:"turn"`
	Status    event.Status `json:"status"`
	Output    *Blob        `json:"output,omitempty"`
	By        string       `json:"by,omitempty"`
	At        time.Time    `json:"at"`
	Attempt   int          `json:"attempt,omitempty"`
	Pauses    int          `json:"pauses,omitempty"`
	Decisions []Decision   `json:"decisions,omitempty"`
	Actions   []*Blob      `json:"actions,omitempty"` // each a list
}

// blobs calls f for each payload that the record refers to or holds.
func (r *Record) blobs(f func(*Blob)) {
	visit := func(b *Blob) {
		if b != nil {
			f(b)
		}
	}
	visit(r.Output)
	for _, b := range r.Actions {
		visit(b)
	}
	for i := range r.Decisions {
		visit(r.Decisions[i].Edited)
		visit(r.Decisions[i].Why)
	}
}
