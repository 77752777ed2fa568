package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/agentcore"
	"github.com/fermata-ai/fermata/internal/modeltext"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
)

// model calls the model once and commits its message, before anything that it asks for runs.
func (d *drive) model(ctx context.Context) error {
	if over, err := d.overLimit(); over || err != nil {
		return err
	}
	if err := d.loadHistory(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if d.stopping.Done() != nil {
		defer context.AfterFunc(d.stopping, cancel)()
	}
	m, fin, err := d.generate(ctx)
	switch {
	case errors.Is(err, errLeft):
		return err
	case d.ctx.Err() != nil:
		return context.Cause(d.ctx)
	case err != nil && d.stopping.Err() != nil:
		return nil // the loop sees why
	case tooLong(err):
		return d.overLength(err)
	case err != nil:
		return d.retry(fmt.Errorf("model: %w", err))
	}
	return d.reply(m, fin)
}

// retry has the model called again after a while, if its failure may pass, and fails the run otherwise.
func (d *drive) retry(cause error) error {
	failures, since, now := 1, time.Duration(0), d.rn.store.Now()
	d.lease.View(func(st *session.State) {
		if st.Retry == nil {
			return
		}
		failures += st.Retry.Failures
		if !st.Retry.Since.IsZero() {
			since = now.Sub(st.Retry.Since)
		}
	})
	wait, ok := retryAfter(d.agent.Retry(), failures, since, cause)
	if !ok {
		return d.fail(cause)
	}
	d.lease.Keep(true)
	defer d.lease.Keep(false)
	var at time.Time
	err := d.lease.Update(d.commitCtx(), func(tx *session.Tx) error {
		if err := tx.Again(wait, cause.Error()); err != nil {
			return err
		}
		at = tx.Retry.At
		return nil
	})
	if err != nil {
		return decided(err)
	}
	d.flushHeld()
	if !d.emit(event.Retry{Failures: failures, At: at, Err: cause}) {
		return errLeft
	}
	return nil
}

// overLimit ends the run if its model calls or tokens are used up.
func (d *drive) overLimit() (bool, error) {
	limits := d.agent.Limits()
	var finish event.Finish
	d.lease.View(func(st *session.State) {
		switch {
		case st.Run.Turns >= limits.Turns:
			finish = event.FinishMaxTurns
		case limits.Tokens > 0 && st.Run.Tokens() >= limits.Tokens:
			finish = event.FinishMaxTokens
		}
	})
	if finish == "" {
		return false, nil
	}
	return true, d.useUp(finish, "")
}

// useUp halts the run over one of its limits.
func (d *drive) useUp(finish event.Finish, why string) error {
	err := decided(d.lease.Update(d.commitCtx(), func(tx *session.Tx) error { return tx.UseUp(finish, why) }))
	if err == nil {
		d.flushHeld() // the results that rode with it
	}
	return err
}

func (d *drive) loadHistory() (err error) {
	if d.history != nil {
		return nil
	}
	var st session.State // the counts of it: what else it has is not for others while bodies run
	d.lease.View(func(s *session.State) { st = session.State{ID: s.ID, Generation: s.Generation, Messages: s.Messages} })
	d.history, err = d.rn.store.History(d.commitCtx(), &st, 0)
	return err
}

// generate streams one model call to whoever listens and collects its message.
func (d *drive) generate(ctx context.Context) (llm.Message, llm.Finish, error) {
	d.collector = llm.Collector{Limit: d.agent.Limits().Message}
	if err := d.stream(ctx); err != nil {
		return llm.Message{}, llm.Finish{}, err
	}
	return d.collector.Message()
}

func (d *drive) stream(ctx context.Context) (err error) {
	defer d.recovered("the model, or a layer around it,", &err)
	for ev, err := range d.core.Generate(ctx, d.history, d.metadata) {
		if err != nil {
			return err
		}
		if err := d.collector.Add(ev); err != nil {
			return err
		}
		var shown event.Event
		switch ev := ev.(type) {
		case llm.TextDelta:
			shown = event.TextDelta{Delta: ev.Text}
		case llm.ReasoningDelta:
			shown = event.ReasoningDelta{Delta: ev.Text}
		default:
			continue
		}
		if !d.emit(shown) {
			return errLeft
		}
	}
	return nil
}

// reply commits the model's message, with the calls that it opens.
func (d *drive) reply(m llm.Message, fin llm.Finish) error {
	m, err := d.own(m)
	if err != nil {
		return d.overLength(err)
	}
	asked := m.ToolCalls()
	calls, key, err := d.open(asked)
	if err != nil {
		return err
	}
	var entry *session.Entry
	if len(m.Parts) > 0 { // an empty message is none: providers refuse it
		if entry, err = session.NewEntry(m); err != nil {
			return d.fail(fmt.Errorf("model: %w", err))
		}
	}
	how := stopped(fin, entry == nil)
	limits := d.agent.Limits()
	err = d.lease.Update(d.commitCtx(), func(tx *session.Tx) error {
		if err := tx.Reply(entry, calls, how, key); err != nil {
			return err
		}
		switch {
		case len(calls) == 0:
		case fin.Reason == llm.StopRefusal: // what was asked for before is not what the model, or its filter, means
			tx.End(event.FinishRefusal, "", "")
		case limits.ToolCalls > 0 && tx.Run.Calls > limits.ToolCalls:
			tx.End(event.FinishMaxCalls, "", "")
		case limits.Tokens > 0 && tx.Run.Tokens() > limits.Tokens:
			tx.End(event.FinishMaxTokens, "", "")
		}
		return nil
	})
	if err != nil {
		return decided(err)
	}
	d.flushHeld()
	clear(d.shown) // of the turn before
	if entry != nil {
		d.history = append(d.history, m)
		d.emit(event.Message{Number: len(d.history) - 1, Message: m.Clone()})
	}
	for _, c := range asked {
		d.emit(event.Call{Call: c.Clone()})
	}
	return d.turnOpened(asked, true)
}

// own makes the message's calls fermata's own: with ids that are unique, and
// names that every provider takes back. Their arguments are JSON already: those
// that can't be read are kept as text, and the call is refused for them when
// its turn comes. Those that no tool would take for their length are kept as an
// excerpt; where the provider signed the call, that can't be sent back, and the
// message can't be kept at all.
func (d *drive) own(m llm.Message) (llm.Message, error) {
	limit := d.core.Tools.Limits().Arguments
	for i, p := range m.Parts {
		c, ok := p.(llm.ToolCall)
		if !ok {
			continue
		}
		c.ID = d.rn.store.NewID("call")
		c.Name = d.acceptable(c.Name)
		if len(c.Arguments) > limit {
			if c.Native != nil {
				return m, fmt.Errorf("the arguments of a call to %s have %d bytes, at most %d are taken, and the provider signed them",
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
	var e *llm.Error
	return errors.As(err, &e) && e.Kind == llm.ErrTooLong
}

// overLength ends the run over a message that is not stored. Continue asks the
// model again.
func (d *drive) overLength(cause error) error { return d.useUp(event.FinishMaxMessage, cause.Error()) }

// acceptable is the name itself where a provider would take it back, and otherwise one that names no tool.
func (d *drive) acceptable(name string) string {
	const most = 64
	ok := len(name) > 0 && len(name) <= most
	clean := []byte(name)
	for i, c := range clean {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			clean[i], ok = '_', false
		}
	}
	if ok {
		return name
	}
	name = "invalid_" + string(clean)
	name = name[:min(len(name), most)]
	for {
		if _, _, taken := d.core.Tools.Declared(name); !taken {
			return name
		}
		name = name[:min(len(name), most-1)] + "_"
	}
}

// open is the head's view of the message's calls, and the newest token key.
// Calls beyond agentcore.MaxCalls are left out: they settle by themselves. The list
// is good until this is asked again.
func (d *drive) open(asked []llm.ToolCall) (calls []session.Call, key int, err error) {
	calls = d.opening[:0]
	for _, c := range asked[:min(len(asked), agentcore.MaxCalls)] {
		call := session.Call{ID: c.ID, Tool: c.Name, Status: session.Requested}
		is, known, err := d.declared(c.Name)
		if err != nil {
			return nil, 0, err
		}
		call.Effect, call.MayPause, call.Output, call.Invented = is.Effect, is.MayPause, is.Output, !known
		calls = append(calls, call)
	}
	d.opening = calls
	if len(calls) > 0 {
		if key, err = d.rn.ring.newest(d.commitCtx()); err != nil {
			key = 0 // what the model said is kept; its calls wait for a key that their tokens can be signed with
		}
	}
	return calls, key, nil
}

// fail ends the run with an error, which Continue or the next message gets over.
func (d *drive) fail(cause error) error {
	err := d.lease.Update(d.commitCtx(), func(tx *session.Tx) error {
		if tx.Halt == nil { // or else somebody has ended it already
			tx.Stop(event.FinishFailed, cause.Error())
		}
		return nil
	})
	return errors.Join(cause, err)
}

// stopped is how a run ends with a message that asks for nothing. Of a reason
// that fermata has no finish for, and of a message with nothing in it, the
// provider's word is all there is to tell.
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

// flushHeld shows what waited for a commit, unless it waits for a later one.
func (d *drive) flushHeld() {
	if d.before != nil {
		return
	}
	for _, ev := range d.held {
		d.emit(ev)
	}
	clear(d.held)
	d.held = d.held[:0]
}

// dropHeld forgets what waited for a commit: it is still to be shown, or something else in its place.
func (d *drive) dropHeld() {
	d.held = nil
	if d.before != nil {
		d.shown, d.before = d.before, maps.Clone(d.before)
	}
}
