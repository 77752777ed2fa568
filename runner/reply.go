package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/agentcore"
	"github.com/fermata-ai/fermata/internal/modeltext"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
)

// reply commits the model's message, with the calls that it opens, and with the
// pauses that some of them begin with.
func (mc *modelCaller) reply(ctx context.Context, m llm.Message, fin llm.Finish) error {
	m, err := mc.own(m)
	if err != nil {
		return mc.overLength(err)
	}
	asked := m.ToolCalls()
	calls, key, err := mc.open(asked)
	if err != nil {
		return err
	}
	var entry *session.Entry
	if len(m.Parts) > 0 { // an empty one is not kept: providers refuse it
		if entry, err = session.NewEntry(m); err != nil {
			return mc.fail(fmt.Errorf("model: %w", err))
		}
	}
	how, limits := stopped(fin, entry == nil), mc.limits
	var ahead *session.Ahead
	if key > 0 { // without a key, no code of others runs
		ahead = mc.askAhead(ctx, calls, asked)
	}
	err = mc.commit(func(tx *session.Tx) error {
		if err := tx.Reply(entry, calls, how, key); err != nil {
			return err
		}
		switch {
		case len(calls) == 0:
		case fin.Reason == llm.StopRefusal:
			// The model, or its filter, doesn't mean what was asked for before.
			tx.End(event.FinishRefusal, "", "")
		case limits.Calls != 0 && tx.Run.Calls > limits.Calls:
			tx.End(event.FinishMaxCalls, "", "")
		case limits.Tokens != 0 && tx.Run.Tokens() > limits.Tokens:
			tx.End(event.FinishMaxTokens, "", "")
		}
		return tx.PauseAhead(ahead)
	})
	if err != nil {
		return decided(err)
	}
	mc.out.spoke(entry != nil)
	mc.out.newTurn()
	if entry != nil {
		mc.read.append(m, entry)
	}
	mc.read.allStored()
	if entry != nil {
		mc.out.emit(event.Message{Number: len(mc.read.history) - 1, Message: m.Clone()})
	}
	for _, c := range asked {
		if !mc.core.Tools.Scheduling(c.Name).Background {
			mc.out.emit(event.Call{Call: c.Clone()})
		}
	}
	return mc.read.opened(asked, true)
}

// own gives the message's calls unique ids, and names that every provider takes
// back. The arguments are JSON already: those that can't be read are kept as
// text, and the call is refused for them when its turn comes. Arguments too
// long for any tool are kept as an excerpt. If the provider signed such a call,
// an excerpt can't be sent back, and the message can't be kept at all.
func (mc *modelCaller) own(m llm.Message) (llm.Message, error) {
	limit := mc.core.Tools.Limits().Arguments
	for i, p := range m.Parts {
		c, ok := p.(llm.ToolCall)
		if !ok {
			continue
		}
		c.ID = mc.rn.store.NewID("call")
		c.Name = mc.acceptable(c.Name)
		if len(c.Arguments) > limit {
			if c.Native != nil {
				return m, fmt.Errorf("the arguments of a call to %s have %d bytes, "+
					"at most %d are taken, and the provider signed them",
					c.Name, len(c.Arguments), limit)
			}
			c.Arguments = modeltext.ShortenArguments(c.Arguments, limit)
		}
		m.Parts[i] = c
	}
	return m, nil
}

// tooLong reports whether a model's message went over its limit.
func tooLong(err error) bool {
	e, ok := errors.AsType[*llm.Error](err)
	return ok && e.Kind == llm.ErrTooLong
}

// overLength ends the run over a message that is not stored. Continue asks the
// model again.
func (mc *modelCaller) overLength(cause error) error {
	return mc.useUp(event.FinishMaxMessage, cause.Error())
}

// acceptable returns the name itself, if every provider takes it back, and
// otherwise a name that is no tool's.
func (mc *modelCaller) acceptable(name string) string {
	const most = 64
	ok := len(name) > 0 && len(name) <= most
	clean := []byte(name)
	for i, c := range clean {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && !('0' <= c && c <= '9') && c != '_' && c != '-' {
			clean[i], ok = '_', false
		}
	}
	if ok {
		return name
	}
	name = "invalid_" + string(clean)
	name = name[:min(len(name), most)]
	for {
		if _, _, taken := mc.core.Tools.Declared(name); !taken {
			return name
		}
		name = name[:min(len(name), most-1)] + "_"
	}
}

// open returns the message's calls as the head keeps them, and the newest token
// key. Calls beyond agentcore.MaxCalls are left out: the turn is closed with an
// error for each. The list is good until the next call of open.
func (mc *modelCaller) open(asked []llm.ToolCall) (calls []session.Call, key int, err error) {
	calls = mc.opening[:0]
	for _, c := range asked[:min(len(asked), agentcore.MaxCalls)] {
		call := session.Call{ID: c.ID, Tool: c.Name, Status: session.Requested}
		is, known, err := mc.declared(mc.waiting, c.Name)
		if err != nil {
			return nil, 0, err
		}
		call.Effect, call.MayPause, call.Output = is.Effect, is.MayPause, is.Output
		call.Mailbox, call.Background = is.Mailbox, is.Background
		call.Invented = !known
		mc.actsOn(&call, c.Arguments)
		calls = append(calls, call)
	}
	mc.binds(calls, asked)
	mc.opening = calls
	if len(calls) > 0 {
		if key, err = mc.rn.ring.newest(mc.waiting); err != nil {
			// What the model said is kept; its calls wait for a key that their
			// tokens can be signed with.
			key = 0
		}
	}
	return calls, key, nil
}

// stopped returns how a run ends with a message that asks for no calls. If
// fermata has no finish for the reason, or the message is empty, the provider's
// word is kept.
func stopped(fin llm.Finish, empty bool) session.Stopped {
	how := session.Stopped{Finish: event.FinishStop, Usage: fin.Usage}
	word := cmp.Or(modeltext.CleanString(fin.Word), string(fin.Reason))
	switch {
	case fin.Reason == llm.StopLength:
		how.Finish = event.FinishLength
	case fin.Reason == llm.StopRefusal:
		how.Finish = event.FinishRefusal
	case empty:
		how.Finish, how.Why = event.FinishOther, "an empty message: "+word
	case fin.Reason == llm.StopOther:
		how.Finish, how.Why = event.FinishOther, word
	}
	return how
}
