package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/internal/toolbox"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// Outside events for an open call. Each that is accepted has a number, from 1,
// a record of its own under that number, and a receipt under its name and id.
// The head has a small summary. So an event costs one commit, and reads neither
// the events before it nor the history.
//
// The mailbox is the call's, and not a pause's: an event that comes between two
// pauses counts for the next one. An answer that enters the tool again fixes
// how many events that entry is shown, so that a crash repeats the same list.

// Mailbox is what the head keeps of the events for a call.
type Mailbox struct {
	Kinds []MailKind `json:"kinds"`
	Limit int        `json:"limit"`          // of Count
	Count int        `json:"n,omitzero"`     // accepted so far
	Size  int        `json:"size,omitzero"`  // of their payloads, in bytes
	Shown int        `json:"shown,omitzero"` // by the last answer that enters the tool again

	Rest strictjson.Rest `json:"-"` // of a later version
}

// MailKind is one kind of event.
type MailKind struct {
	Name    string `json:"name"`
	Schema  string `json:"schema,omitzero"`  // hash
	Waiting int    `json:"waiting,omitzero"` // came, and are not shown
	Sender  string `json:"sender,omitzero"`  // from whom alone they are taken
	// The tool was changed, and takes it no more. It stays while some wait.
	Gone bool `json:"gone,omitzero"`
}

// maxMailSize bounds the payloads of a call's events together, in bytes: all
// are in memory while the tool's body is entered.
const maxMailSize = 16 << 20

// EventID names an event among those of its call.
type EventID struct {
	Name   string `json:"name"`
	ID     string `json:"id"`
	Number int    `json:"number,omitzero"` // of those accepted for the call, from 1
}

// String is the event in words.
func (e EventID) String() string { return fmt.Sprintf("%s %q", e.Name, excerpt.Of(e.ID)) }

// IncomingMail is an event as it is delivered for a call, before it is judged.
type IncomingMail struct {
	Call            string
	Name, ID        string
	Value           json.RawMessage // as it came
	Payload         *Blob           // to keep
	Hash            string          // of the content
	Actor, Delivery string
	Sender          string // who signed it
	Question        string // that it answers, see tool.Mail
	Person          bool
}

// Deliver judges an event and, if it is good, accepts it. If it meets the open
// pause of the call, the call is answered. Deliver returns the event's receipt:
// for a duplicate the original one, for a refused event one with Err. The error
// is what kept it from judging.
func (tx *Tx) Deliver(in *IncomingMail, fits Fits) (Receipt, error) {
	d := mailJudgement{tx: tx, in: in, fits: fits, c: tx.Call(in.Call), rc: in.receipt(tx.Now)}
	err := d.pass()
	var refusal *refusal
	if errors.As(err, &refusal) {
		d.rc.Err, err = refusal.error, nil
	}
	return d.rc, err
}

// Refused returns the receipt of an event that is refused before it is judged.
func (in *IncomingMail) Refused(at time.Time, why error) Receipt {
	rc := in.receipt(at)
	rc.Err = why
	return rc
}

func (in *IncomingMail) receipt(at time.Time) Receipt {
	return Receipt{
		Call: in.Call, Kind: KindEvent, Hash: in.Hash, Actor: in.Actor, Delivery: in.Delivery,
		At: at, Event: EventID{Name: in.Name, ID: in.ID},
	}
}

// mailJudgement is one event before the head. It looks in the order of the
// contract: the head, the call's record, the receipts.
type mailJudgement struct {
	tx   *Tx
	in   *IncomingMail
	fits Fits
	c    *Call // nil: not of the open turn
	rc   Receipt
}

func (d *mailJudgement) pass() error {
	if err := d.tx.notDeleted(d.in.Call); err != nil {
		return refuse(err)
	}
	if d.c != nil && d.c.overdue(d.tx.Now) {
		if err := d.tx.expire(d.c); err != nil { // more were due than Expire ends at once
			return err
		}
	}
	open := d.c != nil && d.c.Status != Settled
	var end Record
	if !open {
		found, err := d.tx.read(recordKey(d.tx.ID, d.in.Call), &end)
		if err == nil && !found {
			err = refuse(d.tx.unknownCall(d.in.Call))
		}
		if err != nil {
			return err
		}
	}
	if open {
		if k := d.c.Mailbox.kind(d.in.Name); k != nil && k.Sender != "" && k.Sender != d.in.Sender {
			return refuse(&SenderError{Event: d.rc.Event.String(), Sender: k.Sender})
		}
	}
	first, found, err := d.tx.mailReceipt(d.in.Call, d.in.Name, d.in.ID)
	switch {
	case err != nil:
		return err
	case found && first.Sender != "" && first.Sender != d.in.Sender:
		return refuse(&SenderError{Event: d.rc.Event.String(), Sender: first.Sender})
	case found && first.Hash != d.in.Hash:
		return refuse(&ConflictError{Receipt: first})
	case found:
		d.rc = first
		d.rc.Duplicate = true
		if !open {
			d.rc.Fate = end.mailFate(first.Event.Number)
		}
		return nil
	case !open:
		return refuse(end.settledError())
	}
	return d.judge()
}

// mailFate returns what became of an event of a settled call.
func (r *Record) mailFate(number int) Fate {
	if number > r.MailShown {
		return Superseded
	}
	return ""
}

func (r *Record) settledError() *SettledError {
	return &SettledError{Call: r.Call, Status: r.Status, Actor: r.Actor, At: r.At}
}

// judge judges an event that is new, for a call that is open.
func (d *mailJudgement) judge() error {
	box := d.c.Mailbox
	kind := box.kind(d.in.Name)
	size := len(d.in.Payload.JSON())
	switch {
	case kind == nil || kind.Gone:
		return refuse(&UnknownEventError{
			Call: d.c.ID, Tool: d.c.Tool, Name: d.in.Name, Names: box.Names(),
		})
	case box.Count >= box.Limit:
		return refuse(fmt.Errorf("%w: %d have come for call %s", ErrMailboxFull, box.Count, d.c.ID))
	case box.Size+size > maxMailSize:
		return refuse(fmt.Errorf("%w: those for call %s have %d bytes, and with this one more than %d",
			ErrMailboxFull, d.c.ID, box.Size, maxMailSize))
	}
	misfit, err := d.fits(Asked{
		Target: toolbox.Target{Tool: d.c.Tool, Use: toolbox.AsEvent, Event: d.in.Name},
		Call:   d.c.ID, Schema: kind.Schema,
	}, d.in.Value)
	switch {
	case misfit != nil:
		return refuse(&PayloadError{Event: d.rc.Event.String(), Err: misfit})
	case err != nil:
		return err
	}
	d.accept(size)
	return nil
}

// accept stores the event and its receipt. From then on, a caller wants the
// session to go on.
func (d *mailJudgement) accept(size int) {
	tx, box := d.tx, d.c.ownMailbox()
	box.Count++
	box.Size += size
	box.kind(d.in.Name).Waiting++
	d.rc.Event.Number, d.rc.Sender = box.Count, box.kind(d.in.Name).Sender
	tx.putJSON(mailKey(tx.ID, d.c.ID, box.Count), &mailRecord{
		Number: box.Count, Name: d.in.Name, ID: d.in.ID, Actor: d.in.Actor, At: tx.Now,
		Payload: tx.placeBeside(d.in.Payload), Question: d.in.Question, Person: d.in.Person,
	})
	rc := d.rc
	tx.putJSON(mailReceiptKey(tx.ID, rc.Call, rc.Event.Name, rc.Event.ID), (*storedReceipt)(&rc))
	tx.goOn()
	if tx.takeMail(d.c, d.in.Actor, d.in.Delivery) {
		tx.gotOn()
	}
}

// takeMail ends the call's pause, if it waits for events and they are there. By
// and delivery are those of the event that was the last.
func (tx *Tx) takeMail(c *Call, by, delivery string) bool {
	if c.Status != Pending || c.Pause.Mail == nil || !c.Mailbox.meets(c.Pause.Mail) {
		return false
	}
	tx.unlist(c)
	tx.accept(c, &Answer{
		Pause: c.Pauses, Kind: KindEvent, Payload: &Blob{Inline: []byte("null")},
		Actor: by, Delivery: delivery, At: tx.Now,
	})
	return true
}

// showMail fixes which events the entry is shown that an answer leads to.
func (c *Call) showMail(a *Answer) {
	if c.Mailbox == nil || a.Mode != tool.ModeReenter {
		return
	}
	box := c.ownMailbox()
	a.Mail, a.MailFrom = box.Shown, box.Shown
	if w := c.Pause.Await; w != nil && w.Permit != nil && w.Permit.Before {
		return // the body comes to its first pause after that
	}
	a.Mail, box.Shown = box.Count, box.Count
	kept := box.Kinds[:0]
	for _, k := range box.Kinds {
		k.Waiting = 0
		if !k.Gone {
			kept = append(kept, k)
		}
	}
	box.Kinds = kept
}

// unshowMail takes back what showMail fixed for an entry that never came. The
// call is not entered again.
func (c *Call) unshowMail(was *Call) {
	a := was.Answer
	if c.Mailbox != nil && a != nil && a.Mode == tool.ModeReenter && was.Tried == nil {
		c.ownMailbox().Shown = a.MailFrom
	}
}

// mailAtEnd returns how many events have come for a call that settles, and how
// many of them its body was shown.
func (c *Call) mailAtEnd(o *Outcome) (count, shown int) {
	switch {
	case c.Mailbox == nil:
		return 0, 0
	case c.Status == Answered && !o.Body && c.Answer != nil && c.Answer.Mode == tool.ModeReenter &&
		c.Tried == nil:
		return c.Mailbox.Count, c.Answer.MailFrom // the entry that was to be shown more never was
	}
	return c.Mailbox.Count, c.Mailbox.Shown
}

// ownMailbox returns the call's mailbox for a transition to change. Readers of
// the head see the one before.
func (c *Call) ownMailbox() *Mailbox {
	own := *c.Mailbox
	own.Kinds = slices.Clone(own.Kinds)
	c.Mailbox = &own
	return &own
}

// declareMail brings a call's mailbox up to what its tool declares today. What
// has come stays, and counts on.
func (tx *Tx) declareMail(c *Call, today *Mailbox) {
	switch {
	case c.Mailbox == nil && today == nil:
		return
	case c.Mailbox == nil:
		c.Mailbox = today
		tx.outdates()
		return
	case today == nil && c.Mailbox.Count == 0:
		c.Mailbox = nil
		return
	}
	was, own := c.Mailbox, *c.Mailbox
	own.Kinds = nil
	if today != nil {
		own.Kinds, own.Limit = slices.Clone(today.Kinds), today.Limit
	}
	for _, k := range was.Kinds {
		if now := own.kind(k.Name); now != nil {
			now.Waiting = k.Waiting
		} else if k.Waiting > 0 {
			own.Kinds = append(own.Kinds, MailKind{Name: k.Name, Schema: k.Schema,
				Waiting: k.Waiting, Gone: true})
		}
	}
	c.Mailbox = &own
}

// Declares reports whether the mailbox of a call is that of a declaration. Both
// may be nil.
func (m *Mailbox) Declares(today *Mailbox) bool {
	switch {
	case m == nil || today == nil:
		return m == today || today == nil && len(m.Names()) == 0
	case m.Limit != today.Limit:
		return false
	}
	var kinds []MailKind
	for _, k := range m.Kinds {
		if k.Waiting = 0; !k.Gone {
			kinds = append(kinds, k)
		}
	}
	return slices.Equal(kinds, today.Kinds)
}

// kind returns the kind of that name, or nil. M may be nil.
func (m *Mailbox) kind(name string) *MailKind {
	if m != nil {
		for i := range m.Kinds {
			if m.Kinds[i].Name == name {
				return &m.Kinds[i]
			}
		}
	}
	return nil
}

// Names lists the events that the call takes. M may be nil.
func (m *Mailbox) Names() (names []string) {
	if m != nil {
		for _, k := range m.Kinds {
			if !k.Gone {
				names = append(names, k.Name)
			}
		}
	}
	return names
}

// schemas lists the hashes of the schemas of events. M may be nil.
func (m *Mailbox) schemas() (hashes []string) {
	if m != nil {
		for _, k := range m.Kinds {
			hashes = append(hashes, k.Schema)
		}
	}
	return hashes
}

// meets reports whether the events that were not shown are those that a pause
// waits for. M may be nil.
func (m *Mailbox) meets(w *tool.MailWait) bool {
	n := 0
	for _, name := range w.Names {
		waiting := 0
		if k := m.kind(name); k != nil {
			waiting = k.Waiting
		}
		if w.Count == 0 && waiting == 0 {
			return false
		}
		n += waiting
	}
	return n >= w.Count
}

// checkMail returns what is wrong with the mailbox of a call of a head, and
// with what its pause and its answer say of it.
func (c *Call) checkMail() error {
	if p := c.Pause; p != nil && p.Mail != nil &&
		(c.Mailbox == nil || p.Mode != tool.ModeReenter || len(p.Mail.Names) == 0 || p.Mail.Count < 0) {
		return errors.New("its pause waits for events, and is incomplete")
	}
	m := c.Mailbox
	if m == nil {
		return nil
	}
	waiting := 0
	for i, k := range m.Kinds {
		if k.Name == "" || m.kind(k.Name) != &m.Kinds[i] || k.Waiting < 0 {
			return fmt.Errorf("kind %d of its events is incomplete", i)
		}
		waiting += k.Waiting
	}
	if m.Limit < 1 || m.Size < 0 || m.Shown < 0 || m.Shown+waiting > m.Count {
		return errors.New("the counts of its events don't go together")
	}
	if a := c.Answer; a != nil && (a.MailFrom < 0 || a.MailFrom > a.Mail || a.Mail > m.Count) {
		return errors.New("its answer shows events that have not come")
	}
	return nil
}

func mailKey(session, call string, number int) []byte {
	return kvstore.Key("e", session, call, padded(number, 8))
}

func mailReceiptKey(session, call, name, id string) []byte {
	return kvstore.Key("d", session, call, name, id)
}
