package workflow

import (
	"context"
	"fmt"
	"iter"

	"github.com/fermata-ai/fermata/llm"
)

// model is a list as an llm.Model: what it says follows from the history alone,
// so it says the same in every process, and after every crash.
type model struct {
	list *List // nil: the session's first message has it
	// check is asked about a list that the first message has, before anything is
	// begun: the message may be of a sender who hasn't asked Set.Message.
	check func(*List) error
}

func (m *model) Generate(_ context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		events, err := m.answer(r.Messages, len(r.ResponseFormat.Schema) > 0)
		if err != nil {
			yield(nil, &llm.Error{Kind: llm.ErrInvalid, Err: fmt.Errorf("workflow: %w", err)})
			return
		}
		for _, ev := range events {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// answer returns what the model says. AsJSON: its last message has to be JSON, and
// not a text where the output is one.
func (m *model) answer(history []llm.Message, asJSON bool) ([]llm.Event, error) {
	p, input, err := read(history, m.list)
	if err == nil && m.list == nil && !hasBegun(history) {
		err = m.check(p.list)
	}
	if err != nil {
		return nil, err
	}
	calls, err := next(p, input)
	switch {
	case err != nil:
		return nil, err
	case p.over && !p.failed():
		text := string(p.said)
		if !asJSON {
			text = plain(p.said)
		}
		if hasEnded(history) {
			text = "The workflow has ended, and takes no further message: begin another session for " +
				"another one. It came to: " + text
		}
		return []llm.Event{llm.TextDelta{Text: text}, llm.Finish{Reason: llm.StopEnd}}, nil
	case p.over:
		calls = []plannedCall{{endTool, p.endsAgain()}}
	}
	if !p.begun && m.list != nil {
		if c, ok := calls[0].args.(*stepCall); ok {
			c.List = m.list
		}
	}
	var events []llm.Event
	for _, c := range calls {
		args, err := c.encode()
		if err != nil {
			return nil, err
		}
		events = append(events, llm.PartDone{Part: llm.ToolCall{Name: c.name, Arguments: args}})
	}
	return append(events, llm.Finish{Reason: llm.StopToolCalls}), nil
}

// hasEnded reports whether the workflow has told its output: what follows is
// another message of the user, which a process took that doesn't have the
// workflow's agent.
func hasEnded(history []llm.Message) bool {
	for _, m := range history {
		if m.Role == llm.RoleAssistant && len(m.ToolCalls()) == 0 {
			return true
		}
	}
	return false
}
