package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// Asked reads the tool calls that the open turn's message asks for.
func (s *Store) Asked(ctx context.Context, st *State) ([]llm.ToolCall, error) {
	if len(st.Calls) == 0 {
		return nil, nil
	}
	last, err := s.History(ctx, st, st.Messages-1)
	if err != nil {
		return nil, err
	}
	calls := last[0].ToolCalls()
	for i := range st.Calls {
		if i >= len(calls) || calls[i].ID != st.Calls[i].ID {
			return nil, fmt.Errorf("%w: session %q: message %d doesn't ask for call %s",
				ErrCorrupt, st.ID, st.Messages-1, st.Calls[i].ID)
		}
	}
	return calls, nil
}

// Arguments returns those of the call with that id, or nil.
func Arguments(calls []llm.ToolCall, id string) json.RawMessage {
	for i := range calls {
		if calls[i].ID == id {
			return calls[i].Arguments
		}
	}
	return nil
}

// Pauses lists the open pauses of a session, in call order. Asked is what Asked
// returns; if it is nil, Pauses reads it.
func (s *Store) Pauses(ctx context.Context, st *State, asked []llm.ToolCall) ([]tool.Pause, error) {
	if st.Open() == 0 {
		return nil, nil
	}
	if asked == nil {
		var err error
		if asked, err = s.Asked(ctx, st); err != nil {
			return nil, err
		}
	}
	var pauses []tool.Pause
	for i := range st.Calls {
		if c := &st.Calls[i]; c.Status == Pending {
			p, err := s.Pause(ctx, st, c, Arguments(asked, c.ID))
			if err != nil {
				return nil, err
			}
			pauses = append(pauses, p)
		}
	}
	return pauses, nil
}

// Pause shows the open pause of a call, which the model made with args. The
// pause is the caller's own: its values are copies, and not the head's.
func (s *Store) Pause(
	ctx context.Context, st *State, c *Call, args json.RawMessage,
) (tool.Pause, error) {
	p := c.Pause
	out := tool.Pause{
		ID: PauseID(c.ID, c.Pauses), Call: c.ID, Session: st.ID, User: st.User,
		Agent: st.Agent, Tool: c.Tool, Number: c.Pauses, Path: slices.Clone(st.path()),
		Arguments: bytes.Clone(args), Since: p.Since, Deadline: p.Deadline,
		Await: tool.Await{Reason: p.Reason, Mode: p.Mode, Key: p.Key, Gate: p.Gate,
			Sender: p.Sender, Approvers: slices.Clone(p.Approvers), OnTimeout: p.OnTimeout, Question: p.Question, Mail: p.Mail},
	}
	if p.Beat != nil {
		out.Await.Heartbeat = p.Beat.every()
		out.Beat = tool.Beat{EveryMS: p.Beat.EveryMS, Due: p.Beat.Due}
	}
	if p.Agent != "" {
		out.Await.Child = &tool.Child{Agent: p.Agent, Session: c.Child}
	}
	if !p.Deadline.IsZero() {
		out.Await.Timeout = p.Deadline.Sub(p.Since)
	}
	var err error
	if out.Await.Handles, err = s.awaited(ctx, st.ID, p.Await); err != nil {
		return out, err
	}
	prompt, err := s.Value(ctx, st.ID, p.Prompt)
	if err == nil && len(prompt) > 0 {
		err = decode([]byte(out.ID), prompt, &out.Await.Prompt)
	}
	if err != nil {
		return out, err
	}
	if out.Await.Data, err = s.ownValue(ctx, st.ID, p.Data); err != nil {
		return out, err
	}
	if p.Args != nil {
		if out.Arguments, err = s.ownValue(ctx, st.ID, p.Args); err != nil {
			return out, err
		}
	}
	if p.Schema != "" {
		schema, err := s.schema(ctx, p.Schema)
		if err != nil {
			return out, err
		}
		out.Await.Schema = bytes.Clone(schema.raw)
	}
	out.Progress, err = s.LatestProgress(ctx, st.ID, c.ID)
	return out, err
}

// Find shows a pause of a session by its id or its call's: one that is open,
// one that is over, or the one that a running body may ask for. Only the first
// has an Await.
func (s *Store) Find(ctx context.Context, session, id string) (tool.Pause, error) {
	st, err := s.Load(ctx, session)
	if err != nil {
		return tool.Pause{}, err
	}
	if !st.Deleted.IsZero() {
		return tool.Pause{}, fmt.Errorf("%w: %q", ErrDeleted, session)
	}
	call, number := splitPause(id)
	p := tool.Pause{ID: id, Call: call, Session: session, User: st.User, Agent: st.Agent,
		Number: number, Path: slices.Clone(st.path())}
	if c := st.Call(call); c != nil {
		if number == 0 {
			p.Number = max(1, c.Pauses)
			p.ID = PauseID(call, p.Number)
		}
		if c.Status == Pending && c.Pauses == p.Number && !c.overdue(s.Now()) {
			open, err := s.openPause(ctx, session, p.ID)
			if !errors.Is(err, ErrNotPaused) { // or else it was answered just now, and is over
				return open, err
			}
		}
		p.Tool = c.Tool
		if p.Number > c.Pauses+1 {
			return p, fmt.Errorf("%w: %s", ErrUnknownPause, id)
		}
		return p, nil
	}
	r, _, err := s.Record(ctx, session, call)
	p.Tool = r.Tool
	return p, err
}

// PauseSession returns the session of a pause, given by its id or its call's.
func (s *Store) PauseSession(ctx context.Context, id string) (string, error) {
	key := pauseKey(id)
	if _, number := splitPause(id); number == 0 {
		key = pauseKey(PauseID(id, 1))
	}
	var entry pauseEntry
	found, err := s.read(ctx, key, &entry)
	if err == nil && !found {
		err = fmt.Errorf("%w: %s", ErrUnknownPause, id)
	}
	return entry.Session, err
}

// OutsideKey is a key that a tool gave for its outside job. User and Session,
// if set, hide the calls of other users and sessions.
type OutsideKey struct {
	Tool, Key     string
	User, Session string
}

// FindKey finds the pause that a tool gave an outside key: the open one, or
// else that of the call which ended last. A call that goes on counts as ended
// now. If several are open, the error is ErrAmbiguousKey. If none is known, the
// error is ErrNotYetKnown, since the outside system can be faster than the
// commit.
func (s *Store) FindKey(ctx context.Context, k OutsideKey) (tool.Pause, error) {
	prefix := kvstore.Key("k", k.Tool, k.Key)
	if k.Session != "" {
		prefix = kvstore.Key("k", k.Tool, k.Key, k.Session)
	}
	var found tool.Pause
	var ended time.Time // of found, if it isn't open
	open := 0
	for e, err := range s.scan(ctx, prefix) {
		if err != nil {
			return found, err
		}
		var number pauseNumber
		parts, err := kvstore.Parts(e.Key)
		if err != nil || len(parts) != 5 || decode(e.Key, e.Value, &number) != nil {
			return found, fmt.Errorf("%w: %s", ErrCorrupt, keyName(e.Key))
		}
		id := PauseID(parts[4], int(number))
		if others, err := s.ofOthers(ctx, id, k.User); others || err != nil {
			if err != nil {
				return found, err
			}
			continue
		}
		p, err := s.Find(ctx, parts[3], id)
		switch {
		case errors.Is(err, ErrDeleted) || errors.Is(err, ErrUnknownSession) ||
			errors.Is(err, ErrUnknownCall):
			continue
		case err != nil:
			return found, err
		}
		if p.Await.Reason != "" {
			found = p
			open++
		} else if open == 0 {
			at, err := s.ended(ctx, p)
			if err != nil {
				return found, err
			}
			if !at.Before(ended) {
				found, ended = p, at
			}
		}
	}
	switch {
	case open > 1:
		err := fmt.Errorf("%w: key %q of tool %q names %d; answer by token or pause id",
			ErrAmbiguousKey, k.Key, k.Tool, open)
		return tool.Pause{}, err
	case found.ID == "":
		return tool.Pause{}, fmt.Errorf("%w: key %q of tool %q", ErrNotYetKnown, k.Key, k.Tool)
	}
	return found, nil
}

// ofOthers reports whether a pause is another user's than the given one; the
// empty user stands for all. Nothing else is read of another user's pause, so
// damage there doesn't fail the search.
func (s *Store) ofOthers(ctx context.Context, pause, user string) (bool, error) {
	if user == "" {
		return false, nil
	}
	var entry pauseEntry
	found, err := s.read(ctx, pauseKey(pause), &entry)
	return found && entry.User != user, err
}

// ended returns when the call of a pause ended; of a call that goes on, now.
func (s *Store) ended(ctx context.Context, p tool.Pause) (time.Time, error) {
	var r Record
	found, err := s.read(ctx, recordKey(p.Session, p.Call), &r)
	if !found {
		return s.Now(), err
	}
	return r.At, err
}
