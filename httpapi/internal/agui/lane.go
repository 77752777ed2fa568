package agui

import (
	"strings"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
)

// lane is what one session of the tree says: the one that the user talks to, or
// one below it.
type lane struct {
	t       *Translator
	session string // empty: the root

	subagent string // the id it was announced under; empty: the root, or not active
	times    int    // it was announced
	paused   []string

	// said is what the model has said in the message that is not committed yet.
	// Of it, the client has sent bytes under the id text.
	said strings.Builder
	text string // empty: none is open
	sent int

	thought  string          // the id of the reasoning that is open
	thoughts strings.Builder // what was shown of the message's reasoning
	thinks   bool            // some was

	parent string // the message that calls hang on
}

func (l *lane) head(typ Type) Head { return Head{Type: typ, Subagent: l.subagent} }

// say shows more of a message that streams.
func (l *lane) say(delta string) {
	if delta == "" {
		return
	}
	l.endThought()
	l.said.WriteString(delta)
	l.showSaid()
}

// restart begins the message that streams anew. Where it goes on as it did,
// since it is only said again as a whole, the client is shown the rest.
func (l *lane) restart(whole string) {
	if said := l.said.String(); strings.HasPrefix(whole, said) {
		l.say(whole[len(said):])
		return
	}
	l.void()
	l.say(whole)
}

// showSaid shows what was said and isn't shown yet.
func (l *lane) showSaid() {
	if l.sent == l.said.Len() {
		return
	}
	if l.text == "" {
		l.text = l.t.newID()
		l.parent = l.text
		l.t.add(Start{l.head(TypeTextStart), l.text, roleAssistant})
	}
	l.t.add(Content{l.head(TypeTextContent), l.text, l.said.String()[l.sent:]})
	l.sent = l.said.Len()
}

// think shows more of the model's reasoning.
func (l *lane) think(delta string) {
	if delta == "" {
		return
	}
	if l.thought == "" {
		l.thought, l.thinks = l.t.newID(), true
		l.t.add(End{l.head(TypeReasoningStart), l.thought})
		l.t.add(Start{l.head(TypeThoughtStart), l.thought, roleReasoning})
	}
	l.thoughts.WriteString(delta)
	l.t.add(Content{l.head(TypeThoughtContent), l.thought, delta})
}

// rethink begins the reasoning anew, which a client can only be shown as a
// message of its own.
func (l *lane) rethink(whole string) {
	if l.thinks && strings.HasPrefix(whole, l.thoughts.String()) {
		l.think(whole[l.thoughts.Len():])
		return
	}
	l.endThought()
	l.thoughts.Reset()
	l.think(whole)
}

func (l *lane) forgetThoughts() {
	l.thinks = false
	l.thoughts.Reset()
}

func (l *lane) endThought() {
	if l.thought == "" {
		return
	}
	l.t.add(End{l.head(TypeThoughtEnd), l.thought})
	l.t.add(End{l.head(TypeReasoningEnd), l.thought})
	l.thought = ""
}

// endText closes the message that streams.
func (l *lane) endText(n Note) {
	if l.text != "" {
		h := l.head(TypeTextEnd)
		h.Metadata.Fermata = n
		l.t.add(End{h, l.text})
	}
	l.text, l.sent = "", 0
	l.said.Reset()
}

// pauseText closes it for now: what was said is shown again under another id,
// when the model goes on.
func (l *lane) pauseText() {
	if l.text != "" {
		l.t.add(End{l.head(TypeTextEnd), l.text})
	}
	l.text, l.sent = "", 0
}

// void takes back what the model has said since the last committed message. The
// protocol has no event for that: the message is marked, and a snapshot without
// it follows.
func (l *lane) void() {
	l.endThought()
	if l == l.t.root && l.text != "" {
		l.t.stale = true
	}
	l.endText(Note{Void: true})
	l.forgetThoughts()
}

// closeAll closes what is open.
func (l *lane) closeAll() {
	l.endThought()
	l.endText(Note{})
	l.forgetThoughts()
}

// message shows a committed message.
func (l *lane) message(e event.Message) {
	if l == l.t.root {
		if e.Number < l.t.next {
			return // it was shown before
		}
		l.t.next = e.Number + 1
	}
	switch e.Message.Role {
	case llm.RoleUser:
		l.heard(e)
	case llm.RoleAssistant:
		l.spoke(e)
	case llm.RoleTool:
		for _, p := range e.Message.Parts {
			if r, ok := p.(llm.ToolResult); ok {
				l.t.calls.result(l, event.Result{Status: statusOf(r), Result: r})
			}
		}
	}
}

// heard shows a user's message that the client doesn't show yet. What a nested
// agent is told is in the arguments of the call that began it.
func (l *lane) heard(e event.Message) {
	if l != l.t.root {
		return
	}
	text := userText(e.Message)
	for i, own := range l.t.own {
		if own.text == text {
			l.t.own = append(l.t.own[:i:i], l.t.own[i+1:]...)
			if l.t.grown { // the client has it before what came before it
				own.id, l.t.stale = l.t.newID(), true
			}
			l.t.names[numberedID(e.Number)] = own.id
			return
		}
	}
	id, body := l.t.newID(), bodyOf(e.Message.Parts)
	l.t.names[numberedID(e.Number)] = id
	if body.Parts != nil {
		l.t.stale = true // a stream has text alone
		return
	}
	l.t.add(Start{l.head(TypeTextStart), id, roleUser})
	l.t.add(Content{l.head(TypeTextContent), id, body.Text})
	l.t.add(End{l.head(TypeTextEnd), id})
}

// spoke shows a message of the model's: the rest of it, where it has streamed.
func (l *lane) spoke(e event.Message) {
	l.reasoned(e.Message)
	l.parent = ""
	if l.text != "" {
		l.parent = l.text
	}
	whole := e.Message.Text()
	if said := l.said.String(); !strings.HasPrefix(whole, said) {
		l.void()
		l.parent = ""
		l.said.WriteString(whole)
	} else {
		l.said.WriteString(whole[len(said):])
	}
	l.showSaid()
	l.endText(Note{})
	if l.parent == "" {
		l.parent = l.t.newID() // of a message that only calls
	}
	if l == l.t.root {
		l.t.names[numberedID(e.Number)] = l.parent
	}
	for _, p := range e.Message.Parts {
		if _, ok := p.(llm.Media); ok {
			l.t.custom(l, e) // which the protocol's messages can't hold
			break
		}
	}
	for _, c := range e.Message.ToolCalls() {
		l.call(c)
	}
}

// reasoned shows the reasoning of a message that did not stream.
func (l *lane) reasoned(m llm.Message) {
	for _, p := range m.Parts {
		if r, ok := p.(llm.Reasoning); ok && !l.thinks {
			l.think(r.Text)
			l.thinks = false // as for the parts that follow
		}
	}
	l.endThought()
	l.forgetThoughts()
}

func statusOf(r llm.ToolResult) event.Status {
	if r.Error {
		return event.Failed
	}
	return event.Done
}
