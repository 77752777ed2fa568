package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/kvstore"
)

// What Check looks at of what the outside is told.

// notified reports what a session tells, or is to be reminded of, and no sender
// would find.
func (c *check) notified(ctx context.Context, st *State) error {
	for i := range st.Calls {
		p := st.Calls[i].Pause
		if p == nil || p.Remind.IsZero() {
			continue
		}
		key := reminderKey(p.Remind, st.ID, PauseID(st.Calls[i].ID, st.Calls[i].Pauses))
		if err := c.stands(ctx, st.ID, key, "the reminder of a pause is missing"); err != nil {
			return err
		}
	}
	if err := readable[sending](ctx, c, st.ID, sendingKey(st.ID)); err != nil {
		return err
	}
	first := true
	for e, err := range c.store.scan(ctx, kvstore.Key("N", st.ID)) {
		var n notifications
		if err == nil {
			err = decode(e.Key, e.Value, &n)
		}
		if err != nil {
			if err := c.judge(st.ID, keyName(e.Key), err); err != nil {
				return err
			}
			continue
		}
		if first { // which is enough: they are sent in order
			first = false
			if err := c.isSent(ctx, st.ID, keyName(e.Key), &n); err != nil {
				return err
			}
		}
	}
	return nil
}

// isSent reports what no sender would find. Its entry stands where it was put,
// or where a failure of the session is waited out.
func (c *check) isSent(ctx context.Context, session, key string, n *notifications) error {
	_, err := c.store.kv.Get(ctx, notifyKey(n.Place, session))
	if !errors.Is(err, kvstore.ErrNotFound) {
		return err
	}
	for e, err := range c.store.scan(ctx, kvstore.Key("O", shardOf(session))) {
		if err != nil {
			return err
		}
		if parts, err := kvstore.Parts(e.Key); err == nil && len(parts) == 4 && parts[3] == session {
			return nil
		}
	}
	return c.report(session, key, "it is to be sent, and its session is not in the index of that")
}

// stands reports an entry that is missing.
func (c *check) stands(ctx context.Context, session string, key []byte, what string) error {
	_, err := c.store.kv.Get(ctx, key)
	if errors.Is(err, kvstore.ErrNotFound) {
		return c.report(session, keyName(key), "%s", what)
	}
	return err
}

// outbound reports dead letters that can't be read, and what is no entry of the
// index. An entry of which nothing is left to tell is none too many: a sender
// removes it.
func (c *check) outbound(ctx context.Context) error {
	if err := readable[deadLetter](ctx, c, "", kvstore.Key("D")); err != nil {
		return err
	}
	for e, err := range c.store.scan(ctx, kvstore.Key("O")) {
		if err != nil {
			return err
		}
		parts, err := kvstore.Parts(e.Key)
		if err == nil && (len(parts) != 4 && len(parts) != 5 || parts[1] != shardOf(parts[3])) {
			err = fmt.Errorf("%w: %s", ErrCorrupt, keyName(e.Key))
		}
		if err != nil {
			const what = "it is no entry of the index of what is to be sent"
			if err := c.report("", keyName(e.Key), what); err != nil {
				return err
			}
		}
	}
	return nil
}
