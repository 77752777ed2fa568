package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/agentcore"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/usererr"
	"github.com/fermata-ai/fermata/llm"
)

// modelCaller calls the model, and commits the model's message before any call
// that it asks for runs. The goroutine that drives owns it.
type modelCaller struct {
	*subject
	*committer
	life      *life
	read      *reading
	out       *listener
	request   agentcore.Own  // what is its own of requests
	collector llm.Collector  // of the message that streams
	opening   []session.Call // what open returns
	limits    session.Left   // of the run, when the model was last asked
}

// call calls the model once and commits its message.
func (mc *modelCaller) call(ctx context.Context) error {
	if over, err := mc.overLimit(); over || err != nil { // which notes the limits
		return err
	}
	if err := mc.read.loadHistory(); err != nil {
		return err
	}
	if err := mc.tellOfHandles(); err != nil {
		return err
	}
	if n := len(mc.read.history); n > 0 && mc.read.history[n-1].Role == llm.RoleAssistant {
		// What happened to handles was told by results meanwhile.
		return decided(mc.commit((*session.Tx).NothingNew))
	}
	if err := mc.loadFormat(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stopping := mc.life.stopping
	if stopping.Done() != nil {
		defer context.AfterFunc(stopping, cancel)()
	}
	if err := mc.storeForFollowers(); err != nil {
		return err
	}
	nth := int(mc.rn.live.calls.Add(1))
	defer mc.out.speaks(mc.lease.Fence(), nth, len(mc.read.history))()
	m, fin, err := mc.generate(ctx)
	switch {
	case errors.Is(err, errLeft):
		return err
	case mc.life.work.Err() != nil:
		return context.Cause(mc.life.work)
	case err != nil && stopping.Err() != nil:
		return nil // the loop sees why
	case tooLong(err):
		return mc.overLength(err)
	case err != nil:
		return mc.retry(fmt.Errorf("model: %w", err))
	}
	return mc.reply(ctx, m, fin)
}

// storeForFollowers stores what rides, results of tools say, if the session is
// followed: followers are shown them before what the model says of them.
func (mc *modelCaller) storeForFollowers() error {
	if mc.out.feed == nil || !mc.out.feed.followed() || !mc.lease.Rides() {
		return nil
	}
	return decided(mc.flush())
}

// retry stores when the model is called again, if its failure may pass.
// Otherwise it fails the run.
func (mc *modelCaller) retry(cause error) error {
	failures, since, now := 1, time.Duration(0), mc.rn.store.Now()
	mc.lease.View(func(st *session.State) {
		if st.Retry == nil {
			return
		}
		failures += st.Retry.Failures
		if !st.Retry.Since.IsZero() {
			since = now.Sub(st.Retry.Since)
		}
	})
	wait, ok := retryAfter(mc.agent.Retry(), failures, since, cause)
	if !ok {
		return mc.fail(cause)
	}
	mc.lease.Keep(true) // while the loop waits for the next try
	var at time.Time
	err := mc.commit(func(tx *session.Tx) error {
		if err := tx.Again(wait, cause.Error()); err != nil {
			return err
		}
		at = tx.Retry.At
		return nil
	})
	if err != nil {
		return decided(err)
	}
	if !mc.out.emit(event.Retry{Failures: failures, At: at, Err: cause}) {
		return errLeft
	}
	return nil
}

// overLimit ends the run if its model calls or tokens are used up. What others
// of a child's tree have used meanwhile counts from here on.
func (mc *modelCaller) overLimit() (over bool, err error) {
	mc.limits = limitsOf(mc.agent)
	var run session.Run
	child := false
	mc.lease.View(func(st *session.State) { run, child = st.Run, st.Parent != nil })
	if child {
		mc.limits, err = mc.rn.store.WithinNow(mc.waiting, mc.lease.State(), mc.limits)
		if err != nil {
			return false, err
		}
	}
	var finish event.Finish
	switch {
	case run.Turns >= mc.limits.Turns:
		finish = event.FinishMaxTurns
	case mc.limits.Tokens != 0 && run.Tokens() >= mc.limits.Tokens:
		finish = event.FinishMaxTokens
	}
	if finish == "" {
		return false, nil
	}
	return true, mc.useUp(finish, "")
}

// useUp halts the run over one of its limits.
func (mc *modelCaller) useUp(finish event.Finish, why string) error {
	return decided(mc.commit(func(tx *session.Tx) error { return tx.UseUp(finish, why) }))
}

// generate streams one model call to the listener and collects its message.
func (mc *modelCaller) generate(ctx context.Context) (llm.Message, llm.Finish, error) {
	mc.collector = llm.Collector{Limit: mc.agent.Limits().Message}
	if err := mc.stream(ctx); err != nil {
		return llm.Message{}, llm.Finish{}, err
	}
	return mc.collector.Message()
}

// stream shows what the model says as it says it.
func (mc *modelCaller) stream(ctx context.Context) (err error) {
	defer mc.recovered("the model, or a layer around it,", mc.out, &err)
	for ev, err := range mc.core.Generate(ctx, mc.read.history, mc.request) {
		if err != nil {
			return usererr.Use(err)
		}
		if err := mc.collector.Add(ev); err != nil {
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
		if !mc.out.emit(shown) {
			return errLeft
		}
	}
	return nil
}

// loadFormat loads what a child's last message has to be.
func (mc *modelCaller) loadFormat() (err error) {
	var parent *session.Parent
	mc.lease.View(func(st *session.State) { parent = st.Parent })
	if parent == nil || mc.request.Format.Schema != nil {
		return nil
	}
	mc.request.Format.Name = "answer"
	mc.request.Format.Schema, err = mc.rn.store.ChildSchema(mc.waiting, parent)
	return err
}
