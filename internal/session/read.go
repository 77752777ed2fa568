package session

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// read decodes the record under key, if there is one.
func (s *Store) read(ctx context.Context, key []byte, v any) (found bool, err error) {
	return s.kv.record(ctx, key, v)
}

// scan goes through all entries under a prefix, page by page. No transaction is
// open while yield runs.
func (s *Store) scan(ctx context.Context, prefix []byte) iter.Seq2[kvstore.Entry, error] {
	return s.scanRange(ctx, kvstore.Range{Prefix: prefix})
}

// scanRange is scan for a range.
func (s *Store) scanRange(
	ctx context.Context, r kvstore.Range,
) iter.Seq2[kvstore.Entry, error] {
	return func(yield func(kvstore.Entry, error) bool) {
		r := r // the list may be gone through once more
		r.Limit = 256
		for {
			page, err := s.kv.Scan(ctx, r)
			if err != nil {
				yield(kvstore.Entry{}, err)
				return
			}
			for _, e := range page.Entries {
				if !yield(e, nil) {
					return
				}
				r.After = e.Key
			}
			if !page.More {
				return
			}
		}
	}
}

// Record reads the record of a settled call; ErrUnknownCall if there is none.
func (s *Store) Record(ctx context.Context, session, call string) (Record, []Receipt, error) {
	var r Record
	found, err := s.read(ctx, recordKey(session, call), &r)
	if err == nil && !found {
		err = fmt.Errorf("%w: %q in session %q", ErrUnknownCall, call, session)
	}
	if err != nil {
		return r, nil, err
	}
	receipts, err := s.Receipts(ctx, session, call)
	return r, receipts, err
}

// Receipts lists what was accepted for a call.
func (s *Store) Receipts(ctx context.Context, session, call string) ([]Receipt, error) {
	var all []Receipt
	for e, err := range s.scan(ctx, kvstore.Key("r", session, call)) {
		if err != nil {
			return nil, err
		}
		var r Receipt
		if err := decode(e.Key, e.Value, (*storedReceipt)(&r)); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// Decided reads a decision with its values. They are copies, and the caller's
// own.
func (s *Store) Decided(ctx context.Context, session string, d Decision) (tool.Decision, error) {
	out := d.Decision
	why, err := s.Words(ctx, session, d.Why)
	if err == nil {
		if d.Why != nil {
			out.Reason = why
		}
		out.Arguments, err = s.ownValue(ctx, session, d.Edited)
	}
	return out, err
}

// Words reads a payload that is a JSON string. No payload is the empty string.
func (s *Store) Words(ctx context.Context, session string, b *Blob) (words string, err error) {
	raw, err := s.Value(ctx, session, b)
	if err == nil && len(raw) > 0 {
		err = decode([]byte(session), raw, &words)
	}
	return words, err
}

// Due lists sessions of an agent that stand in the wake index up to now, the
// longest due first: those that are due at once, whatever the clock shows, and
// those whose time has come. It returns a page at most, and whether there are
// more. After the last page, next is when the next session will be due.
func (s *Store) Due(
	ctx context.Context, agent string, after []byte,
) (due []Due, more bool, next time.Time, err error) {
	now := s.Now()
	prefix := kvstore.Key("w", agent)
	page, err := s.kv.Scan(ctx, kvstore.Range{
		Prefix: prefix, After: after,
		Before: kvstore.Key("w", agent, millis(now.Add(time.Millisecond))), Limit: 256,
	})
	if err != nil {
		return nil, false, next, err
	}
	for _, e := range page.Entries {
		if d, _, ok := dueEntry(e); ok {
			due = append(due, d)
		}
	}
	if page.More {
		return due, true, next, nil
	}
	page, err = s.kv.Scan(ctx, kvstore.Range{
		Prefix: prefix, After: kvstore.Key("w", agent, millis(now), "\xff"), Limit: 1,
	})
	if err == nil && len(page.Entries) == 1 {
		_, next, _ = dueEntry(page.Entries[0])
	}
	return due, false, next, err
}

// dueEntry reads an entry of the wake index, and the time that it stands at. One
// that is no entry is for Check to report.
func dueEntry(e kvstore.Entry) (d Due, at time.Time, ok bool) {
	parts, err := kvstore.Parts(e.Key)
	if err != nil || len(parts) != 4 {
		return d, at, false
	}
	at = parseMillis(parts[2])
	return Due{Session: parts[3], User: string(e.Value), Key: e.Key, Since: since(at)}, at, true
}

// Due is an entry of the wake index, or of a list of what drives have left.
type Due struct {
	Session string
	User    string    // as far as the entry has it
	Key     []byte    // in the index
	Since   time.Time // by the entry's place in the wake index
	list    string
}

// LatestProgress reads the latest progress that was stored of a call, or nil.
func (s *Store) LatestProgress(ctx context.Context, session, call string) (*tool.Progress, error) {
	p := new(tool.Progress)
	found, err := s.read(ctx, progressKey(session, call), p)
	if err != nil || !found {
		return nil, err
	}
	return p, nil
}

// Progress checks that a call may have progress, and returns the call's tool. A
// settled call may have none. With write it stores the progress, under the
// condition that the head is still the one that was checked. Where a heartbeat
// is awaited, this is one, and stored whatever write is.
//
// The call may be given by the id of one of its pauses. Then that pause must
// not be over.
func (s *Store) Progress(
	ctx context.Context, session, callOrPause string, p tool.Progress, write bool,
) (h Heard, err error) {
	call, number := splitPause(callOrPause)
	if len(p.Data) > 0 { // kept as a payload is
		if p.Data, err = strictjson.Compact(p.Data); err != nil {
			return h, fmt.Errorf("session: progress: %w", err)
		}
	}
	value, err := encode(p)
	if err != nil {
		return h, fmt.Errorf("session: progress: %w", err)
	}
	var put []kvstore.Put
	if write {
		put = append(put, kvstore.Put{Key: progressKey(session, call), Value: value})
	}
	c, err := s.besides(ctx, session, call, number, func(c *Call) []kvstore.Put {
		if c.beats() {
			return nil // it goes with the beat
		}
		return put
	})
	switch {
	case err != nil:
		return h, err
	case c.beats():
		return s.beat(ctx, session, call, number, p.At, put)
	}
	return c.heard(), nil
}

// besides writes the records that it is given for an open call, if any, and
// returns the call. With the number of a pause, that must not be over.
func (s *Store) besides(
	ctx context.Context, session, call string, number int, records func(*Call) []kvstore.Put,
) (*Call, error) {
	for lost := tries(0); ; {
		h, err := s.head(ctx, session, nil)
		if err != nil {
			return nil, err
		}
		c := h.state.Call(call)
		switch {
		case !h.state.Deleted.IsZero():
			return nil, fmt.Errorf("%w: %q", ErrDeleted, session)
		case c == nil || c.Status == Settled:
			return nil, s.settled(ctx, session, call)
		case c.overdue(s.Now()):
			if err := s.Update(ctx, session, func(*Tx) error { return nil }); err != nil {
				return nil, err
			}
			continue
		}
		if number > 0 {
			if err := c.notOver(number); err != nil {
				return nil, err
			}
		}
		puts := records(c)
		if len(puts) == 0 {
			return c, nil
		}
		_, err = s.kv.Apply(ctx, kvstore.Batch{
			Preconditions: []kvstore.Precondition{{Key: h.key, Revision: h.rev}}, Puts: puts,
		})
		if !lost.again(ctx, err) { // writing it twice does no harm
			s.changed(session)
			return c, err
		}
	}
}

// settled refuses an operation on a call that is not open.
func (s *Store) settled(ctx context.Context, session, call string) error {
	r, _, err := s.Record(ctx, session, call)
	if err != nil {
		return err
	}
	return r.settledError()
}
