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

// ask asks the first question that waits for a person, if there is one, or for
// a message.
func (c *chat) ask(waiting []tool.Pause) (question *tool.Pause) {
	for _, p := range waiting {
		switch p.Await.Reason {
		case tool.ReasonApproval:
			c.question(p, "y, or n and why not, or y and other arguments as JSON: "+
				string(p.Arguments))
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

// hint returns what the answer must look like in words; "" if any text will do.
func hint(schema json.RawMessage) string {
	var s struct{ Enum []any }
	_ = json.Unmarshal(schema, &s)
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

// answer answers a question, and goes on.
func (c *chat) answer(ctx context.Context, p tool.Pause, line string) {
	r, err := runner.FromText(p, user, line)
	var res *runner.Resumed
	if err == nil {
		res, err = c.rn.Resume(ctx, c.session, r)
	}
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
