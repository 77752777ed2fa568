package session

import (
	"cmp"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool"
)

// How a call is given its one result.

// Outcome is how a call ends.
type Outcome struct {
	Status  event.Status
	Output  *Blob
	Actions *Blob
	Media   bool   // among the actions is media for the model
	HandTo  string // with Done: the agent that is to take the session over
	// Begins is a handle that begins with the call's end. It has no other end
	// then.
	Begins *NewHandle
	// Failure is what the body told of its failure beside the output.
	Failure *tool.HandleFailure
	Ran     Ran
	// Shown is what the output has told of a handle.
	Shown []HandleShown
	Actor string
	// Of a call that ended while it waited, or would have: why.
	Cause tool.Cause
	Why   string
	// Came is when what ends the call came; zero: with this commit. A deadline
	// that has passed is applied by the commit that comes next.
	Came time.Time
	// Body: the body returned it. A layer, a deadline or a caller made any
	// other.
	Body bool
}

// Ran is how the body of a call ran in its last entry; zero: none was entered,
// or it still ran when the call settled.
type Ran struct {
	NS       int64 `json:"ns,omitzero"` // how long, in nanoseconds
	TimedOut bool  `json:"timed_out,omitzero"`
}

// For returns how long it ran.
func (r Ran) For() time.Duration { return time.Duration(r.NS) }

// Settle gives a call its one result. A cancellation that was asked for is
// superseded by any other end.
func (tx *Tx) Settle(call string, o *Outcome) error {
	c, err := tx.live(call)
	if err != nil {
		return err
	}
	return tx.settle(c, o)
}

func (tx *Tx) settle(c *Call, o *Outcome) error {
	if !transitions[c.Status][Settled] {
		return c.move(Settled) // whose error names the two statuses
	}
	if err := tx.handleActs(c, o.Begins, o.Shown); err != nil {
		return err
	}
	if err := tx.settleFates(c, o); err != nil {
		return err
	}
	if c.Pause != nil {
		tx.oweUndo(c, c.Pauses, c.Pause, o.Cause, o.Actor, o.Why)
		tx.unlist(c)
		_, why := tx.causeOf(c, o.Cause, o.Why)
		tx.leaveChild(c, o.Actor,
			cmp.Or(why, "the call that waits for it is over: "+string(o.Status)))
	}
	tx.givePermitsBack(c)
	tx.tellEnd(c, o)
	actions := c.Actions
	if o.Actions != nil {
		actions = append(actions[:len(actions):len(actions)], tx.place(o.Actions))
	}
	tx.record = Record{
		Version: Version, Call: c.ID, Tool: c.Tool, Turn: tx.Turn, Status: o.Status,
		Output: tx.placeBeside(o.Output), Actor: o.Actor, At: tx.Now,
		Attempt: c.Attempt, Pauses: c.Pauses, Decisions: c.Decisions, Again: c.Again,
		Actions: actions, Failure: o.Failure, Ran: o.Ran,
		Background: c.Background,
	}
	tx.record.Mail, tx.record.MailShown = c.mailAtEnd(o)
	tx.record.Came = tx.came(c, o)
	begins := len(tx.records)
	tx.records = appendRecordKey(tx.records, tx.ID, c.ID)
	key := tx.since(begins)
	begins = len(tx.records)
	var err error
	tx.records, err = strictjson.Append(tx.records, &tx.record)
	tx.putEncoded(key, tx.since(begins), err)
	tx.payloads += len(tx.records) - begins
	media := (c.Media || o.Media) && o.Status == event.Done
	*c = Call{
		ID: c.ID, Tool: c.Tool, Status: Settled, Settled: o.Status, Pauses: c.Pauses,
		MayPause: c.MayPause, Media: media, Unshown: tx.beside, Rest: c.Rest,
		Action: c.Action, Handle: c.Handle, Clash: c.Clash,
		Background: c.Background,
	}
	if o.HandTo != "" && o.Status == event.Done {
		c.HandTo = o.HandTo
		tx.outdates()
	}
	tx.gotOn()
	return nil
}

// SeenBefore notes that a drive has shown what an earlier one had closed
// unseen.
func (tx *Tx) SeenBefore() error {
	if tx.Unseen != nil {
		tx.Unseen = nil
		tx.touch()
	}
	return nil
}

// Seen notes which results a drive has shown, and which it has not. The next
// drive shows the latter.
func (tx *Tx) Seen(shown, unseen []string) error {
	for i, id := range slices.Concat(shown, unseen) {
		unshown := i >= len(shown)
		if c := tx.Call(id); c != nil && c.Status == Settled && c.Unshown != unshown {
			c.Unshown = unshown
			tx.touch()
		}
	}
	return nil
}

// settleFates marks the receipts of what was accepted for a call and did not
// become its result.
func (tx *Tx) settleFates(c *Call, o *Outcome) error {
	if c.Early != nil {
		if err := tx.setFate(c.ID, c.Early.Pause, Superseded); err != nil {
			return err
		}
	}
	if c.Cancel != nil && o.Status != event.Cancelled && o.Status != event.Unknown {
		if err := tx.setFate(c.ID, 0, Superseded); err != nil {
			return err
		}
	}
	if a := c.Answer; a != nil && a.Mode != tool.ModeReenter && o.Status != event.Done {
		// It was to be the output, and a layer, a deadline or a caller came in
		// between.
		if err := tx.setFate(c.ID, a.Pause, Superseded); err != nil {
			return err
		}
	}
	if c.Status == Answered && !o.Body && o.Status == event.Cancelled {
		return tx.setFate(c.ID, c.Pauses, Superseded)
	}
	return nil
}
