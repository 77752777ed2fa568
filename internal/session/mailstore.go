package session

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// The records of events, beside the head.

// mailRecord is an event that came for a call.
type mailRecord struct {
	Number  int       `json:"number"`
	Name    string    `json:"name"`
	ID      string    `json:"id"`
	Payload *Blob     `json:"payload"`
	Actor   string    `json:"by,omitzero"`
	At      time.Time `json:"at"`
	// See tool.Mail.
	Question string `json:"question,omitzero"`
	Person   bool   `json:"person,omitzero"`
}

// check returns what is wrong with the record of an event.
func (m *mailRecord) check() error {
	if m.Number < 1 || m.Name == "" || m.ID == "" || m.Payload == nil {
		return errIncomplete
	}
	return m.Payload.check()
}

func (m *mailRecord) liesAt(key []byte) bool { return endsWith(key, padded(m.Number, 8)) }

// mailReceipt returns the receipt of an event, if there is one.
func (tx *Tx) mailReceipt(call, name, id string) (Receipt, bool, error) {
	var r Receipt
	found, err := tx.read(mailReceiptKey(tx.ID, call, name, id), (*storedReceipt)(&r))
	return r, found, err
}

// Received lists the events that have come for a call, in order, page by page.
func (s *Store) Received(ctx context.Context, session, call string) iter.Seq2[tool.Mail, error] {
	return func(yield func(tool.Mail, error) bool) {
		for e, err := range s.scan(ctx, kvstore.Key("e", session, call)) {
			var m tool.Mail
			if err == nil {
				m, err = s.mail(ctx, session, e)
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

func (s *Store) mail(ctx context.Context, session string, e kvstore.Entry) (tool.Mail, error) {
	var r mailRecord
	if err := decode(e.Key, e.Value, &r); err != nil {
		return tool.Mail{}, err
	}
	m := tool.Mail{Name: r.Name, ID: r.ID, Actor: r.Actor, At: r.At,
		Question: r.Question, Person: r.Person}
	var err error
	m.Payload, err = s.ownValue(ctx, session, r.Payload)
	return m, err
}

// MailAfter reads the events for a call beyond a number, in order. They are
// copies, and the caller's own.
func (s *Store) MailAfter(
	ctx context.Context, session, call string, after int,
) (all []tool.Mail, err error) {
	r := kvstore.Range{Prefix: kvstore.Key("e", session, call), After: mailKey(session, call, after)}
	page, err := s.kv.Scan(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, e := range page.Entries {
		m, err := s.mail(ctx, session, e)
		if err != nil {
			return all, err
		}
		all = append(all, m)
	}
	return all, nil
}

// MailFor reads the events that the entry is shown which a call's answer leads
// to. They are copies, and the caller's own.
func (s *Store) MailFor(ctx context.Context, session string, c *Call) ([]tool.Mail, error) {
	if c.Answer == nil || c.Answer.Mail == 0 {
		return nil, nil
	}
	all := make([]tool.Mail, 0, c.Answer.Mail)
	for m, err := range s.Received(ctx, session, c.ID) {
		if err != nil {
			return nil, err
		}
		m.New = len(all) >= c.Answer.MailFrom
		if all = append(all, m); len(all) == c.Answer.Mail {
			return all, nil
		}
	}
	return nil, fmt.Errorf("%w: session %q: %d events came for call %s, and %d are there",
		ErrCorrupt, session, c.Answer.Mail, c.ID, len(all))
}

// HasMail reports whether an event has come for a call, or an answer that was
// given as one.
func (s *Store) HasMail(ctx context.Context, session, call, name, id string) (bool, error) {
	return s.kv.record(ctx, mailReceiptKey(session, call, name, id), new(storedReceipt))
}

// MailReceipts lists the receipts of the events that were accepted for a call,
// by name and id; not those of answers that were given as inputs. Of a settled
// call, a receipt tells whether the body was shown the event. End is the call's
// record, or nil.
func (s *Store) MailReceipts(
	ctx context.Context, session, call string, end *Record,
) iter.Seq2[Receipt, error] {
	return func(yield func(Receipt, error) bool) {
		for e, err := range s.scan(ctx, kvstore.Key("d", session, call)) {
			var r Receipt
			if err == nil {
				err = decode(e.Key, e.Value, (*storedReceipt)(&r))
			}
			if err == nil && r.Kind != KindEvent {
				continue
			}
			if err == nil && end != nil {
				r.Fate = end.mailFate(r.Event.Number)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// mail reports events that are missing, or damaged, or without a receipt.
func (c *check) mail(ctx context.Context, st *State) error {
	if err := readable[storedReceipt](ctx, c, st.ID, kvstore.Key("d", st.ID)); err != nil {
		return err
	}
	came := map[string]int{}
	for e, err := range c.store.scan(ctx, kvstore.Key("e", st.ID)) {
		if err != nil {
			return err
		}
		if err := c.event(ctx, st, e, came); err != nil {
			return err
		}
	}
	for i := range st.Calls {
		call := &st.Calls[i]
		if m := call.Mailbox; m != nil && came[call.ID] != m.Count {
			const what = "%d events came for it, and %d are there"
			if err := c.report(st.ID, "call "+call.ID, what, m.Count, came[call.ID]); err != nil {
				return err
			}
		}
	}
	return nil
}

// event reports what is wrong with one event, and counts it.
func (c *check) event(
	ctx context.Context, st *State, e kvstore.Entry, came map[string]int,
) error {
	var r mailRecord
	err := decode(e.Key, e.Value, &r)
	parts, partsErr := kvstore.Parts(e.Key)
	if err == nil && (partsErr != nil || len(parts) != 4) {
		err = fmt.Errorf("%w: %s", ErrCorrupt, keyName(e.Key))
	}
	if err == nil {
		came[parts[2]]++
		_, err = c.store.Value(ctx, st.ID, r.Payload)
	}
	if err != nil {
		return c.judge(st.ID, keyName(e.Key), err)
	}
	_, err = c.store.kv.Get(ctx, mailReceiptKey(st.ID, parts[2], r.Name, r.ID))
	if errors.Is(err, kvstore.ErrNotFound) {
		err = c.report(st.ID, keyName(e.Key), "the receipt of an event is missing")
	}
	return err
}
