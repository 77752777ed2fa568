package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/tool"
)

const help = `Type a message, or the answer to a question, or one of
  /pending           what waits
  /cancel CALL WHY   cancel a call that waits; CALL is its id, or the name of its tool
  /retry             go on after an error
  /quit              leave; what waits is kept, and goes on when you come back
  /help              this text
A line that begins with a space and a slash is no command.`

// command does what a line that begins with a slash asks for. It reports
// whether the person wants to leave.
func (c *chat) command(ctx context.Context, line string) (leave bool) {
	name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch name {
	case "/quit":
		return true
	case "/help":
		c.show.Say(help)
	case "/retry":
		c.carryOn(ctx, c.rn.Continue(ctx, c.session, user))
	case "/pending":
		waiting, err := c.pending(ctx)
		if err != nil {
			c.fail(ctx, err)
			break
		}
		for _, p := range waiting {
			c.show.Line("waits", "%s", waits(p))
		}
		if len(waiting) == 0 {
			c.show.Line("waits", "nothing")
		}
	case "/cancel":
		call, why, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if err := c.cancel(ctx, call, strings.TrimSpace(why)); err != nil {
			c.fail(ctx, err)
		}
	default:
		c.show.Line("error", "there is no command %s; /help lists the commands", name)
	}
	return false
}

// cancel cancels a call, and lets the model know.
func (c *chat) cancel(ctx context.Context, call, why string) error {
	waiting, err := c.pending(ctx)
	if err != nil {
		return err
	}
	if call == "" {
		return errors.New("name the call: /cancel CALL WHY; /pending lists those that wait")
	}
	i := slices.IndexFunc(waiting, func(p tool.Pause) bool {
		return p.Call == call || p.Tool == call
	})
	if i < 0 {
		return fmt.Errorf("no call waits whose id or tool is %q; /pending lists those that do",
			call)
	}
	receipt, err := c.rn.Cancel(ctx, c.session, waiting[i].Call, user, why)
	if err != nil {
		return err
	}
	c.show.Answered(waiting[i], receipt)
	c.carryOn(ctx, c.rn.Continue(ctx, c.session, user))
	return nil
}
