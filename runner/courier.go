package runner

import (
	"errors"
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

	mu       sync.Mutex           // guards the rest; held over no call
	underway map[string]*carriage // by session
	resting  int                  // of those, how many wait for their next try
}

// carriage is what is carried out for one session.
type carriage struct {
	again  bool // it is to be looked at once more
	rests  bool // until the next try
	passed bool // a worker has left the session to the courier
}

const (
	firstErrandWait = 100 * time.Millisecond
	maxErrandWait   = time.Minute
)

// send carries out what a session owes, in a goroutine of its own.
func (c *courier) send(id string) {
	c.mu.Lock()
	now := c.underway[id]
	if now == nil {
		c.underway[id] = &carriage{}
	} else {
		now.again = true
	}
	c.mu.Unlock()
	if now == nil && !c.rn.drives.start(func() { c.deliver(id) }) {
		c.mu.Lock()
		delete(c.underway, id)
		c.mu.Unlock()
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

// deliver goes on until all is carried out, or the runner ends.
func (c *courier) deliver(id string) {
	ended := false
	defer func() {
		if !ended { // the engine has ended this goroutine
			c.mu.Lock()
			delete(c.underway, id)
			c.mu.Unlock()
		}
	}()
	for wait := firstErrandWait; ; {
		err := c.once(id)
		c.mu.Lock()
		now := c.underway[id]
		over := err == nil && !now.again || c.rn.closing.Err() != nil
		passed := now.passed
		*now = carriage{rests: err != nil}
		switch {
		case over:
			delete(c.underway, id)
		case err != nil:
			c.resting++
		}
		c.mu.Unlock()
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
		case <-c.rn.closing.Done():
			timer.Stop()
		}
		c.mu.Lock()
		now.rests = false
		c.resting--
		c.mu.Unlock()
	}
}

// busy reports whether anything is carried out just now.
func (c *courier) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.underway) > c.resting
}

// once tries what a session owes, and has the children that were told something
// driven.
func (c *courier) once(id string) error {
	told, err := c.rn.store.Deliver(c.rn.closing, id)
	for _, to := range told {
		c.rn.attend(to)
	}
	if err == nil {
		err = c.rn.undoer.look(id)
	}
	if errors.Is(err, session.ErrUnknownSession) { // its tombstone is gone by now
		err = nil
	}
	return err
}

// attend has a child driven that has work, if its agent is here. A root has
// callers and workers for that.
func (rn *Runner) attend(id string) {
	st, err := rn.store.Load(rn.closing, id)
	if err != nil || st.Parent == nil || rn.agents[st.Agent] == nil {
		return
	}
	if rn.store.Next(st).Working() {
		rn.children.start(st.Root(), id)
	}
}
