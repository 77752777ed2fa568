package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/toolbox"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// Pure layers are asked about a call before the message that asks for it is
// stored. A pause that they want is stored with the message, and so costs no
// commit of its own. All else that they answer is thrown away: once the message
// is stored, the call goes through all of its layers, as any. So asking ahead
// may be left out, or come to nothing, at any time.

// aheadPatience is how long the model's message waits for the layers that are
// asked ahead. What is pure takes no time; this is for one that isn't.
const aheadPatience = 2 * time.Second

// foresight is what one call's pure layers are asked ahead.
type foresight struct {
	call     session.Call // as it is about to be opened
	args     json.RawMessage
	layers   interceptor.Chain
	prepared *toolbox.Prepared
	host     *aheadHost
	await    *tool.Await // what they want; nil: nothing that counts
}

// askAhead asks the pure layers of the calls that a message is about to open.
func (mc *modelCaller) askAhead(
	ctx context.Context, opening []session.Call, asked []llm.ToolCall,
) *session.Ahead {
	ahead := &session.Ahead{}
	number := 0
	mc.lease.View(func(st *session.State) { ahead.Since, number = st.Mark(), st.Turn+1 })
	var all []foresight
	for i := range opening {
		if f, ok := mc.foresee(&opening[i], asked[i].Arguments, number); ok {
			all = append(all, f)
		}
	}
	if len(all) == 0 {
		return nil
	}
	for _, f := range mc.foreseen(ctx, all) {
		if h := mc.holdAhead(&f); h != nil {
			ahead.Pauses = append(ahead.Pauses, session.AheadPause{Call: f.call.ID, Hold: h})
		}
	}
	return ahead
}

// foresee prepares to ask a call's pure layers. It reports whether there is
// anything to ask: no code but theirs may run now.
func (mc *modelCaller) foresee(
	c *session.Call, args json.RawMessage, turn int,
) (f foresight, ok bool) {
	layers := mc.core.Ahead(c.Tool)
	acts := c.Action != "" || c.Handle != "" || mc.rn.awaiting[mc.agent.Name()][c.Tool] != nil
	if len(layers) == 0 || c.Invented || acts || mc.core.Tools.ReadsItself(c.Tool) ||
		bytes.HasPrefix(args, []byte{'"'}) {
		return f, false
	}
	f = foresight{call: *c, args: args, layers: layers, host: &aheadHost{}}
	prepared, err := mc.core.Tools.Prepare(tool.Call{
		ID: c.ID, Session: mc.session, User: mc.user, Turn: turn, Tool: c.Tool, Effect: c.Effect,
		Arguments: args, Attempt: 1, Fence: mc.lease.Fence(), Host: f.host,
	})
	f.prepared = prepared
	return f, err == nil
}

// foreseen asks the layers, in call order and in a goroutine of its own. If that
// takes too long, or ctx ends, it is left behind, and there is no answer.
func (mc *modelCaller) foreseen(ctx context.Context, all []foresight) []foresight {
	ctx, cancel := context.WithTimeout(ctx, aheadPatience)
	defer cancel()
	answered := make(chan []foresight, 1)
	go func() {
		done := 0
		defer func() { answered <- all[:done] }() // also if a layer ends the goroutine
		for ; done < len(all) && ctx.Err() == nil; done++ {
			all[done].ask(ctx)
		}
	}()
	select {
	case all := <-answered:
		if ctx.Err() == nil {
			return all
		}
	case <-ctx.Done():
		mc.rn.left(func() { <-answered })
	}
	return nil
}

// errAhead is what a layer gets that lets a call through.
var errAhead = errors.New("runner: the call is not stored yet")

// ask asks the layers. A panic of theirs counts for nothing: it comes again, and
// is logged, once the message is stored.
func (f *foresight) ask(ctx context.Context) {
	defer func() {
		if recover() != nil {
			f.await = nil
		}
	}()
	through := func(context.Context, tool.Call) (tool.Execution, error) {
		return tool.Execution{}, errAhead
	}
	exec, err := f.layers.WrapTool(f.call.Tool, through)(ctx, f.prepared.Call)
	if err == nil {
		exec, err = f.prepared.Bounds(exec)
	}
	if err == nil && len(exec.Actions) == 0 && exec.Handle == nil {
		f.await = exec.Await
	}
}

// holdAhead returns the pause that a call's layers want; nil: none that may be
// stored with the message.
func (mc *modelCaller) holdAhead(f *foresight) *session.Hold {
	if f.host.used.Load() {
		mc.log().Warn("a layer that is declared pure isn't: it used the call's Host, and is asked again",
			"session", mc.session, "tool", f.call.Tool)
		return nil
	}
	// A layer that waits for something outside has begun it.
	if f.await == nil || f.await.Key != "" || f.await.Child != nil || f.await.Handles != nil {
		return nil
	}
	await, err := f.await.Normalize()
	if err == nil {
		err = mayPause(&f.call, &await, false, mc.rn.store.Now())
	}
	if err != nil {
		return nil
	}
	h, err := mc.hold(mc.waiting, &f.call, f.args, await)
	if err != nil {
		return nil
	}
	return h
}

// aheadHost is the Host of a call that isn't stored. It notes that a layer used
// it, which then isn't pure. What it gives is of no use, and what the layer says
// doesn't count.
type aheadHost struct{ used atomic.Bool }

var errNotStored = errors.New("runner: a pure layer is asked before its call is stored: " +
	"it makes no token, reports nothing, and reads no history")

func (h *aheadHost) Token(tool.Call, ...tool.Permit) string { return h.none() }

func (h *aheadHost) MailToken(tool.Call, ...string) string { return h.none() }

func (h *aheadHost) none() string {
	h.used.Store(true)
	return "no-token-before-the-call-is-stored"
}

func (h *aheadHost) Report(context.Context, tool.Call, tool.Progress) error {
	h.used.Store(true)
	return errNotStored
}

func (h *aheadHost) History(context.Context, tool.Call) ([]llm.Message, error) {
	h.used.Store(true)
	return nil, errNotStored
}
