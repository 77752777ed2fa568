package runner

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
)

// children drives the sessions that calls have made. They belong to the runner
// and not to the caller of a Run: they go on when that one leaves, until Close.
// They have places of their own, so that a worker full of parents doesn't keep
// the children that these wait for from working; roots take turns for them. All
// methods may be called from any goroutine.
type children struct {
	rn     *Runner
	places places
	// of those that are handles: what these run may run for days
	handles places
	later   timers // of children that are to be tried again

	mu    sync.Mutex // guards the rest; held over no call
	trees map[string]*tree
	roots map[string]string     // of the children that are driven or wait for a place
	owing map[string]bool       // driven children whose errands are carried out afterwards
	queue []string              // roots whose children wait for a place, in turn
	shown map[*onEvent]struct{} // the workers that see all events
}

// onEvent is what a worker shows events with.
type onEvent func(sessionID string, ev event.Event, err error)

// tree is what is known here of the children below one root.
type tree struct {
	waiting []string        // for a place
	driven  map[string]bool // true: to be looked at once more
	ears    []*ear
}

func newChildren(rn *Runner, room, handles int) *children {
	c := &children{rn: rn, places: newPlaces(room, heldEach*room), handles: newPlaces(handles, 0),
		trees: map[string]*tree{}, roots: map[string]string{}, owing: map[string]bool{},
		shown: map[*onEvent]struct{}{}}
	c.places.fill = c.fill
	return c
}

// tree returns the tree of a root. The caller holds the lock.
func (c *children) tree(root string) *tree {
	t := c.trees[root]
	if t == nil {
		t = &tree{driven: map[string]bool{}}
		c.trees[root] = t
	}
	return t
}

// drop forgets a tree of which nothing is known. The caller holds the lock.
func (c *children) drop(root string) {
	if t := c.trees[root]; len(t.waiting)+len(t.driven)+len(t.ears) == 0 {
		delete(c.trees, root)
	}
}

// start has a child driven, as soon as there is a place. One that is driven
// just now is looked at once more afterwards.
func (c *children) start(root, id string) {
	c.mu.Lock()
	t := c.tree(root)
	_, driven := t.driven[id]
	switch _, waits := c.roots[id]; {
	case driven:
		t.driven[id] = true
	case !waits:
		t.waiting, c.roots[id] = append(t.waiting, id), root
		if len(t.waiting) == 1 {
			c.queue = append(c.queue, root)
		}
	}
	c.mu.Unlock()
	c.fill()
}

// fill gives the places that are free to the children of the roots in turn.
func (c *children) fill() {
	for {
		root, id, s := c.next()
		if s == nil {
			if !c.places.grant() {
				return
			}
			continue
		}
		begun := c.rn.drives.start(func() {
			err := errNotDriven
			defer func() { c.ended(root, id, err) }()
			err = c.drive(root, id, s)
		})
		if !begun {
			c.ended(root, id, ErrClosed)
		}
	}
}

// next takes a place for a child; nil: none waits, or there is no place.
func (c *children) next() (root, id string, s *seat) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := 0; i < len(c.queue); {
		root = c.queue[i]
		t := c.trees[root]
		at, taken := c.first(t)
		if at < 0 { // the places are taken that its children need
			i++
			continue
		}
		id = t.waiting[at]
		t.waiting = slices.Delete(t.waiting, at, at+1)
		c.queue = slices.Delete(c.queue, i, i+1)
		if len(t.waiting) > 0 {
			c.queue = append(c.queue, root)
		}
		if taken != nil {
			t.driven[id] = false
			return root, id, taken
		}
		delete(c.roots, id)
		c.drop(root) // it is left alone for a while: it could not be driven
	}
	return "", "", nil
}

// first takes a place for the first of a tree's children that there is one for,
// and returns where it stands; negative: there is none. Without taken it is to
// be left alone. The caller holds the lock.
func (c *children) first(t *tree) (at int, taken *seat) {
	var full *places
	for i, id := range t.waiting {
		p := c.placesOf(id)
		if p == full {
			continue
		}
		if s, room := p.take(session.Due{Session: id}); room {
			return i, s
		}
		if full != nil {
			break
		}
		full = p
	}
	return -1, nil
}

// placesOf returns the places that a child takes one of.
func (c *children) placesOf(id string) *places {
	if session.IsHandle(id) {
		return &c.handles
	}
	return &c.places
}

// ended gives a child's place back. One that another process drives is tried
// again soon, and not when that one's lease would end: it may be given up any
// time. Who has it tried (a follower, a worker) first looks whether it is held.
func (c *children) ended(root, id string, err error) {
	if errors.Is(err, session.ErrBusy) {
		err = session.ErrBusy
	}
	c.placesOf(id).giveBack(session.Due{Session: id}, err, c.rn.store.Now())
	c.mu.Lock()
	t := c.trees[root]
	again := t.driven[id] && err == nil
	owes := c.owing[id]
	delete(t.driven, id)
	delete(c.roots, id)
	delete(c.owing, id)
	for _, e := range t.ears {
		e.wake()
	}
	c.drop(root)
	c.mu.Unlock()
	if owes {
		c.rn.courier.send(session.Owing{Session: id, Root: root, Fresh: true})
	}
	if again {
		c.start(root, id)
		return
	}
	c.again(root, id, err)
	if !errors.Is(err, ErrClosed) {
		c.fill()
	}
}

// again has a child that could not be driven tried again, as long as the runner
// is open: the caller may have left, and there need be no worker. One that
// another process drives is that one's, and so is one whose agent isn't here.
func (c *children) again(root, id string, err error) {
	if err == nil || isAny(err, session.ErrBusy, session.ErrUnknownSession, ErrClosed, ErrUnknownAgent) {
		return
	}
	until, _ := c.placesOf(id).failed(id)
	c.later.set(id, time.Until(until), func() { c.start(root, id) })
}

// unread returns the error of a child's last drive, if that is that something
// can't be read. The child is tried again, but callers don't wait for it.
func (c *children) unread(id string) error {
	if _, err := c.placesOf(id).failed(id); err != nil && unreadable(err) {
		return err
	}
	return nil
}

// known reports whether a child is driven here, or waits for a place. One that
// is driven is looked at once more afterwards.
func (c *children) known(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	root, ok := c.roots[id]
	if t := c.trees[root]; ok {
		if _, driven := t.driven[id]; driven {
			t.driven[id] = true
		}
	}
	return ok
}

// owes takes note that a session has errands to carry out. Those of a child
// whose run is over wait until its events are shown: what its parent does next
// is shown after them.
func (c *children) owes(o session.Owing) {
	c.mu.Lock()
	root, here := c.roots[o.Session]
	if here && o.Over {
		if _, here = c.trees[root].driven[o.Session]; here {
			c.owing[o.Session] = true
		}
	}
	c.mu.Unlock()
	if !here || !o.Over {
		c.rn.courier.send(o)
	}
}

// busy reports whether children of a root are driven here, or wait for a place.
func (c *children) busy(root string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.trees[root]
	return t != nil && len(t.waiting)+len(t.driven) > 0
}

// followed reports whether a caller of this process ranges over the events of a
// root, and will take it again when it has work.
func (c *children) followed(root string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.trees[root]
	return t != nil && len(t.ears) > 0
}

// drive drives one child, under one agent after the other if they hand it over.
func (c *children) drive(root, id string, s *seat) error {
	for {
		if handed, err := c.once(root, id, s); err != nil || !handed {
			return err
		}
	}
}

// once is one drive of a child, whose events it shows. It reports whether
// another agent has taken the child over.
func (c *children) once(root, id string, s *seat) (handed bool, failed error) {
	d, err := c.rn.newDrive(context.Background(), id, nil)
	switch {
	case errors.Is(err, session.ErrDeleted):
		c.rn.courier.send(session.Owing{Session: id, Root: root})
		return false, nil
	case err != nil:
		if !isAny(err, session.ErrBusy, ErrClosed, ErrUnknownAgent) {
			c.rn.options.Logger.Error("a child could not be driven", "session", id, "error", err)
		}
		return false, err
	}
	if at := d.lease.NotUntil(); at.After(c.rn.store.Now()) {
		d.drop()
		return false, &backsOff{at}
	}
	if d.idle() { // the drive before this one has seen it all
		d.drop()
		return false, nil
	}
	if !session.IsHandle(id) { // those may run for days: their places are for that
		d.sit(s)
	}
	nested := event.Nested{Session: id, Agent: d.agent.Name()}
	d.lease.View(func(st *session.State) {
		if st.Parent != nil {
			nested.Path = st.Parent.Path
		}
	})
	for ev, err := range d.events(nil) {
		if err != nil {
			failed = err
			if !errors.Is(err, ErrClosed) {
				c.rn.logEnd("a child could not be carried on", id, err)
			}
		}
		if end, ok := ev.(event.End); ok && end.Finish == event.FinishDelayed {
			c.later.set(id, end.Until.Sub(c.rn.store.Now()), func() { c.start(root, id) })
		}
		c.show(root, nested, ev, err)
	}
	return d.closing.handed, failed
}

// show shows an event of a child to those that listen to its root, and to the
// workers.
func (c *children) show(root string, nested event.Nested, ev event.Event, err error) {
	c.mu.Lock()
	var ears []*ear
	if t := c.trees[root]; t != nil {
		ears = slices.Clone(t.ears)
	}
	workers := make([]*onEvent, 0, len(c.shown))
	for f := range c.shown {
		workers = append(workers, f)
	}
	c.mu.Unlock()
	for _, f := range workers {
		(*f)(nested.Session, event.Clone(ev), err)
	}
	if err != nil {
		return // the log has it; the child's parent is told how the run ended
	}
	nested.Event = ev
	waited := false
	waits := func() {
		if !waited {
			waited = true
			c.places.lend(nested.Session)
			c.fill()
		}
	}
	for _, e := range ears {
		e.hear(event.Clone(nested).(event.Nested), c.rn.closing, waits)
	}
	if waited {
		c.places.takeBack(nested.Session)
	}
}

// tell shows all events of children to a worker, until stop.
func (c *children) tell(f onEvent) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown[&f] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.shown, &f)
	}
}
