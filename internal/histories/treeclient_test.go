package histories

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/agenttool"
)

// tree is a session whose only call has an agent work, whose only call asks
// outside.
type tree struct {
	*world
	ended atomic.Bool // the root was cancelled
	// The calls, once an event has told them. Guarded by mu.
	root, leaf string
}

const helperName = "helper"

// treeAgent is the agent of the root.
func treeAgent(w *world) agent.Config {
	spec := tool.Spec{Name: "ask", Description: "d", Effect: tool.Idempotent, MayPause: true}
	ask := tool.Must(tool.Func(spec,
		func(context.Context, words) (tool.Result[words], error) {
			return tool.Pending[words](tool.Await{Timeout: leafHours * time.Hour}), nil
		}))
	helper, err := agent.New(agent.Config{Name: helperName, Tools: []tool.Tool{ask},
		Model: asks{tool: "ask", usage: 1}})
	must(w.t, err)
	nested, err := agenttool.New[words, string](helper,
		&agenttool.Options[words]{Timeout: rootHours * time.Hour})
	must(w.t, err)
	return agent.Config{Name: "ops", Tools: []tool.Tool{nested}, Model: asks{tool: helperName}}
}

// asks is a model that asks for one tool, and then says what came of it.
type asks struct {
	tool  string
	usage int // of each message
}

func (m asks) Generate(_ context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	var part llm.Part = llm.ToolCall{Name: m.tool, Arguments: json.RawMessage(`{"text":"a"}`)}
	for _, p := range r.Messages[len(r.Messages)-1].Parts {
		if result, ok := p.(llm.ToolResult); ok {
			worked := textOf(result.Output)
			if result.Error {
				worked = notDone
			}
			part = llm.Text{Text: workedText + worked}
		}
	}
	return func(yield func(llm.Event, error) bool) {
		if yield(llm.PartDone{Part: part}, nil) {
			yield(llm.Finish{Reason: llm.StopEnd, Usage: llm.Usage{Input: m.usage}}, nil)
		}
	}
}

// treeClient is one of the callers that do something to the tree.
type treeClient struct {
	client
	tree *tree
}

// node returns the session and the id of a call; known is false before it is
// known.
func (c *treeClient) node(at string) (id, call string, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at == atRoot {
		return chat, c.tree.root, c.tree.root != ""
	}
	return childOf(c.tree.root), c.tree.leaf, c.tree.leaf != ""
}

// at is which of the two calls a tool's is, and keeps its id.
func (c *treeClient) at(tool, id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if tool == helperName {
		c.tree.root = id
		return atRoot
	}
	c.tree.leaf = id
	return atLeaf
}

// childOf is the session that the root's call waits for.
func childOf(call string) string { return session.ChildID(session.PauseID(call, 1)) }

// act is one operation.
func (c *treeClient) act(by string) {
	in := operation{call: atLeaf, by: by, runner: c.r.IntN(2)}
	if c.r.IntN(3) == 0 {
		in.call = atRoot
	}
	switch p := c.r.IntN(100); {
	case p < 20 && in.call == atRoot:
		c.look(atLeaf)
	case p < 32:
		in.name, in.content = "answer", []string{"a", "a", "b", failure}[c.r.IntN(4)]
		c.do(in)
	case p < 42:
		in.name = "cancel"
		c.do(in)
	case p < 46:
		in.name = "end"
		c.do(in)
	case p < 48:
		in.name = "delete"
		c.do(in)
	case p < 72:
		c.look(in.call)
	case p < 92:
		_ = c.carryOn()
	case c.hour.Load() < mostHours:
		c.hour.Add(1)
	}
}

// do is an operation whose refusal is its outcome. One on a call that isn't
// known yet is left out.
func (c *treeClient) do(in operation) {
	id, call, known := c.node(in.call)
	if !known {
		return
	}
	rn := c.runners[in.runner]
	ctx, by := c.t.Context(), runner.Actor(in.by)
	var resumed *runner.Resumed
	came := c.client.do(in, func() (text string, err error) {
		switch in.name {
		case "answer":
			if resumed, err = rn.Resume(ctx, id, treeAnswer(call, in)); err == nil {
				text = told(resumed.Receipts[0])
			}
		case "cancel":
			var receipt session.Receipt
			receipt, err = rn.Cancel(ctx, id, call, by, "")
			text = told(receipt)
		case "end":
			if text = "ok"; in.call == atRoot {
				c.tree.ended.Store(true)
			}
			err = rn.CancelSession(ctx, id, by, "")
		case "delete":
			if text, err = "ok", rn.Delete(ctx, id, by); isFault(err) ||
				errors.Is(err, kvstore.ErrConflict) { // what follows the commit
				err = errors.Join(err, kvstore.ErrUncertain)
			}
		}
		return text, err
	})
	if came != isAccepted {
		return
	}
	c.mu.Lock()
	c.given = append(c.given, in)
	c.mu.Unlock()
	if resumed != nil && c.r.IntN(2) == 0 {
		_ = c.watch(in.runner, resumed.Events(ctx))
	}
}

func treeAnswer(call string, in operation) runner.Resumption {
	if in.content == failure {
		return runner.Fail(call, runner.Actor(in.by), "no disk", false)
	}
	out := payload(in.content)
	if in.call == atRoot {
		out, _ = json.Marshal(in.content)
	}
	return runner.Complete(call, runner.Actor(in.by), out)
}

// look looks at one of the calls.
func (c *treeClient) look(at string) {
	id, call, known := c.node(at)
	if !known {
		return
	}
	in := operation{name: "look", call: at, runner: c.r.IntN(2)}
	c.client.do(in, func() (string, error) {
		st, err := c.runners[in.runner].Call(c.t.Context(), id, call, user)
		if err != nil || st.Status != session.Settled {
			return string(st.Status), err
		}
		return endText(st.Settled, textOf(st.Output)), nil
	})
}

func endText(status event.Status, output string) string {
	if status != event.Done {
		output = ""
	}
	return strings.TrimRight(fmt.Sprintf("settled %s %s", status, output), " ")
}

func (c *treeClient) say() {
	_ = c.watch(0, c.runners[0].Run(c.t.Context(), user, chat, llm.UserText("Go."), nil))
}

func (c *treeClient) carryOn() error {
	rn := c.r.IntN(2)
	return c.watch(rn, c.runners[rn].Continue(c.t.Context(), chat, user))
}

// watch records what events show of either call. The client may leave early.
func (c *treeClient) watch(rn int, events iter.Seq2[event.Event, error]) (failure error) {
	leave := math.MaxInt
	if c.number < clients && c.r.IntN(6) == 0 {
		leave = 1 + c.r.IntN(8)
	}
	b := c.begin()
	for ev, err := range events {
		if err != nil {
			failure = err
			continue
		}
		at := b
		if nested, ok := ev.(event.Nested); ok {
			// A child's drive may be slow to show what it saw before this run
			// began, and shows it to each that listens by then.
			ev, at = nested.Event, began{at: 1}
		}
		c.sees(at, rn, ev)
		if leave--; leave == 0 {
			return failure
		}
		for range c.r.IntN(20) {
			runtime.Gosched()
		}
	}
	return failure
}

func (c *treeClient) sees(b began, rn int, ev event.Event) {
	record := func(name, tool, call, text string) {
		c.ended(b, operation{name: name, call: c.at(tool, call), runner: rn}, outcome{text: text})
	}
	switch ev := ev.(type) {
	case event.Call:
		if c.at(ev.Call.Name, ev.Call.ID) == atLeaf || c.seed%3 == 0 {
			c.start()
		}
	case event.Pause:
		record("waits", ev.Pause.Tool, ev.Pause.Call, string(session.Pending))
	case event.Result:
		output := ""
		if ev.Status == event.Done {
			output = textOf(ev.Result.Output)
		}
		record("result", ev.Result.Name, ev.Result.Call, endText(ev.Status, output))
	}
}

// load loads both sessions; nil is one that isn't there.
func (w *tree) load(c *treeClient) (root, child *session.State) {
	root, err := w.store.Load(w.t.Context(), chat)
	if !isUnknownSession(err) {
		must(w.t, err)
	}
	w.mu.Lock()
	id := childOf(w.root)
	w.mu.Unlock()
	child, err = w.store.Load(w.t.Context(), id)
	if isUnknownSession(err) {
		return root, nil
	}
	must(w.t, err)
	return root, child
}

func isUnknownSession(err error) bool { return errors.Is(err, session.ErrUnknownSession) }
