package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// Wait handles of wider scopes are no session's children: they lie beside all
// sessions, in package wide, and share no commit with one. What a session is
// told of them it counts once, by a receipt of its own.

// Engine is the way to the store's engine, for records that lie beside those of
// the sessions.
type Engine struct{ kv *engine }

// Engine returns the way to the store's engine.
func (s *Store) Engine() Engine { return Engine{s.kv} }

// Get is the engine's.
func (e Engine) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	return e.kv.Get(ctx, key)
}

// Scan is the engine's.
func (e Engine) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	return e.kv.Scan(ctx, r)
}

// Apply is the engine's.
func (e Engine) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	return e.kv.Apply(ctx, b)
}

// WaitScope returns the scope of the wait handles of a user, or of everyone on
// the store, as records have it.
func WaitScope(scope tool.WaitScope, user string) string {
	if scope == tool.UserScope {
		return userScope + user
	}
	return string(scope)
}

const userScope = "user:"

// ScopeOf returns what the scope of a record is for a tool.
func ScopeOf(scope string) tool.WaitScope {
	if strings.HasPrefix(scope, userScope) {
		return tool.UserScope
	}
	return tool.WaitScope(scope)
}

// ScopeUser returns whose scope it is; empty: no user's.
func ScopeUser(scope string) string {
	user, _ := strings.CutPrefix(scope, userScope)
	if len(user) == len(scope) {
		return ""
	}
	return user
}

func waitsTopic(scope string) string { return "waits " + scope }

// SignalWaits tells who watches that a wait handle of a scope has changed, and
// whether one is due at another time by that.
func (s *Store) SignalWaits(scope string, due bool) {
	s.signal(waitsTopic(scope))
	if due {
		s.signal(dueWaits)
	}
}

const dueWaits = "due waits"

// WatchWaits returns a channel that gets a value when a wait handle of a scope
// has changed, as far as signals reach this process.
func (s *Store) WatchWaits(scope string) (c <-chan struct{}, stop func()) {
	return s.listenFor(waitsTopic(scope))
}

// WatchDueWaits returns a channel that gets a value when a wait handle is due at
// another time, as far as signals reach this process.
func (s *Store) WatchDueWaits() (c <-chan struct{}, stop func()) { return s.listenFor(dueWaits) }

// WaitingCall is a call that waits for a wait handle: at which pause, as which
// of that pause's list, and for what.
type WaitingCall struct {
	Call  string `json:"call"`
	Pause int    `json:"pause"`
	N     int    `json:"n,omitzero"`
	All   bool   `json:"all,omitzero"`
	Any   bool   `json:"any,omitzero"`
}

// waitReceipt notes that an await has counted the end of one of its list.
type waitReceipt struct {
	Well bool      `json:"well,omitzero"`
	At   time.Time `json:"at"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

func (r *waitReceipt) check() error {
	if r.At.IsZero() {
		return errIncomplete
	}
	return nil
}

func waitReceiptKey(session, call string, pause, n int) []byte {
	return kvstore.Key("V", session, call, padded(pause, 6), padded(n, 5))
}

// TellWait tells a session that a handle has ended for which some of its calls
// wait. One that is gone, or waits no more, needs not know.
func (s *Store) TellWait(ctx context.Context, id string, calls []WaitingCall, well bool) error {
	return unlessGone(s.tell(ctx, id, func(tx *Tx) error {
		for _, c := range calls {
			if err := tx.WaitEnded(c, well); err != nil {
				return err
			}
		}
		return nil
	}))
}

// unlessGone drops the error that a session is gone.
func unlessGone(err error) error {
	if errors.Is(err, ErrUnknownSession) || errors.Is(err, ErrDeleted) {
		return nil
	}
	return err
}

// WaitEnded counts the end of a handle that an await waits for, once.
func (tx *Tx) WaitEnded(w WaitingCall, well bool) error {
	c, err := tx.openAwait(awaitedBy{Call: w.Call, Pause: w.Pause})
	if c == nil || c.Pause.Await.Scope == "" {
		return err
	}
	if err := tx.waitCounted(c, w, well); err != nil {
		return err
	}
	tx.endAwait(c)
	return nil
}

// waitCounted counts the end, unless that is done.
func (tx *Tx) waitCounted(c *Call, w WaitingCall, well bool) error {
	key := waitReceiptKey(tx.ID, c.ID, w.Pause, w.N)
	found, err := tx.read(key, new(waitReceipt))
	if err != nil || found {
		return err
	}
	tx.putJSON(key, &waitReceipt{Well: well, At: tx.Now})
	c.ownAwait().count(w.All, w.Any, well)
	return nil
}

// RegisteredWaits notes that the next handles of an await know of it, from number
// from on, and counts those that had ended.
func (tx *Tx) RegisteredWaits(call string, pause, from, n int, over []WaitOver) error {
	c, err := tx.live(call)
	if err != nil {
		return err
	}
	if !c.Registering() || c.Pauses != pause || c.Pause.Await.Registered != from ||
		from+n > c.Pause.Await.Size || c.Pause.Await.Scope == "" {
		return fmt.Errorf("%w: call %s registers at another place", ErrStale, call)
	}
	tx.touch()
	c.ownAwait().Registered += n
	for _, o := range over {
		if err := tx.waitCounted(c, o.WaitingCall, o.Well); err != nil {
			return err
		}
	}
	tx.endAwait(c)
	return nil
}

// WaitOver is a handle of an await that had ended when it was to know of that.
type WaitOver struct {
	WaitingCall
	Well bool
}

// PermitWish is a permit that a pause waits for: of how many, if they are yet to
// be made, and how urgently.
type PermitWish struct {
	Name     string `json:"name"` // of the handle
	Most     int    `json:"most"`
	Priority int    `json:"priority,omitzero"`
	// Before: the pause comes before the tool's own body. Unbegun: that was not
	// entered before either.
	Before  bool `json:"before,omitzero"`
	Unbegun bool `json:"unbegun,omitzero"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// HeldPermit is a permit that a call has: of which handle, and by which pause.
type HeldPermit struct {
	Scope string `json:"scope"`
	Name  string `json:"name"`
	Call  string `json:"call,omitzero"` // in a head it is the call that has it
	Pause int    `json:"pause"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

func (p *HeldPermit) sameHandle(o HeldPermit) bool {
	return p.Scope == o.Scope && p.Name == o.Name
}

func (p *HeldPermit) same(o HeldPermit) bool {
	return p.sameHandle(o) && p.Pause == o.Pause
}

func (p *HeldPermit) check() error {
	if p.Scope == "" || p.Name == "" || p.Pause < 1 {
		return errors.New("a permit is incomplete")
	}
	return nil
}

// TellPermit tells a call that it has a permit, and reports whether it takes it,
// or has taken it before and not settled since.
func (s *Store) TellPermit(ctx context.Context, id string, p HeldPermit) (held bool, err error) {
	err = unlessGone(s.tell(ctx, id, func(tx *Tx) (err error) {
		held, err = tx.TakePermit(p)
		return err
	}))
	return held && err == nil, err
}

// TakePermit gives a call the permit that its pause waits for. Its tool is
// entered again.
func (tx *Tx) TakePermit(p HeldPermit) (held bool, err error) {
	own := p
	own.Call = ""
	if c := tx.Call(p.Call); c != nil && slices.ContainsFunc(c.Permits, func(o HeldPermit) bool {
		return o.same(own)
	}) {
		return true, nil
	}
	c, err := tx.openAwait(awaitedBy{Call: p.Call, Pause: p.Pause})
	if c == nil || c.Pause.Await.Permit == nil {
		return false, err
	}
	c.Permits = append(c.Permits[:len(c.Permits):len(c.Permits)], own)
	tx.outdates()
	if a := c.Answer; a != nil && slices.ContainsFunc(a.GivenBack, own.sameHandle) {
		tx.takeAgain(c, &own)
	} else {
		tx.goOnFrom(c, &Answer{})
	}
	return true, nil
}

// takeAgain ends the pause of a call whose entry had given the permit back, was
// cut off or tried again, and goes on with the answer that it had.
func (tx *Tx) takeAgain(c *Call, p *HeldPermit) {
	tx.unlist(c)
	own := *c.Answer
	own.GivenBack = slices.DeleteFunc(slices.Clone(own.GivenBack), p.sameHandle)
	c.Answer, c.Pause, c.Status = &own, nil, Answered
	tx.touch()
	tx.gotOn()
}

// givePermitsBack owes what a call holds to its handles, since the call is over,
// and the claim to what it waits for.
func (tx *Tx) givePermitsBack(c *Call) {
	tx.giveClaimUp(c)
	for _, p := range c.Permits {
		tx.oweRelease(c, p)
	}
	c.Permits = nil
}

// giveClaimUp owes the handle that it forgets the claim of a call's open pause,
// unless the call has the permit.
func (tx *Tx) giveClaimUp(c *Call) {
	if c.Pause == nil || c.Pause.Await == nil || c.Pause.Await.Permit == nil {
		return
	}
	a := c.Pause.Await
	p := HeldPermit{Scope: a.Scope, Name: a.Permit.Name, Pause: c.Pauses}
	if !slices.ContainsFunc(c.Permits, p.same) {
		tx.oweRelease(c, p)
	}
}

func (tx *Tx) oweRelease(c *Call, p HeldPermit) {
	p.Call = c.ID
	tx.owe(Errand{Kind: ErrandRelease, Call: c.ID, Number: p.Pause, Permit: &p})
}

// ReleasePermit takes a permit from a call that goes on, and owes it to its
// handle. A call that has none has given it back.
func (s *Store) ReleasePermit(ctx context.Context, id, call, scope, name string) error {
	return s.tell(ctx, id, func(tx *Tx) error {
		c := tx.Call(call)
		if c == nil {
			return nil
		}
		var left, back []HeldPermit // readers of the head see those before
		for _, p := range c.Permits {
			if p.Scope == scope && p.Name == name {
				tx.oweRelease(c, p)
				back = append(back, p)
			} else {
				left = append(left, p)
			}
		}
		c.Permits = left
		if c.Answer != nil && len(back) > 0 { // its body does that, in the entry of that answer
			own := *c.Answer
			own.Unbegun, own.GivenBack = false, slices.Concat(own.GivenBack, back)
			c.Answer = &own
		}
		return nil
	})
}

// OnRelease has f carry out the errands that give permits back.
func (s *Store) OnRelease(f func(ctx context.Context, session string, p HeldPermit) error) {
	s.release.Store(&f)
}

// giveBack gives a permit back.
func (s *Store) giveBack(ctx context.Context, session string, p *HeldPermit) error {
	f := s.release.Load()
	if f == nil {
		return errors.New("session: this store gives no permits back: only that of a runner does")
	}
	return (*f)(ctx, session, *p)
}
