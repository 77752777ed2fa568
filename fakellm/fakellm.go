// Package fakellm is a scripted [llm.Model] for tests, as strict as a real
// provider: it refuses, and shows the spot, what one of them would refuse.
//
// A script is a list of turns, each one message of the model. The model takes
// its place in the script from the request, never from a counter: it answers
// with the turn whose number is that of the assistant's messages in the
// history. So one script works in many sessions at once, across restarts and
// processes, and a request that is made twice is answered alike.
//
// It is no simulator: it doesn't count tokens, it speaks no provider's
// protocol, and it knows nothing of what a tool does.
package fakellm

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/llm"
)

// Model is a scripted model. It is safe for concurrent use.
type Model struct {
	// Sleep waits out a turn's Delay; nil takes a timer. It returns ctx's error
	// if that ends first. Set it before use.
	Sleep func(ctx context.Context, d time.Duration) error

	script *script

	mu       sync.Mutex
	requests []llm.Request
	accepted map[string]llm.Request // the last of them that was not refused, by session
	failures map[string]int         // how often a request was failed, by its place and content
}

// New makes a model of a script. What a request gets:
//   - One that a provider would refuse, see [Check], or that leaves nothing to
//     answer: an [*llm.Error] of kind [llm.ErrInvalid].
//   - One that a branch, see [When], takes: the branch's turn.
//   - Any other: turn n of the script, where n is the number of messages in its
//     history that the assistant has given, those of branches aside. Turns that
//     [Turn.Times] repeats count as several. Turns that fail take no number:
//     see [Fails].
//   - One beyond the script's end: an [*llm.Error] of kind [llm.ErrInvalid]
//     that wraps [ErrUsedUp] and names the place.
func New(turns ...Turn) *Model {
	return &Model{script: newScript("the script", turns), accepted: map[string]llm.Request{},
		failures: map[string]int{}}
}

// Echo makes a model that says what the user said last, and never calls a tool.
func Echo() *Model {
	return New(From(func(req llm.Request) Turn {
		if said := LastUserText(req); said != "" {
			return Says(said)
		}
		return Says("(no text)")
	}).Forever())
}

// Generate implements [llm.Model]. The request is taken up when the events are
// ranged over, each time anew.
func (m *Model) Generate(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(nil, err)
			return
		}
		err := m.take(req)
		var turn Turn
		if err == nil {
			turn, err = m.turn(req)
		}
		if err != nil {
			yield(nil, &llm.Error{Kind: llm.ErrInvalid, Provider: "fakellm", Err: err})
			return
		}
		m.stream(ctx, turn, yield)
	}
}

// Requests lists what the model was asked, refused requests included, in order
// of arrival. They are copies, made when they came; they share memory among
// themselves, so read them only.
func (m *Model) Requests() []llm.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// take checks the request and puts a copy of it on record.
//
// What is equal to the last accepted request of its session, usually all but
// the newest messages, is neither checked for its content nor copied again:
// tests of long sessions would take time and memory by the square of their
// length.
func (m *Model) take(req llm.Request) error {
	session := req.Metadata["session"]
	m.mu.Lock()
	before := m.accepted[session].Messages
	m.mu.Unlock()

	known := 0
	for known < min(len(before), len(req.Messages)) && same(before[known], req.Messages[known]) {
		known++
	}
	err := check(req, known)
	copied := clone(req, before[:known])

	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests = append(m.requests, copied)
	if err == nil {
		m.accepted[session] = copied
	}
	return err
}

// turn finds what the request gets.
func (m *Model) turn(req llm.Request) (Turn, error) {
	last := len(req.Messages) - 1
	if req.Messages[last].Role == llm.RoleAssistant {
		return Turn{}, refuse(req, last, whole,
			"the assistant spoke last: there is nothing to answer")
	}
	p := m.script.place(req)
	t, err := m.pick(p, req)
	if err != nil || t.from == nil {
		return t, err
	}
	if t = t.from(req); t.from != nil || t.branch != nil {
		return Turn{}, fmt.Errorf("turn %d of %s is computed, and came out as a branch or as one to compute", p.number, p.script.name)
	}
	return t, nil
}

func (m *Model) pick(p place, req llm.Request) (Turn, error) {
	failing, t, ok := p.script.at(p.number)
	if len(failing) > 0 {
		n := m.attempt(p, req)
		for _, f := range failing {
			if n < f.times() {
				return f, nil
			}
			n -= f.times()
		}
	}
	if !ok {
		return Turn{}, p.usedUp(req)
	}
	return t, nil
}

// attempt counts the earlier requests that were like this one.
func (m *Model) attempt(p place, req llm.Request) int {
	key := fmt.Sprintf("%p %d %s", p.script, p.number, digest(req))
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.failures[key]
	m.failures[key]++
	return n
}

// Notices lists what the runtime told the model, the oldest first.
func Notices(req llm.Request) []llm.Notice {
	var all []llm.Notice
	for _, m := range req.Messages {
		all = append(all, m.Notices()...)
	}
	return all
}

// LastUserText returns the text of the last message from the user, empty if it
// has none.
func LastUserText(req llm.Request) string {
	for _, m := range slices.Backward(req.Messages) {
		if m.Role == llm.RoleUser {
			return m.Text()
		}
	}
	return ""
}
