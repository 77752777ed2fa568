package agui_test

import (
	"encoding/json"
	"fmt"

	"github.com/fermata-ai/fermata/httpapi/internal/agui"
)

// rules is the order that the protocol asks of a producer's events, as its
// chapters on streams, runs, tool calls, reasoning and subagents have it. It is
// what a client would refuse a stream for.
type rules struct {
	began, over bool
	text        map[string]string // open messages: the owner of each
	thought     map[string]string
	spans       map[string]string
	calls       map[string]string
	owners      map[string]string // of every message and call, also closed ones
	subagents   map[string]bool   // active ones
	gone        map[string]bool   // those that were active
	results     map[string]bool
	messages    map[string]string // what a client shows, by id
}

func newRules() *rules {
	return &rules{text: map[string]string{}, thought: map[string]string{}, spans: map[string]string{},
		calls: map[string]string{}, owners: map[string]string{}, subagents: map[string]bool{},
		gone: map[string]bool{}, results: map[string]bool{}, messages: map[string]string{}}
}

// wire is an event as a client reads it.
type wire struct {
	Type, MessageID, ToolCallID, ParentMessageID string
	Subagent                                     string `json:"subagentRunId"`
	Parent                                       string `json:"parentSubagentRunId"`
	Role, Delta                                  string
	Outcome                                      struct {
		Type       string
		Interrupts []struct {
			ID       string
			Subagent string `json:"subagentRunId"`
		}
	}
	Messages []struct {
		ID, Role   string
		Content    json.RawMessage
		ToolCallID string
	}
}

// see returns why an event may not come now, or nil.
func (r *rules) see(text []byte) error {
	var e wire
	if err := json.Unmarshal(text, &e); err != nil {
		return err
	}
	typ := agui.Type(e.Type)
	switch {
	case !r.began && typ != agui.TypeRunStarted:
		return fmt.Errorf("%s comes first", typ)
	case r.over:
		return fmt.Errorf("%s comes after the run's end", typ)
	case r.began && typ == agui.TypeRunStarted:
		return fmt.Errorf("the run begins twice")
	}
	if e.Subagent != "" && typ != agui.TypeSubagentStarted && !r.subagents[e.Subagent] {
		return fmt.Errorf("%s is of the subagent %q, which is not active", typ, e.Subagent)
	}
	switch typ {
	case agui.TypeRunStarted:
		r.began = true
	case agui.TypeTextStart:
		r.messages[e.MessageID] += "" // opened again, it goes on
		return r.open(r.text, e.MessageID, e.Subagent)
	case agui.TypeTextContent:
		r.messages[e.MessageID] += e.Delta
		return r.within(r.text, e.MessageID, e.Subagent)
	case agui.TypeTextEnd:
		return r.close(r.text, e.MessageID, e.Subagent)
	case agui.TypeReasoningStart:
		return r.open(r.spans, e.MessageID, e.Subagent)
	case agui.TypeReasoningEnd:
		return r.close(r.spans, e.MessageID, e.Subagent)
	case agui.TypeThoughtStart:
		if e.Role != "reasoning" {
			return fmt.Errorf("the role of reasoning is %q", e.Role)
		}
		return r.open(r.thought, e.MessageID, e.Subagent)
	case agui.TypeThoughtContent:
		return r.within(r.thought, e.MessageID, e.Subagent)
	case agui.TypeThoughtEnd:
		return r.close(r.thought, e.MessageID, e.Subagent)
	case agui.TypeToolStart:
		if owner, ok := r.owners[e.ParentMessageID]; ok && owner != e.Subagent {
			return fmt.Errorf("the call %q hangs on a message of another agent", e.ToolCallID)
		}
		return r.open(r.calls, e.ToolCallID, e.Subagent)
	case agui.TypeToolArgs:
		return r.within(r.calls, e.ToolCallID, e.Subagent)
	case agui.TypeToolEnd:
		return r.close(r.calls, e.ToolCallID, e.Subagent)
	case agui.TypeToolResult:
		if r.results[e.ToolCallID] {
			return fmt.Errorf("the call %q has two results", e.ToolCallID)
		}
		r.results[e.ToolCallID] = true
	case agui.TypeSubagentStarted, agui.TypeSubagentFinished, agui.TypeSubagentError:
		return r.subagent(typ, e)
	case agui.TypeMessagesSnapshot:
		return r.snapshot(e)
	case agui.TypeRunFinished:
		r.over = true
		return r.finished(e)
	case agui.TypeRunError:
		r.over = true
	}
	return nil
}

func (r *rules) open(in map[string]string, id, owner string) error {
	if _, ok := in[id]; ok || id == "" {
		return fmt.Errorf("%q is opened, and is open", id)
	}
	if was, ok := r.owners[id]; ok && was != owner {
		return fmt.Errorf("%q is another agent's", id)
	}
	in[id], r.owners[id] = owner, owner
	return nil
}

func (r *rules) within(in map[string]string, id, owner string) error {
	if was, ok := in[id]; !ok || was != owner {
		return fmt.Errorf("%q goes on, and is not open, or another agent's", id)
	}
	return nil
}

func (r *rules) close(in map[string]string, id, owner string) error {
	err := r.within(in, id, owner)
	delete(in, id)
	return err
}

func (r *rules) subagent(typ agui.Type, e wire) error {
	if typ != agui.TypeSubagentStarted {
		delete(r.subagents, e.Subagent)
		r.gone[e.Subagent] = true
		for _, in := range []map[string]string{r.text, r.thought, r.spans, r.calls} {
			for id, owner := range in {
				if owner == e.Subagent {
					return fmt.Errorf("%q outlives its subagent", id)
				}
			}
		}
		return nil
	}
	switch {
	case r.subagents[e.Subagent] || r.gone[e.Subagent]:
		return fmt.Errorf("the subagent %q begins twice", e.Subagent)
	case e.Parent != "" && !r.subagents[e.Parent] && !r.gone[e.Parent]:
		return fmt.Errorf("the parent %q was not announced", e.Parent)
	}
	r.subagents[e.Subagent] = true
	return nil
}

// snapshot puts what a client shows in place of what it showed.
func (r *rules) snapshot(e wire) error {
	if len(r.text) > 0 {
		return fmt.Errorf("a snapshot drops messages that are open")
	}
	clear(r.messages)
	for _, m := range e.Messages {
		if _, twice := r.messages[m.ID]; twice {
			return fmt.Errorf("the id %q stands twice in a snapshot", m.ID)
		}
		r.messages[m.ID] = string(m.Content)
	}
	return nil
}

func (r *rules) finished(e wire) error {
	if n := len(r.text) + len(r.thought) + len(r.spans) + len(r.calls) + len(r.subagents); n > 0 {
		return fmt.Errorf("%d are open at the run's end", n)
	}
	seen := map[string]bool{}
	for _, in := range e.Outcome.Interrupts {
		if seen[in.ID] {
			return fmt.Errorf("the interrupt %q comes twice", in.ID)
		}
		seen[in.ID] = true
		if in.Subagent != "" && !r.gone[in.Subagent] {
			return fmt.Errorf("the interrupt %q is of no subagent of the run", in.ID)
		}
	}
	if e.Outcome.Type == "interrupt" && len(seen) == 0 {
		return fmt.Errorf("an interrupt outcome has no interrupts")
	}
	return nil
}
