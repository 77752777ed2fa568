package session

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/tool"
)

// Kind is what an operation on a call was.
type Kind string

// The kinds. Those of one pause exclude each other.
const (
	KindComplete Kind = "complete"
	KindFail     Kind = "fail"
	KindDecision Kind = "decision"
	// KindRunAgain: it did not happen, and is to run.
	KindRunAgain Kind = "run_again"
	KindMessage  Kind = "message" // the user's next message was the answer
	KindTimer    Kind = "timer"   // the deadline was the answer
	KindTimeout  Kind = "timeout" // the deadline has the tool entered again: it was not answered
	KindCancel   Kind = "cancel"  // of a call, whatever its pause
	KindEvent    Kind = "event"   // for a call, whatever its pause; also what met a pause
)

// Fate is what became of an operation after it was accepted, where that isn't
// what it asked for.
type Fate string

// The fates.
const (
	Superseded Fate = "superseded" // the call settled otherwise
	Refused    Fate = "refused"    // the pause that was written wants another kind of answer
	Kept       Fate = "kept"       // no call had its outside key yet: it is judged when one does
)

// Receipt is the durable trace of an accepted operation. In what Resume returns
// it may also stand for a refused one: then Err says why, and nothing is
// stored.
//
// Its JSON is good for an HTTP API, too: times are as in RFC 3339, "duplicate"
// is true of one that was accepted before, and "error" is the text of Err, by
// which a receipt of a refusal is told.
type Receipt struct {
	Call     string `json:"call"`
	Pause    int    `json:"pause"` // zero for a cancellation, and for an event
	Kind     Kind   `json:"kind,omitzero"`
	Hash     string `json:"hash,omitzero"` // of the payload, by content
	Actor    string `json:"by,omitzero"`
	Delivery string `json:"delivery,omitzero"`
	// Sender signed it, where the pause took that sender's answers alone, or where
	// it was refused by a pause that came later.
	Sender string    `json:"sender,omitzero"`
	At     time.Time `json:"at,omitzero"`
	Fate   Fate      `json:"fate,omitzero"`
	// Decided is, of a decision, "approved" or "denied"; empty in a receipt
	// that was written before receipts said so.
	Decided string  `json:"decided,omitzero"`
	Event   EventID `json:"event,omitzero"` // of an event: which

	Duplicate bool  `json:"duplicate,omitzero"` // it was accepted before
	Err       error `json:"-"`                  // it was refused
}

// storedReceipt is a receipt as it is stored, where it has no Err.
type storedReceipt Receipt

func (r *storedReceipt) check() error { return (*Receipt)(r).check() }

func (r *storedReceipt) liesAt(key []byte) bool { return (*Receipt)(r).liesAt(key) }

// MarshalJSON adds the text of Err.
func (r Receipt) MarshalJSON() ([]byte, error) {
	type plain Receipt
	out := struct {
		plain
		Error string `json:"error,omitzero"`
	}{plain: plain(r)}
	if r.Err != nil {
		out.Error = r.Err.Error()
	}
	return encode(out)
}

// UnmarshalJSON reads what MarshalJSON writes. Err then has the text, and is
// none of this package's errors.
func (r *Receipt) UnmarshalJSON(b []byte) error {
	type plain Receipt
	var in struct {
		plain
		Error string `json:"error"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*r = Receipt(in.plain)
	if in.Error != "" {
		r.Err = errors.New(in.Error)
	}
	return nil
}

// slot returns the place of a receipt among those of its call. The receipt of
// an answer that was refused after it had been accepted has a place of its own:
// its pause still waits for an answer.
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
	r.Duplicate, r.Err = false, nil // these are about one Resume
	tx.putJSON(receiptKey(tx.ID, r.Call, r.slot()), (*storedReceipt)(&r))
}

// receipt returns the receipt in a slot of a call, if there is one.
func (tx *Tx) receipt(call, slot string) (Receipt, bool, error) {
	var r Receipt
	found, err := tx.read(receiptKey(tx.ID, call, slot), (*storedReceipt)(&r))
	return r, found, err
}

// receipt returns the receipt of an answer in the head.
func (a *Answer) receipt(call string) Receipt {
	return Receipt{Call: call, Pause: a.Pause, Kind: a.Kind, Hash: a.Hash, Actor: a.Actor,
		Delivery: a.Delivery, At: a.At}
}

// Record is what is kept of a settled call.
type Record struct {
	Version   int          `json:"v"`
	Call      string       `json:"call"`
	Tool      string       `json:"tool"`
	Turn      int          `json:"turn"`
	Status    event.Status `json:"status"`
	Output    *Blob        `json:"output,omitzero"`
	Actor     string       `json:"by,omitzero"`
	At        time.Time    `json:"at"`
	Attempt   int          `json:"attempt,omitzero"`
	Pauses    int          `json:"pauses,omitzero"`
	Decisions []Decision   `json:"decisions,omitempty"`
	Again     []Again      `json:"again,omitempty"`
	Actions   []*Blob      `json:"actions,omitempty"` // each a list
	// How many events were accepted for it, and how many of them, from the
	// first, its body was shown.
	Mail      int `json:"mail,omitzero"`
	MailShown int `json:"mail_shown,omitzero"`
	// Failure is what is known of a failure beside its text.
	Failure *tool.HandleFailure `json:"failure,omitzero"`
	Ran     Ran                 `json:"ran,omitzero"`
	// Background: no events tell of the call.
	Background bool `json:"background,omitzero"`
	// Came is, of a wait handle's call, when what ended it came; zero: At.
	Came time.Time `json:"came,omitzero"`
}

// End returns when what ended the call came.
func (r *Record) End() time.Time {
	if r.Came.IsZero() {
		return r.At
	}
	return r.Came
}

// Shown returns the record's status as it is shown, which tells time-outs from
// other failures.
func (r *Record) Shown() event.Status {
	if r.Ran.TimedOut && r.Status == event.Failed {
		return event.TimedOut
	}
	return r.Status
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
	for i := range r.Again {
		visit(r.Again[i].Why)
	}
}
