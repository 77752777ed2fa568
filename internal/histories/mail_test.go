package histories

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// noName is the name of an event that no tool takes.
const noName = "z"

// takes reports whether a tool waits for events somewhere.
func takes(tool string) bool {
	return slices.ContainsFunc(stepsOf[tool], func(s step) bool { return s.kind == mail })
}

// eventsOf are the events that a tool takes: strings all of them.
func eventsOf(name string) (events []tool.MailboxEvent) {
	if takes(name) {
		for _, n := range mailNames {
			events = append(events, tool.MailboxEvent{Name: string(n),
				Schema: json.RawMessage(`{"type":"string"}`)})
		}
	}
	return events
}

// waits is the step's pause, but for its deadline.
func (s step) waits() tool.Await {
	names := strings.Split(s.names, "")
	if s.count == 0 {
		return tool.AllOf(names...)
	}
	return tool.CountOf(s.count, names...)
}

// shownTo is what an entry is shown of events, as mailbox.entry has it.
func shownTo(c tool.Call) string {
	var all []string
	for _, m := range c.Mail {
		all = append(all, mailText(m)+map[bool]string{true: "*"}[m.New])
	}
	return strings.Join(all, " ")
}

func mailText(m tool.Mail) string {
	var content string
	_ = json.Unmarshal(m.Payload, &content)
	return m.Name + m.ID + "=" + content
}

// entered records what a body was shown: its call was about to be entered so at
// some moment before.
func (w *world) entered(c tool.Call) {
	if !takes(c.Tool) {
		return
	}
	b := w.begin()
	b.at = 0
	(&client{world: w}).ended(b, operation{name: "entry", call: c.ID},
		outcome{text: "shown " + shownTo(c)})
}

// takesMail reports whether a call is one that takes events, as far as that is
// known.
func (c *client) takesMail(call string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := c.tools[call]
	return takes(name) || name == ""
}

// send sends an event or two, in one commit.
func (c *client) send(ctx context.Context, in operation) {
	in.name = "send"
	var all []operation
	for range 1 + c.r.IntN(4)/3 {
		in.event = string(mailNames[c.r.IntN(2)]) + string(mailIDs[c.r.IntN(3)])
		if c.r.IntN(12) == 0 {
			in.event = noName + in.event[1:]
		}
		in.content = []string{"a", "a", "a", "a", "b", misfit}[c.r.IntN(6)]
		all = append(all, in)
	}
	c.deliver(ctx, all)
}

// sendAgain sends what was accepted once more.
func (c *client) sendAgain(in operation) { c.deliver(c.t.Context(), []operation{in}) }

func (c *client) deliver(ctx context.Context, all []operation) {
	var events []runner.Mail
	for _, in := range all {
		payload, _ := json.Marshal(in.content)
		if in.content == misfit {
			payload = json.RawMessage("5")
		}
		events = append(events, runner.Mail{Call: in.call, Name: in.event[:1], ID: in.event[1:],
			Payload: payload, Actor: runner.Actor(in.by)})
	}
	b := c.begin()
	sent, err := c.runners[all[0].runner].Deliver(ctx, chat, events...)
	for i, in := range all {
		text := ""
		if sent != nil {
			err = sent.Receipts[i].Err
			text = told(sent.Receipts[i])
		}
		out, happened := c.outcome(text, err)
		if happened {
			c.ended(b, in, out)
		}
		if err == nil && text == isAccepted {
			c.mu.Lock()
			c.given = append(c.given, in)
			c.mu.Unlock()
		}
	}
	if sent != nil && err == nil && c.r.IntN(2) == 0 {
		_ = c.watch(all[0].runner, sent.Events(ctx))
	}
}

// eventFate is what a receipt says of an event that came too late for its tool.
func eventFate(r session.Receipt) string {
	if r.Kind == session.KindEvent {
		return string(r.Fate)
	}
	return ""
}

// received records the list of events that have come for a call.
func (c *client) received(ctx context.Context, b began, in operation) {
	var all []string
	for m, err := range c.runners[in.runner].Received(ctx, chat, in.call, user) {
		if err != nil {
			if _, happened := c.outcome("", err); happened {
				c.t.Errorf("seed %d: %v", c.seed, err)
			}
			return
		}
		all = append(all, mailText(m))
	}
	in.name = "received"
	c.ended(b, in, outcome{text: "received " + strings.Join(all, " ")})
}
