package agui

import (
	"encoding/json"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// shownCalls are the calls that the client has been shown, by id.
type shownCalls map[string]*shownCall

type shownCall struct {
	result string // what it came to; empty: not yet
	pause  int    // the number of the last pause that was shown
}

// know notes the calls of a session that the client has from a snapshot, or
// from an earlier run.
func (s shownCalls) know(stored Stored) {
	for _, m := range stored.History {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case llm.ToolCall:
				s.of(p.ID)
			case llm.ToolResult:
				s.of(p.Call).result = sign(p)
			}
		}
	}
	for _, r := range stored.Open {
		s.of(r.Result.Call).result = sign(r.Result)
	}
}

func (s shownCalls) of(call string) *shownCall {
	if s[call] == nil {
		s[call] = &shownCall{}
	}
	return s[call]
}

// HasResult reports whether the client was shown what came of a call.
func (t *Translator) HasResult(call string) bool {
	c := t.calls[call]
	return c != nil && c.result != ""
}

// sign tells one result of a call from another.
func sign(r llm.ToolResult) string {
	b, err := json.Marshal(r)
	if err != nil {
		return "unreadable"
	}
	return string(b)
}

// call shows a call, once.
func (l *lane) call(c llm.ToolCall) {
	if l.t.calls[c.ID] != nil {
		return
	}
	l.t.calls.of(c.ID)
	l.t.add(ToolStart{l.head(TypeToolStart), c.ID, c.Name, l.parent})
	l.t.add(ToolArgs{l.head(TypeToolArgs), c.ID, string(c.Arguments)})
	l.t.add(ToolEnd{l.head(TypeToolEnd), c.ID})
}

func (l *lane) result(e event.Result) { l.t.calls.result(l, e) }

// result shows what came of a call, once. Where that is taken back, since the
// call was cancelled before its result was stored, a snapshot has what counts.
func (s shownCalls) result(l *lane, e event.Result) {
	c, now := s.of(e.Result.Call), sign(e.Result)
	switch c.result {
	case now:
		return
	case "":
	default:
		l.t.stale = true
		return
	}
	c.result = now
	h := l.head(TypeToolResult)
	h.Metadata.Fermata.Status = string(e.Status)
	l.t.add(ToolResult{h, resultID(e.Result.Call), e.Result.Call, resultBody(e.Result), roleTool})
}

// newPause reports whether a pause was not shown yet.
func (l *lane) newPause(p tool.Pause) bool {
	c := l.t.calls.of(p.Call)
	if p.Number <= c.pause {
		return false
	}
	c.pause = p.Number
	return true
}
