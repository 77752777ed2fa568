package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// ask asks the first question that waits for a person, if there is one, or for a message.
func (c *chat) ask(waiting []tool.Pause) (question *tool.Pause) {
	for _, p := range waiting {
		switch p.Await.Reason {
		case tool.ReasonApproval:
			c.question(p, "y, or n and why not, or other arguments as JSON: "+string(p.Arguments))
			c.screen.Ask("y/n> ")
			return &p
		case tool.ReasonInput, tool.ReasonUnknown:
			c.question(p, hint(p.Await.Schema))
			c.screen.Ask("answer> ")
			return &p
		}
	}
	c.screen.Ask("> ")
	return nil
}

// question shows a question once.
func (c *chat) question(p tool.Pause, hint string) {
	if c.asking == p.ID {
		return
	}
	c.asking = p.ID
	c.show.Say("%s", p.Await.Prompt)
	if hint != "" {
		c.show.Line("answer", "%s", hint)
	}
}

// hint says what the answer must look like, unless any text will do.
func hint(schema json.RawMessage) string {
	s := shape(schema)
	var all []string
	for _, one := range s.Enum {
		if text, ok := one.(string); ok {
			all = append(all, text)
		}
	}
	switch {
	case len(all) > 0 && len(all) == len(s.Enum):
		return "one of: " + strings.Join(all, ", ")
	case string(schema) == `{"type":"string"}`:
		return ""
	}
	return "must fit " + short(schema)
}

// shape is what matters here of a JSON Schema.
func shape(schema json.RawMessage) (s struct {
	Type string
	Enum []any
}) {
	_ = json.Unmarshal(schema, &s) // a list of types, for one, is no string
	return s
}

// answer answers a question, and goes on.
func (c *chat) answer(ctx context.Context, p tool.Pause, line string) {
	r, ok := resumption(p, strings.TrimSpace(line))
	if !ok {
		c.show.Line("refused", "that is neither y nor n nor JSON")
		return
	}
	res, err := c.rn.Resume(ctx, c.session, r)
	var misfit *session.PayloadError
	switch {
	case errors.As(err, &misfit):
		c.show.Line("refused", "%v", misfit.Err)
		c.asking = "" // the question is still open
	case err != nil:
		c.fail(ctx, err)
	default:
		c.show.Answered(p, res.Receipts[0])
		c.carryOn(ctx, res.Events(ctx))
	}
}

// resumption makes an answer of a line.
func resumption(p tool.Pause, line string) (r runner.Resumption, ok bool) {
	if p.Await.Reason != tool.ReasonApproval {
		return runner.Complete(p.ID, value(p.Await.Schema, line), user), true
	}
	word, rest, _ := strings.Cut(line, " ")
	switch strings.ToLower(word) {
	case "y", "yes":
		return runner.Approve(p.ID, user, strings.TrimSpace(rest)), true
	case "n", "no":
		return runner.Deny(p.ID, user, strings.TrimSpace(rest)), true
	}
	return runner.ApproveEdited(p.ID, user, "", json.RawMessage(line)), json.Valid([]byte(line))
}

// value is what was typed: text where text is wanted, or where it is nothing else; otherwise JSON.
func value(schema json.RawMessage, line string) json.RawMessage {
	if shape(schema).Type != "string" && json.Valid([]byte(line)) {
		return json.RawMessage(line)
	}
	return tool.Text(line)
}
