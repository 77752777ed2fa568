package session

import (
	"cmp"
	"context"
	"slices"
	"time"

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
		if h.due() {
			tx.put(waitDueKey(tx.ID, h), nil)
		}
		tx.countWait(h, 1)
	}
}

// unlistWait takes a handle out of the lists. It is as its record has it.
func (tx *Tx) unlistWait(h *Handle) {
	if h.Wait != nil {
		tx.delete(waitKey(tx.ID, h.Wait, WaitStatus(h.Status), h.Name))
		if h.due() {
			tx.delete(waitDueKey(tx.ID, h))
		}
		tx.countWait(h, -1)
	}
}

// countWait changes a count. Readers of the head see those before.
func (tx *Tx) countWait(h *Handle, by int) {
	tx.touch()
	tx.Waits = countedIn(slices.Clone(tx.Waits), h.Wait.Type, WaitStatus(h.Status), by)
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
// that there is. Those whose time is over are shown as ended.
func (s *Store) WaitHandles(
	ctx context.Context, st *State, f WaitFilter, limit int, now time.Time,
) (page []Handle, more bool, err error) {
	over, err := s.overdueWaits(ctx, st, now)
	if err != nil {
		return nil, false, err
	}
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
	for name, h := range over {
		n := WaitN{Type: h.Wait.Type, Status: WaitStatus(h.Status)}
		if f.selects(&n) && name > f.After {
			names = append(names, name)
		}
	}
	for i, n := range lists {
		again := slices.ContainsFunc(lists[:i], func(o WaitN) bool {
			return o.Type == n.Type && o.Status == n.Status
		})
		if again || !f.selects(&n) {
			continue
		}
		listed, err := s.waitNames(ctx, st.ID, &n, f.After, limit+1, over)
		if err != nil {
			return nil, false, err
		}
		names = append(names, listed...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) { // one that ends meanwhile may stand in two
		if len(page) == limit {
			return page, true, nil
		}
		if h := over[name]; h != nil {
			page = append(page, *h)
			continue
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

// waitNames returns so many names of a list, without those of handles that are
// over.
func (s *Store) waitNames(
	ctx context.Context, session string, n *WaitN, after string, most int, over map[string]*Handle,
) (names []string, err error) {
	r := kvstore.Range{Prefix: kvstore.Key("Y", session, string(n.Type), string(n.Status)), Limit: most}
	if after != "" {
		r.After = waitKey(session, &Wait{Type: n.Type}, n.Status, after)
	}
	for {
		got, err := s.kv.Scan(ctx, r)
		if err != nil {
			return nil, err
		}
		for _, e := range got.Entries {
			r.After = e.Key
			if name := lastPart(e.Key); over[name] == nil {
				names = append(names, name)
			}
		}
		if !got.More || len(names) >= most {
			return names, nil
		}
	}
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
	w.counts = countedIn(w.counts, kind, status, 1)
	if h.due() {
		w.keys[string(waitDueKey(session, h))] = true
	}
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
