package session

import (
	"cmp"
	"context"
	"slices"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// Lists and counts of a session's wait handles. Both change with the commits
// that make, end and forget handles. So they tell the truth, a count reads
// nothing but the head, and a page what it shows.

// WaitN is how many wait handles of a type have a status.
type WaitN struct {
	Type   tool.WaitType   `json:"type"`
	Status tool.WaitStatus `json:"status"`
	N      int             `json:"n"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// ended is 0 for those that are pending, and 1 for the others.
func (n *WaitN) ended() int {
	if n.Status == tool.WaitPending {
		return 0
	}
	return 1
}

func waitKey(session string, w *Wait, s tool.WaitStatus, name string) []byte {
	return kvstore.Key("Y", session, string(w.Type), string(s), name)
}

// listWait lists a handle, if it is a wait handle.
func (tx *Tx) listWait(h *Handle) {
	if h.Wait != nil {
		tx.put(waitKey(tx.ID, h.Wait, WaitStatus(h.Status), h.Name), nil)
		tx.countWait(h, 1)
	}
}

// unlistWait takes a handle out of the lists. It is as its record has it.
func (tx *Tx) unlistWait(h *Handle) {
	if h.Wait != nil {
		tx.delete(waitKey(tx.ID, h.Wait, WaitStatus(h.Status), h.Name))
		tx.countWait(h, -1)
	}
}

// countWait changes a count. Readers of the head see those before.
func (tx *Tx) countWait(h *Handle, by int) {
	tx.touch()
	own := slices.Clone(tx.Waits)
	kind, status := h.Wait.Type, WaitStatus(h.Status)
	i := slices.IndexFunc(own, func(n WaitN) bool { return n.Type == kind && n.Status == status })
	if i < 0 {
		i = len(own)
		own = append(own, WaitN{Type: kind, Status: status})
	}
	own[i].N = max(0, own[i].N+by)
	tx.Waits = slices.DeleteFunc(own, func(n WaitN) bool { return n.N == 0 })
}

// checkWaits returns what is wrong with the counts of wait handles.
func (s *State) checkWaits() error {
	for _, n := range s.Waits {
		if n.Type == "" || n.Status == "" || n.N < 1 {
			return errIncomplete
		}
	}
	return nil
}

// WaitFilter selects wait handles of a session. Empty fields select all.
type WaitFilter struct {
	Type   tool.WaitType
	Status tool.WaitStatus
	After  string // those whose names come after this one
}

// selects reports whether a filter selects handles of a type and a status.
func (f *WaitFilter) selects(n *WaitN) bool {
	return (f.Type == "" || f.Type == n.Type) && (f.Status == "" || f.Status == n.Status)
}

// WaitHandles returns a page of a session's wait handles, in the order of their
// names, and whether there are more. One list is read for each type and status
// that there is.
func (s *Store) WaitHandles(
	ctx context.Context, st *State, f WaitFilter, limit int,
) (page []Handle, more bool, err error) {
	// A handle that ends meanwhile leaves the list of those that are pending. So
	// that one is read first: it is found there, or where it has gone.
	lists := slices.Clone(st.Waits)
	for _, n := range st.Waits {
		if n.Status == tool.WaitPending {
			for _, end := range tool.WaitStatuses()[1:] {
				lists = append(lists, WaitN{Type: n.Type, Status: end})
			}
		}
	}
	slices.SortStableFunc(lists, func(a, b WaitN) int {
		return cmp.Compare((&a).ended(), (&b).ended())
	})
	var names []string
	for i, n := range lists {
		again := slices.ContainsFunc(lists[:i], func(o WaitN) bool {
			return o.Type == n.Type && o.Status == n.Status
		})
		if again || !f.selects(&n) {
			continue
		}
		r := kvstore.Range{Prefix: kvstore.Key("Y", st.ID, string(n.Type), string(n.Status)),
			Limit: limit + 1}
		if f.After != "" {
			r.After = waitKey(st.ID, &Wait{Type: n.Type}, n.Status, f.After)
		}
		got, err := s.kv.Scan(ctx, r)
		if err != nil {
			return nil, false, err
		}
		for _, e := range got.Entries {
			names = append(names, lastPart(e.Key))
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) { // one that ends meanwhile may stand in two
		if len(page) == limit {
			return page, true, nil
		}
		var h Handle
		found, err := s.kv.record(ctx, handleKey(st.ID, name), &h)
		if err != nil {
			return nil, false, err
		}
		if found && h.Wait != nil && (f.Status == "" || f.Status == WaitStatus(h.Status)) {
			page = append(page, h)
		}
	}
	return page, false, nil
}

// sortWaits orders counts, for Check.
func sortWaits(all []WaitN) []WaitN {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b WaitN) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Status, b.Status))
	})
	return all
}

// waitCheck gathers wait handles from their records, for Check.
type waitCheck struct {
	counts []WaitN
	keys   map[string]bool // that lists must have
}

func (w *waitCheck) add(session string, h *Handle) {
	if h.Wait == nil {
		return
	}
	if w.keys == nil {
		w.keys = map[string]bool{}
	}
	kind, status := h.Wait.Type, WaitStatus(h.Status)
	w.keys[string(waitKey(session, h.Wait, status, h.Name))] = true
	i := slices.IndexFunc(w.counts, func(n WaitN) bool { return n.Type == kind && n.Status == status })
	if i < 0 {
		i = len(w.counts)
		w.counts = append(w.counts, WaitN{Type: kind, Status: status})
	}
	w.counts[i].N++
}

// waitsListed reports lists and counts that are not those of the records.
func (c *check) waitsListed(ctx context.Context, st *State, w *waitCheck) error {
	has, want := sortWaits(st.Waits), sortWaits(w.counts)
	same := slices.EqualFunc(has, want, func(a, b WaitN) bool {
		return a.Type == b.Type && a.Status == b.Status && a.N == b.N
	})
	if !same {
		err := c.report(st.ID, "head", "it counts %d kinds of wait handles, and their records have "+
			"other counts, of %d kinds", len(has), len(want))
		if err != nil {
			return err
		}
	}
	for e, err := range c.store.scan(ctx, kvstore.Key("Y", st.ID)) {
		switch {
		case err != nil:
			return err
		case w.keys[string(e.Key)]:
			delete(w.keys, string(e.Key))
		default:
			err := c.report(st.ID, keyName(e.Key), "no wait handle stands there by its record")
			if err != nil {
				return err
			}
		}
	}
	for key := range w.keys {
		if err := c.report(st.ID, keyName([]byte(key)), "a wait handle is missing there"); err != nil {
			return err
		}
	}
	return nil
}
