package runner

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
)

// courier carries out what sessions owe each other, as soon as a commit of this
// process has made it due. What it can't do, it tries again while the runner is
// open. Whatever it leaves undone stands in the outbox, and in the wake index:
// a worker of any process goes on with it. All methods may be called from any
// goroutine.
type courier struct {
	rn *Runner

	mu       sync.Mutex                             // guards the rest; held over no call
	underway map[string]*carriage                   // by session
	unread   map[string][]*session.UndeliveredError // by session, see able
}

// carriage is what is carried out for one session.
type carriage struct {
	root  string        // of the tree whose callers wait for it; empty: none does
	again bool          // it is to be looked at once more
	rests bool          // until the next try
	wake  chan struct{} // gets a value when there is something new to try
	// a worker has left the session to the courier
	passed bool
}

const (
	firstErrandWait = 100 * time.Millisecond
	maxErrandWait   = time.Minute
)

// send carries out what a session owes, in a goroutine of its own. What is new
// is tried at once, however often others of its errands have failed.
func (c *courier) send(o session.Owing) {
	c.mu.Lock()
	now := c.underway[o.Session]
	begins := now == nil
	if begins {
		now = &carriage{wake: make(chan struct{}, 1)}
		c.underway[o.Session] = now
	}
	now.again = !begins
	if o.Root != "" {
		now.root = o.Root
	}
	if o.Fresh {
		select {
		case now.wake <- struct{}{}:
		default:
		}
	}
	c.mu.Unlock()
	if begins && !c.rn.drives.start(func() { c.deliver(o.Session, now) }) {
		c.forget(o.Session)
	}
}

// knows reports whether the courier is at work for a child just now, so that a
// worker who finds the child due needs to read nothing. Afterwards the courier
// has it driven, if it has work.
func (c *courier) knows(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.underway[id]
	if now == nil || now.rests {
		return false
	}
	now.passed = true
	return true
}

// has reports whether the courier carries out what a session owes, or rests
// until the next try.
func (c *courier) has(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.underway[id] != nil
}

func (c *courier) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.underway, id)
	delete(c.unread, id)
}

// deliver goes on until all is carried out, or the runner ends.
func (c *courier) deliver(id string, now *carriage) {
	ended := false
	defer func() {
		if !ended { // the engine has ended this goroutine
			c.forget(id)
		}
	}()
	for wait := firstErrandWait; ; {
		select {
		case <-now.wake: // it is looked at just now
		default:
		}
		err := c.once(id)
		c.mu.Lock()
		over := err == nil && !now.again || c.rn.closing.Err() != nil
		passed, root := now.passed, now.root
		now.again, now.rests, now.passed = false, err != nil, false
		if over {
			delete(c.underway, id)
		}
		c.mu.Unlock()
		if over || err != nil { // no commit tells the callers that wait for it
			c.rn.children.wake(root)
		}
		if passed {
			c.rn.attend(id)
		}
		switch {
		case over:
			ended = true
			return
		case err == nil:
			continue
		}
		c.rn.options.Logger.Warn("what a session owes others is tried again",
			"session", id, "error", err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			wait = min(2*wait, maxErrandWait)
		case <-now.wake:
			timer.Stop()
			wait = firstErrandWait
		case <-c.rn.closing.Done():
			timer.Stop()
		}
		c.mu.Lock()
		now.rests = false
		c.mu.Unlock()
	}
}

// busy reports whether anything is carried out just now that the callers of a
// tree wait for.
func (c *courier) busy(root string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, now := range c.underway {
		if now.root == root && !now.rests {
			return true
		}
	}
	return false
}

// once tries what a session owes, and has the children that were told something
// driven.
func (c *courier) once(id string) error {
	told, err := c.rn.store.Deliver(c.rn.closing, id)
	c.note(id, err)
	for _, to := range told {
		c.rn.attend(to)
	}
	// What can't be told others keeps nothing from being called off.
	return errors.Join(unlessUnknown(err), unlessUnknown(c.rn.undoer.look(id)))
}

// unlessUnknown drops the error that a session is gone: so is what it owed.
func unlessUnknown(err error) error {
	if errors.Is(err, session.ErrUnknownSession) {
		return nil
	}
	return err
}

// note keeps which errands of a session could not be carried out since something
// can't be read that is needed for them.
func (c *courier) note(id string, err error) {
	unread := slices.DeleteFunc(session.Undelivered(err), func(u *session.UndeliveredError) bool {
		return !unreadable(u)
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(unread) == 0 {
		delete(c.unread, id)
		return
	}
	if c.unread == nil {
		c.unread = map[string][]*session.UndeliveredError{}
	}
	c.unread[id] = unread
}

// able returns a head with what a session owes, but for what can't be carried
// out since something can't be read. That is tried again, but callers don't wait
// for it.
func (c *courier) able(st *session.State) *session.State {
	c.mu.Lock()
	unread := c.unread[st.ID]
	c.mu.Unlock()
	if len(unread) == 0 {
		return st
	}
	return &session.State{Outbox: slices.DeleteFunc(slices.Clone(st.Outbox),
		func(e session.Errand) bool {
			return slices.ContainsFunc(unread,
				func(u *session.UndeliveredError) bool { return u.Errand.Same(&e) })
		})}
}

// untold returns the error that keeps a child's end from its parent, if that is
// that something can't be read.
func (c *courier) untold(child *session.State) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range c.unread[child.ID] {
		if u.Errand.Kind == session.ErrandEnd && child.Tells() {
			return u
		}
	}
	return nil
}

// attend has a child driven that has work, if its agent is here. A root has
// callers and workers for that.
func (rn *Runner) attend(id string) {
	st, err := rn.store.Load(rn.closing, id)
	if unlessUnknown(err) != nil && rn.closing.Err() == nil {
		rn.options.Logger.Warn("a child that was told something can't be read: "+
			"who follows its root, or a worker, has it driven", "session", id, "error", err)
	}
	if err != nil || st.Parent == nil || rn.agents[st.Agent] == nil {
		return
	}
	if rn.store.Next(st).Working() {
		rn.children.start(st.Root(), id)
	}
}
