package session

import (
	"context"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// The wake index is in the order of time. It doesn't find a session whose time
// was written by a clock that is, or was, ahead of ours. Two kinds of sessions
// must not wait for that clock: one whose holder may have died, and one whose
// model is to be asked again. They are watched: they stand in an index of their
// own, which has one entry for each session that is driven, or waits for its
// model, just now. Workers go through it three times a lease, and compare with
// what they saw before.

// watched is an entry of that index. The lease or the wait is over at End, by
// the store's clock, or after For, counted from when it was first seen.
type watched struct {
	Epoch    int       `json:"epoch,omitzero"`    // of a session that is held: its drive
	Beat     int       `json:"beat,omitzero"`     // and that drive's last commit
	Failures int       `json:"failures,omitzero"` // of one whose model failed
	End      time.Time `json:"end"`
	For      int       `json:"for"` // milliseconds
}

func (w *watched) check() error {
	if (w.Epoch < 1) == (w.Failures < 1) || w.Beat < 0 || w.For < 0 || w.End.IsZero() {
		return errIncomplete
	}
	return nil
}

// watch puts the session among those that are watched, or takes it away. The
// entry of a held session is written with each commit of its holder, since each
// begins the wait anew.
func (tx *Tx) watch(held, retry bool) {
	switch {
	case held && tx.Watched && tx.beside:
	case held:
		tx.putJSON(watchKey(tx.Agent, tx.ID),
			&watched{Epoch: tx.Epoch, Beat: tx.Beat, End: tx.LeaseEnd, For: tx.Lease})
	case retry:
		tx.putJSON(watchKey(tx.Agent, tx.ID),
			&watched{Failures: tx.Retry.Failures, End: tx.Retry.At, For: tx.Retry.Wait})
	case tx.Watched:
		tx.delete(watchKey(tx.Agent, tx.ID))
	}
	tx.Watched = held || retry
}

// Watched lists the watched sessions of an agent that are due: their holders
// are dead as far as this process can tell, or their models are to be asked
// again. Next is when the next one will be due, unless it changes. Due may list
// some of them as well.
func (s *Store) Watched(ctx context.Context, agent string) (due []Due, next time.Time, err error) {
	now := s.Now()
	for e, err := range s.scan(ctx, kvstore.Key("v", agent)) {
		if err != nil {
			return nil, next, err
		}
		parts, err := kvstore.Parts(e.Key)
		if err != nil || len(parts) != 3 {
			continue
		}
		var w watched
		until := now // if the entry can't be read: loading the session tells what is wrong
		if err := decode(e.Key, e.Value, &w); err == nil {
			until = s.over(parts[2], &w)
		}
		switch {
		case !until.After(now):
			due = append(due, Due{Session: parts[2], Key: e.Key})
		case next.IsZero() || until.Before(next):
			next = until
		}
	}
	return due, next, nil
}

// over returns when the lease or the wait of an entry is over.
func (s *Store) over(session string, w *watched) time.Time {
	if w.Epoch > 0 {
		return s.leaseOver(session, w)
	}
	return s.retryAt(session, &Retry{Failures: w.Failures, At: w.End, Wait: w.For})
}

// drift: a process that waits for the end of a lease waits a tenth of it
// longer. By so much the monotonic clocks of two machines differ in speed at
// most.
const drift = 10

// leaseOver returns when a stored lease is over, by this store's clock, unless
// its holder commits before.
func (s *Store) leaseOver(session string, w *watched) time.Time {
	wait := time.Duration(w.For) * time.Millisecond
	if wait == 0 { // an older version holds it, which stores no length
		wait = s.lease
	}
	this := mark{epoch: w.Epoch, count: w.Beat, end: w.End.UnixMilli()}
	return s.soonest(subject{session, sawLease}, this,
		s.leaseEnd(w.End, wait+wait/drift), wait+wait/drift)
}

// leasedUntil returns until when a stored lease keeps others out, unless it is
// renewed or given up; zero: nothing does.
func (s *Store) leasedUntil(st *State) time.Time {
	if s.exclusive || !st.Held {
		return time.Time{}
	}
	held := &watched{Epoch: st.Epoch, Beat: st.Beat, End: st.LeaseEnd, For: st.Lease}
	until := s.leaseOver(st.ID, held)
	if !until.After(s.Now()) {
		return time.Time{}
	}
	return until
}

// retryAt returns when a model that failed is asked again.
func (s *Store) retryAt(session string, r *Retry) time.Time {
	if r.Wait == 0 {
		return r.At
	}
	this := mark{count: r.Failures, end: r.At.UnixMilli()}
	return s.soonest(subject{session, sawRetry}, this, r.At, time.Duration(r.Wait)*time.Millisecond)
}
