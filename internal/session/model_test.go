package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/property"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// model is the life of one call, written down a second time: as plainly as
// possible, from the contract rather than from the code.
type model struct {
	once, mayPause bool
	status         session.CallStatus
	pauses         int
	gate           bool           // the open pause is a layer's
	mode           tool.Mode      // of the open pause
	answered       tool.Mode      // of the tool's own last answer; empty: it has none
	answerOf       int            // the pause that this one was given for
	timedOut       bool           // this one is that none came in time
	unknown        bool           // the open pause asks what became of a lost entry
	retry          bool           // the open pause is until the next try
	tried          int            // the tries that the last entry has failed
	again          int            // how often it did not happen, as operators stated
	early          string         // the content of an answer that is kept for the next pause
	receipts       map[int]string // by pause: the content of what was accepted
	refused        map[int]string // by pause: the content of an early answer that did not fit it
	cancelling     bool
	deadline       bool // the open pause has one
	reenters       bool // the open pause's deadline has the tool entered again
	mail           mailModel
}

// entered reports whether the body may be running.
func (m *model) entered() bool {
	switch {
	case !m.mayPause:
		return false
	case m.status == session.Running:
		return true
	}
	return !m.once && (m.status == session.Requested || m.status == session.Answered &&
		(m.answered == "" || m.answered == tool.ModeReenter))
}

func (m *model) settle() {
	m.mail.end(m)
	*m = model{once: m.once, mayPause: m.mayPause, status: session.Settled, pauses: m.pauses,
		receipts: m.receipts, refused: m.refused, mail: m.mail}
}

// given notes the answer to pause n of the tool's own.
func (m *model) given(mode tool.Mode, n int) {
	m.status, m.answered, m.answerOf, m.timedOut = session.Answered, mode, n, false
	m.tried = 0
	m.mail.given(mode)
}

// refuse marks the early answer to pause n as one that does not fit it.
func (m *model) refuse(n int) {
	m.refused[n] = m.receipts[n]
	delete(m.receipts, n)
}

// answer is what an answer to pause n comes to: "accepted", "duplicate",
// "conflict" or "refused".
func (m *model) answer(n int, content string) string {
	decision, failure, again := content[0] == 'd', content[0] == 'f', content[0] == 'r'

	got, answered := m.receipts[n]
	switch {
	case answered && got == content, m.refused[n] == content:
		return "duplicate"
	case answered, n == m.answerOf && (m.timedOut || m.mail.was): // neither leaves a receipt
		return "conflict"
	}
	switch {
	case m.status == session.Pending && n == m.pauses:
		if m.retry || len(m.mail.wait) > 0 && !failure || decision != m.gate || again && (!m.unknown || m.again == 8) {
			return "refused"
		}
		m.receipts[n] = content
		switch {
		case decision:
			m.status, m.gate = session.Answered, false
		case failure:
			m.settle()
		case again: // what the lost entry brought stays
			m.status = session.Answered
			m.again++
		default:
			m.given(m.mode, n)
		}
		return "accepted"
	case n == m.pauses+1 && m.entered() && !decision && !again:
		m.receipts[n], m.early = content, content
		return "accepted"
	}
	return "refused"
}

// harness walks a call of a real store and the model side by side.
type harness struct {
	store *session.Store
	drive *session.Lease
	now   time.Time
	m     model
	was   session.Call // before the last claim
}

// The second, hand-written model and the transitions agree on every random
// history.
func TestLifeOfACallModel(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		h := &harness{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
		h.m = model{once: rapid.Bool().Draw(t, "once"), mayPause: true, status: session.Requested,
			receipts: map[int]string{}, refused: map[int]string{}}
		h.begin(t)
		t.Repeat(map[string]func(*rapid.T){
			"claim":   h.claim,
			"unclaim": h.unclaim,
			"pause":   h.pause,
			"lose":    h.lose,
			"retry":   h.retry,
			"gate":    h.atGate,
			"answer":  h.answer,
			"events":  h.pauseForEvents,
			"send":    h.send,
			"cancel":  h.cancel,
			"settle":  h.settle,
			"time":    h.time,
			"crash":   h.crash,
			"":        h.compare,
		})
	})
}

func (h *harness) begin(t *rapid.T) {
	h.store = session.NewStore(kvstore.NewMemory(),
		&session.Options{Now: func() time.Time { return h.now }})
	d, err := h.store.Acquire(t.Context(), "s", &session.New{User: "ada"})
	fatal(t, err)
	h.drive = d
	effect := tool.Idempotent
	if h.m.once {
		effect = tool.Once
	}
	question, err := session.NewEntry(llm.UserText("Go."))
	fatal(t, err)
	asks, err := session.NewEntry(llm.Message{Role: llm.RoleAssistant,
		Parts: []llm.Part{llm.ToolCall{ID: "c", Name: "x", Arguments: json.RawMessage("{}")}}})
	fatal(t, err)
	fatal(t, d.Update(t.Context(), func(tx *session.Tx) error {
		if err := tx.Say(question, "", "", false); err != nil {
			return err
		}
		return tx.Reply(asks, []session.Call{{ID: "c", Tool: "x", Status: session.Requested,
			Effect: effect, MayPause: true, Mailbox: mailbox("x", "y")}}, session.Stopped{}, 0)
	}))
}

func fatal(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// do makes a transition and wants it to be taken, or not.
func (h *harness) do(t *rapid.T, taken bool, f session.Transition) {
	t.Helper()
	if err := h.drive.Update(t.Context(), f); (err == nil) != taken {
		t.Fatalf("it is taken: %v; the error is %v", taken, err)
	}
}

func (h *harness) claim(t *rapid.T) {
	taken := (h.m.status == session.Requested || h.m.status == session.Answered) && !h.m.cancelling
	h.do(t, taken, func(tx *session.Tx) error { return tx.Claim("c") })
	if taken {
		h.drive.View(func(st *session.State) { h.was = *st.Call("c") })
		h.was.Status, h.was.Attempt = h.m.status, h.was.Attempt-1
		h.m.status, h.m.once = session.Running, true // only what must not run twice is claimed
	}
}

// unclaim takes the last claim back, as a drive does that didn't enter the
// body.
func (h *harness) unclaim(t *rapid.T) {
	taken := h.m.status == session.Running
	h.do(t, taken, func(tx *session.Tx) error { return tx.Unclaim(&h.was) })
	switch {
	case !taken:
	case h.m.cancelling:
		h.m.status = h.was.Status // no body was shown what came for this entry
		h.m.settle()
	case h.m.early != "":
		h.takenEarly()
	default:
		h.m.status = h.was.Status
	}
}

func (h *harness) pause(t *rapid.T) {
	mode := rapid.SampledFrom([]tool.Mode{tool.ModeOutput, tool.ModeReenter}).Draw(t, "mode")
	h.pauseFor(t, "", mode)
}

// lose has an operator asked what became of the last entry.
func (h *harness) lose(t *rapid.T) { h.pauseFor(t, tool.ReasonUnknown, tool.ModeOutput) }

// retry has the body entered again after a time.
func (h *harness) retry(t *rapid.T) {
	in := tool.Await{Reason: tool.ReasonRetry, Timeout: time.Hour}
	if rapid.Bool().Draw(t, "absolute") {
		in.Timeout, in.Deadline = 0, h.now.Add(time.Hour)
	}
	h.pauses(t, in)
}

func (h *harness) pauseFor(t *rapid.T, reason tool.Reason, mode tool.Mode) {
	in := tool.Await{
		Reason: reason, Mode: mode,
		Timeout: time.Duration(rapid.IntRange(0, 1).Draw(t, "hours")) * time.Hour,
	}
	if in.Timeout > 0 && reason == "" && rapid.Bool().Draw(t, "reenters") {
		in.OnTimeout = tool.ReenterOnTimeout
	}
	if in.Timeout > 0 && rapid.Bool().Draw(t, "absolute") {
		in.Timeout, in.Deadline = 0, h.now.Add(in.Timeout)
	}
	h.pauses(t, in)
}

func (h *harness) pauses(t *rapid.T, in tool.Await) {
	await, err := in.Normalize()
	fatal(t, err)
	taken := h.m.status == session.Requested || h.m.status == session.Running ||
		h.m.status == session.Answered
	h.do(t, taken, func(tx *session.Tx) error { return tx.Pause("c", &session.Hold{Await: await}) })
	if !taken {
		return
	}
	mode := await.Mode
	h.m.pauses++
	h.m.mail.waitFor(in.Mail)
	h.m.status, h.m.gate, h.m.mode = session.Pending, false, mode
	h.m.deadline = in.Timeout > 0 || !in.Deadline.IsZero()
	h.m.reenters = in.OnTimeout != ""
	h.m.unknown = in.Reason == tool.ReasonUnknown
	h.m.retry = in.Reason == tool.ReasonRetry
	if early := h.m.early; early != "" {
		h.m.early = ""
		switch {
		case h.m.retry:
			h.m.refuse(h.m.pauses)
		case early[0] == 'f':
			h.m.settle()
		case mode == tool.ModeOutput:
			h.m.given(mode, h.m.pauses)
		default:
			h.m.refuse(h.m.pauses)
		}
	}
	h.m.met()
}

func (h *harness) atGate(t *rapid.T) {
	await, err := tool.Await{Gate: "g", Arguments: json.RawMessage("{}")}.Normalize()
	fatal(t, err)
	taken := h.m.status == session.Requested || h.m.status == session.Running ||
		h.m.status == session.Answered
	h.do(t, taken, func(tx *session.Tx) error { return tx.Pause("c", &session.Hold{Await: await}) })
	if taken {
		if h.m.early != "" {
			h.m.early = ""
			h.m.pauses++ // the number that the answer was for is taken
			h.m.refuse(h.m.pauses)
		}
		h.m.pauses++
		h.m.status, h.m.gate, h.m.mode, h.m.deadline = session.Pending, true, tool.ModeReenter, true
		h.m.unknown, h.m.retry = false, false
		h.m.mail.waitFor(nil)
	}
}

func (h *harness) answer(t *rapid.T) {
	n := rapid.IntRange(1, h.m.pauses+2).Draw(t, "pause")
	kind := rapid.SampledFrom([]string{"a1", "a2", "f1", "d1", "r1"}).Draw(t, "content")
	in := &session.Incoming{Pause: session.PauseID("c", n), Kind: session.KindComplete,
		Hash: kind, Actor: "x"}
	in.Payload, _ = session.NewBlob(json.RawMessage(`"` + kind + `"`))
	switch kind[0] {
	case 'f':
		in.Kind = session.KindFail
	case 'd':
		in.Kind, in.Payload = session.KindDecision, nil
		in.Decision.Approved = true
	case 'r':
		in.Kind, in.Payload = session.KindRunAgain, nil
	}
	want := h.m.answer(n, kind)
	var r session.Receipt
	fatal(t, h.store.Update(t.Context(), "s", func(tx *session.Tx) (err error) {
		r, err = tx.Answer(in,
			func(session.Asked, json.RawMessage) (error, error) { return nil, nil })
		return err
	}))
	got := "accepted"
	switch {
	case r.Duplicate:
		got = "duplicate"
	case errors.Is(r.Err, session.ErrResumeConflict):
		got = "conflict"
	case r.Err != nil:
		got = "refused"
	}
	if got != want {
		t.Fatalf("the answer %s to pause %d is %s (%v), not %s", kind, n, got, r.Err, want)
	}
	_, err := h.drive.Refresh(t.Context())
	fatal(t, err)
}

func (h *harness) cancel(t *rapid.T) {
	settled := h.m.status == session.Settled
	r, err := session.Receipt{}, error(nil)
	err = h.store.Update(t.Context(), "s", func(tx *session.Tx) (err error) {
		r, err = tx.Cancel("c", "x", "")
		return err
	})
	switch {
	case h.m.receipts[0] != "": // cancelled before
		if err != nil || !r.Duplicate {
			t.Fatalf("cancelling again: %+v, %v", r, err)
		}
	case settled:
		if !errors.Is(err, session.ErrSettled) {
			t.Fatalf("cancelling what is settled: %v", err)
		}
	default:
		fatal(t, err)
		h.m.receipts[0] = "cancel"
		// A drive holds the session: where no claim would show it, the body may
		// be running.
		if h.m.status == session.Running || !h.m.once && h.m.status != session.Pending {
			h.m.cancelling = true
		} else {
			h.m.settle()
		}
	}
	_, err = h.drive.Refresh(t.Context())
	fatal(t, err)
}

func (h *harness) settle(t *rapid.T) {
	status := rapid.SampledFrom([]event.Status{event.Done, event.Failed}).Draw(t, "status")
	taken := h.m.status != session.Settled
	h.do(t, taken, func(tx *session.Tx) error {
		return tx.Settle("c", &session.Outcome{Status: status, Body: true})
	})
	if taken {
		h.m.mail.byBody = true
		h.m.settle()
	}
}

// time passes until every deadline is over, and an answer that comes then finds
// it so.
func (h *harness) time(t *rapid.T) {
	h.now = h.now.Add(8 * 24 * time.Hour)
	fatal(t, h.drive.Update(t.Context()))
	switch {
	case h.m.status != session.Pending || !h.m.deadline:
	case h.m.retry:
		h.m.status, h.m.tried = session.Answered, h.m.tried+1
	case h.m.reenters && !h.m.gate:
		h.m.given(tool.ModeReenter, h.m.pauses)
		h.m.timedOut = true
	default:
		h.m.settle()
	}
}

// crash takes up an early answer, as the drive does that follows one that died.
func (h *harness) crash(t *rapid.T) {
	taken := h.m.early != "" && h.m.status != session.Settled
	h.do(t, taken, func(tx *session.Tx) error { return tx.TakeEarly("c") })
	if taken {
		h.takenEarly()
	}
}

func (h *harness) takenEarly() {
	h.m.pauses++
	if h.m.early[0] == 'f' {
		h.m.settle()
		return
	}
	h.m.early = ""
	h.m.given(tool.ModeOutput, h.m.pauses)
}

func (h *harness) compare(t *rapid.T) {
	st, err := h.store.Load(t.Context(), "s")
	fatal(t, err)
	c := st.Call("c")
	answerOf := 0
	if c.Answer != nil {
		answerOf = c.Answer.Pause
	}
	tried := 0
	if c.Tried != nil {
		tried = c.Tried.Count
	}
	got := fmt.Sprint(c.Status, c.Pauses, c.Early != nil, c.Cancel != nil, answerOf, len(c.Again), tried)
	if want := fmt.Sprint(h.m.status, h.m.pauses, h.m.early != "", h.m.cancelling,
		h.m.answerOf, h.m.again, h.m.tried); got != want {
		t.Fatalf("the head has %s, the model %s", got, want)
	}
	h.compareMail(t, c)
	for p, err := range h.store.Check(t.Context()) {
		t.Fatalf("%v, %v", p, err)
	}
}
