package session

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// Problem is something that Check found wrong.
type Problem struct {
	Session string // empty: not of one session
	Key     string // of the record, as text; empty: of the session as a whole
	What    string
}

func (p Problem) String() string {
	return fmt.Sprintf("session %q, %s: %s", p.Session, p.Key, p.What)
}

// Check goes through the whole store and lists what is wrong with it: records
// that can't be read, histories with gaps or calls without results, payloads
// that are missing, sessions that stand at the wrong place in the wake index or
// not in it, handles whose sessions and counts don't go together. It changes
// nothing. What changes while it runs may be listed in error; a store at rest
// is checked exactly. The error of an item is that of the engine, and ends the
// list.
func (s *Store) Check(ctx context.Context) iter.Seq2[Problem, error] {
	return func(yield func(Problem, error) bool) {
		c := &check{store: s, now: s.Now(), yield: yield}
		for e, err := range s.scan(ctx, kvstore.Key("h")) {
			if err == nil {
				err = c.session(ctx, e)
			}
			if errors.Is(err, errStop) {
				return
			}
			if err != nil {
				yield(Problem{}, err)
				return
			}
		}
		if err := c.whole(ctx); err != nil && !errors.Is(err, errStop) {
			yield(Problem{}, err)
		}
	}
}

// errStop: the caller has left the list.
var errStop = errors.New("stop")

// check is one run of Check. The goroutine that ranges over the problems has it.
// Each of its methods returns errStop when the caller has left, and otherwise the
// engine's errors: damage is reported, and no error.
type check struct {
	store *Store
	now   time.Time
	yield func(Problem, error) bool
}

func (c *check) report(session, key, format string, args ...any) error {
	if !c.yield(Problem{session, key, fmt.Sprintf(format, args...)}, nil) {
		return errStop
	}
	return nil
}

// judge reports an error that tells of damage, and passes others on.
func (c *check) judge(session, key string, err error) error {
	if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrNewerVersion) {
		return c.report(session, key, "%v", err)
	}
	return err
}

func (c *check) session(ctx context.Context, e kvstore.Entry) error {
	id := keyName(e.Key)
	if parts, err := kvstore.Parts(e.Key); err == nil && len(parts) == 2 {
		id = parts[1]
	}
	st, err := c.store.decodeHead(ctx, e)
	if err != nil {
		return c.judge(id, "head", err)
	}
	parts := []func(context.Context, *State) error{c.family, c.history, c.calls, c.handles, c.notified,
		c.queue, c.wake}
	if !st.Deleted.IsZero() {
		parts = []func(context.Context, *State) error{c.payloads, c.wake, c.notified}
	}
	for _, part := range parts {
		if err := part(ctx, st); err != nil {
			return err
		}
	}
	return nil
}

// history reports calls without their results, and results without their calls.
func (c *check) history(ctx context.Context, st *State) error {
	history, err := c.store.History(ctx, st, 0)
	if err != nil {
		return c.judge(st.ID, "history", err)
	}
	var open []llm.ToolCall
	for n, m := range history {
		var results []llm.ToolResult
		for _, p := range m.Parts {
			if r, ok := p.(llm.ToolResult); ok {
				results = append(results, r)
			}
		}
		ok := len(results) == len(open)
		for i := 0; ok && i < len(results); i++ {
			ok = results[i].Call == open[i].ID
		}
		if !ok {
			return c.report(st.ID, fmt.Sprintf("message %d", n),
				"%d calls were asked for before it, and it does not hold their results in order",
				len(open))
		}
		open = m.ToolCalls()
	}
	if len(open) > 0 != (len(st.Calls) > 0) || len(st.Calls) > len(open) {
		return c.report(st.ID, "head", "%d calls are open, and the last message asks for %d",
			len(st.Calls), len(open))
	}
	for i := range st.Calls {
		if st.Calls[i].ID != open[i].ID {
			return c.report(st.ID, "head", "call %d is %s, and the last message asks for %s",
				i, st.Calls[i].ID, open[i].ID)
		}
	}
	return nil
}

// payloads reports payloads of the head that are missing or damaged.
func (c *check) payloads(ctx context.Context, st *State) (err error) {
	st.blobs(func(b *Blob) {
		if _, e := c.store.Value(ctx, st.ID, b); e != nil && err == nil {
			err = c.judge(st.ID, "head", e)
		}
	})
	return err
}

// calls reports what is missing or damaged of the calls of the open turn, and
// of the records.
func (c *check) calls(ctx context.Context, st *State) error {
	if err := c.payloads(ctx, st); err != nil {
		return err
	}
	for i := range st.Calls {
		call := &st.Calls[i]
		switch call.Status {
		case Pending:
			if err := c.entries(ctx, st, call); err != nil {
				return err
			}
		case Settled:
			if _, _, err := c.store.Record(ctx, st.ID, call.ID); err != nil {
				const what = "it is settled, and has no record: %v"
				if err := c.report(st.ID, "call "+call.ID, what, err); err != nil {
					return err
				}
			}
		}
	}
	for e, err := range c.store.scan(ctx, kvstore.Key("c", st.ID)) {
		if err != nil {
			return err
		}
		if err := c.record(ctx, st, e); err != nil {
			return err
		}
	}
	if err := readable[storedReceipt](ctx, c, st.ID, kvstore.Key("r", st.ID)); err != nil {
		return err
	}
	if err := c.mail(ctx, st); err != nil {
		return err
	}
	if err := readable[userMessage](ctx, c, st.ID, kvstore.Key("u", st.ID)); err != nil {
		return err
	}
	return readable[tool.Progress](ctx, c, st.ID, kvstore.Key("g", st.ID))
}

// entries reports index entries of a call's open pause that are missing or
// damaged.
func (c *check) entries(ctx context.Context, st *State, call *Call) error {
	id := PauseID(call.ID, call.Pauses)
	keys := [][]byte{pauseKey(id), listKey(call)}
	if key := st.treeKey(call); key != nil {
		keys = append(keys, key)
	}
	for _, key := range keys {
		var entry pauseEntry
		found, err := c.store.read(ctx, key, &entry)
		if err == nil && found && entry == st.entry(call) {
			continue
		}
		const what = "the entry of an open pause is missing or damaged"
		if err := c.report(st.ID, keyName(key), what); err != nil {
			return err
		}
	}
	return nil
}

// readable reports records under a prefix that can't be read.
func readable[T any](ctx context.Context, c *check, session string, prefix []byte) error {
	for e, err := range c.store.scan(ctx, prefix) {
		if err == nil {
			var v T
			if err = decode(e.Key, e.Value, &v); err != nil {
				err = c.judge(session, keyName(e.Key), err)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *check) record(ctx context.Context, st *State, e kvstore.Entry) error {
	var r Record
	err := decode(e.Key, e.Value, &r)
	if err == nil {
		r.blobs(func(b *Blob) {
			if err == nil {
				_, err = c.store.Value(ctx, st.ID, b)
			}
		})
	}
	if err != nil {
		return c.judge(st.ID, keyName(e.Key), err)
	}
	return nil
}

// wake reports a session that a worker would not find.
func (c *check) wake(ctx context.Context, st *State) error {
	if st.Watched {
		_, err := c.store.kv.Get(ctx, watchKey(st.Agent, st.ID))
		if errors.Is(err, kvstore.ErrNotFound) {
			err = c.report(st.ID, "watch", "its entry in the index of what is watched is missing")
		}
		if err != nil {
			return err
		}
	}
	if st.Recovery != 0 {
		_, err := c.store.kv.Get(ctx, recoveryKey(st.Agent, st.Recovery, st.ID))
		if errors.Is(err, kvstore.ErrNotFound) {
			err = c.report(st.ID, "recovery", "its entry in the recovery index is missing")
		}
		if err != nil {
			return err
		}
	}
	if st.Rung {
		_, err := c.store.kv.Get(ctx, bellKey(st.Bell, st.ID))
		if errors.Is(err, kvstore.ErrNotFound) {
			err = c.report(st.ID, "bell", "its entry at the bell of its drive's process is missing")
		}
		if err != nil {
			return err
		}
	}
	if st.Wake.IsZero() {
		_, owes := st.OwesAt()
		step := Next(st, c.now)
		elsewhere := st.Watched || st.Recovery != 0
		if !elsewhere && (owes || step.HasWork() || !step.Until.IsZero()) {
			return c.report(st.ID, "head",
				"it is due some time, and stands nowhere in the wake index")
		}
		return nil
	}
	_, err := c.store.kv.Get(ctx, wakeKey(st.Agent, st.Wake, st.ID))
	if errors.Is(err, kvstore.ErrNotFound) {
		return c.report(st.ID, "wake", "its entry in the wake index is missing")
	}
	return err
}

// whole reports what is wrong with what belongs to no session.
func (c *check) whole(ctx context.Context) error {
	for _, step := range []func() error{
		func() error { return c.wakes(ctx) },
		func() error { return c.recoveries(ctx) },
		func() error { return c.bells(ctx) },
		func() error { return c.outbound(ctx) },
		func() error { return c.children(ctx) },
		func() error { return c.strays(ctx, "z", "a handle", 3) },
		func() error { return c.strays(ctx, "Y", "a list of wait handles", 5) },
		func() error { return c.strays(ctx, "y", "a handle", 3) },
		func() error { return c.strays(ctx, "q", "a handle", 3) },
		func() error { return c.strays(ctx, "Q", "a queue", 4) },
		func() error { return readable[watched](ctx, c, "", kvstore.Key("v")) },
		func() error { return readable[pauseEntry](ctx, c, "", kvstore.Key("o")) },
		func() error { return readable[pauseEntry](ctx, c, "", kvstore.Key(inboxKind)) },
		func() error { return readable[pauseEntry](ctx, c, "", kvstore.Key(machineKind)) },
		func() error { return readable[pauseEntry](ctx, c, "", kvstore.Key(treeKind)) },
		func() error { return readable[pauseNumber](ctx, c, "", kvstore.Key("k")) },
		func() error { return readable[kept](ctx, c, "", kvstore.Key("K")) },
		func() error { return readable[keyRing](ctx, c, "", keyRingKey) },
		func() error { return c.schemas(ctx) },
		func() error { return readable[schemaUse](ctx, c, "", kvstore.Key("t")) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// schemas reports schemas that are not those of their hashes.
func (c *check) schemas(ctx context.Context) error {
	for e, err := range c.store.scan(ctx, kvstore.Key("s")) {
		if err != nil {
			return err
		}
		if !endsWith(e.Key, SchemaHash(e.Value)) {
			const what = "it is not the schema of that hash"
			if err := c.report("", keyName(e.Key), what); err != nil {
				return err
			}
		}
	}
	return nil
}

// wakes reports entries of the wake index whose sessions stand elsewhere.
func (c *check) wakes(ctx context.Context) error {
	at := func(st *State) []byte { return wakeKey(st.Agent, st.Wake, st.ID) }
	return c.places(ctx, "w", 4, "the wake index", at)
}

// recoveries reports entries of the recovery index whose sessions stand
// elsewhere, or that can't be read.
func (c *check) recoveries(ctx context.Context) error {
	if err := readable[recovery](ctx, c, "", kvstore.Key("l")); err != nil {
		return err
	}
	at := func(st *State) []byte { return recoveryKey(st.Agent, st.Recovery, st.ID) }
	return c.places(ctx, "l", 4, "the recovery index", at)
}

// bells reports entries at bells that the heads of their sessions don't know.
func (c *check) bells(ctx context.Context) error {
	return c.places(ctx, "B", 3, "a bell", func(st *State) []byte {
		if !st.Rung {
			return nil
		}
		return bellKey(st.Bell, st.ID)
	})
}

// places reports entries of an index at whose place a session doesn't stand.
// Their keys have so many parts, of which the last is the session.
func (c *check) places(
	ctx context.Context, kind string, parts int, index string, at func(*State) []byte,
) error {
	for e, err := range c.store.scan(ctx, kvstore.Key(kind)) {
		if err != nil {
			return err
		}
		key, err := kvstore.Parts(e.Key)
		if err != nil || len(key) != parts {
			if err := c.report("", keyName(e.Key), "it is no entry of %s", index); err != nil {
				return err
			}
			continue
		}
		st, err := c.store.Load(ctx, key[parts-1])
		switch {
		case errors.Is(err, ErrCorrupt), errors.Is(err, ErrNewerVersion):
			continue // reported already
		case err != nil && !errors.Is(err, ErrUnknownSession):
			return err
		case err != nil || string(at(st)) != string(e.Key):
			const what = "the session does not stand here in %s"
			if err := c.report(key[parts-1], keyName(e.Key), what, index); err != nil {
				return err
			}
		}
	}
	return nil
}
