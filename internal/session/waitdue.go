package session

import (
	"context"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// Wait handles whose time is over, and whose end no drive has applied yet. What
// is listed shows them as ended: they stand in a list of their own, in the order
// of their deadlines.

func waitDueKey(session string, h *Handle) []byte {
	return kvstore.Key("Y", session, "", millis(h.Wait.Deadline), h.Name)
}

// due reports whether a wait handle stands among those that end by themselves.
func (h *Handle) due() bool { return h.Wait != nil && h.Open() && !h.Wait.Deadline.IsZero() }

// overdueWaits returns the wait handles of a session whose time is over, each as
// it is once that is applied.
func (s *Store) overdueWaits(ctx context.Context, st *State, now time.Time) (map[string]*Handle, error) {
	if !slices.ContainsFunc(st.Waits, func(n WaitN) bool { return n.Status == tool.WaitPending }) {
		return nil, nil
	}
	over := map[string]*Handle{}
	for e, err := range s.scan(ctx, kvstore.Key("Y", st.ID, "")) {
		if err != nil {
			return nil, err
		}
		h := new(Handle)
		found, err := s.kv.record(ctx, handleKey(st.ID, lastPart(e.Key)), h)
		if err != nil {
			return nil, err
		}
		if !found || !h.due() { // it has ended meanwhile
			continue
		}
		if h.Wait.Deadline.After(now) {
			break
		}
		h.Status, h.Ended = event.Expired, h.Wait.Deadline
		if h.Wait.Type == tool.TimerWait {
			h.Status = event.Done
		}
		over[h.Name] = h
	}
	return over, nil
}

// Waits counts the wait handles of a session. Those whose time is over count as
// ended.
func (s *Store) Waits(ctx context.Context, st *State, now time.Time) ([]WaitN, error) {
	over, err := s.overdueWaits(ctx, st, now)
	all := slices.Clone(st.Waits)
	for _, h := range over {
		all = countedIn(all, h.Wait.Type, tool.WaitPending, -1)
		all = countedIn(all, h.Wait.Type, WaitStatus(h.Status), 1)
	}
	return all, err
}

// countedIn changes the count of a type and a status.
func countedIn(all []WaitN, t tool.WaitType, status tool.WaitStatus, by int) []WaitN {
	i := slices.IndexFunc(all, func(n WaitN) bool { return n.Type == t && n.Status == status })
	if i < 0 {
		i = len(all)
		all = append(all, WaitN{Type: t, Status: status})
	}
	all[i].N = max(0, all[i].N+by)
	return slices.DeleteFunc(all, func(n WaitN) bool { return n.N == 0 })
}
