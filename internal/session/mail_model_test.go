package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// mailModel is the events of one call, written down a second time. The call
// takes x and y, ten together.
type mailModel struct {
	came    []string          // the names, in order
	ids     []string          // their ids
	content map[string]string // by name and id
	shown   int               // by the last answer that enters the tool again
	from    int               // of those, how many an answer before had shown
	wait    []string          // what the open pause waits for; none: no events
	count   int
	was     bool // the last answer: events ended the pause
	byBody  bool // the call is settled by its body
	atEnd   int  // once it is settled: how many its body was shown
}

// given notes an answer to a pause.
func (m *mailModel) given(mode tool.Mode) {
	m.wait, m.was = nil, false
	if mode == tool.ModeReenter {
		m.from, m.shown = m.shown, len(m.came)
	}
}

func (m *mailModel) waitFor(w *tool.MailWait) {
	m.wait, m.count = nil, 0
	if w != nil {
		m.wait, m.count = w.Names, w.Count
	}
}

// end notes how many events the body of a call that settles was shown.
func (m *mailModel) end(call *model) {
	m.wait, m.was, m.atEnd = nil, false, m.shown
	if call.status == session.Answered && call.answered == tool.ModeReenter && !m.byBody &&
		call.tried == 0 {
		m.atEnd = m.from
	}
}

// met ends the open pause, if what it waits for has come and was not shown.
func (m *model) met() {
	if m.status != session.Pending || len(m.mail.wait) == 0 {
		return
	}
	n := 0
	for _, name := range m.mail.wait {
		waiting := 0
		for _, came := range m.mail.came[m.mail.shown:] {
			if came == name {
				waiting++
			}
		}
		if m.mail.count == 0 && waiting == 0 {
			return
		}
		n += waiting
	}
	if n >= m.mail.count {
		m.given(tool.ModeReenter, m.pauses)
		m.mail.was = true
	}
}

// send is what an event comes to.
func (m *model) send(name, id, content string) string {
	key := name + " " + id
	first, came := m.mail.content[key]
	switch {
	case came && first == content:
		return "duplicate"
	case came:
		return "conflict"
	case m.status == session.Settled, name == "z", len(m.mail.came) == 10:
		return "refused"
	}
	if m.mail.content == nil {
		m.mail.content = map[string]string{}
	}
	m.mail.content[key] = content
	m.mail.came, m.mail.ids = append(m.mail.came, name), append(m.mail.ids, id)
	m.met()
	return "accepted"
}

func (h *harness) send(t *rapid.T) {
	name := rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "name")
	id := rapid.SampledFrom([]string{"1", "2", "3", "4", "5", "6"}).Draw(t, "id")
	content := rapid.SampledFrom([]string{"1", "1", "2"}).Draw(t, "content")
	in := &session.IncomingMail{Call: "c", Name: name, ID: id, Hash: content, Actor: "x"}
	in.Payload, _ = session.NewBlob(json.RawMessage(content))
	want := h.m.send(name, id, content)
	var r session.Receipt
	fatal(t, h.store.Update(t.Context(), "s", func(tx *session.Tx) (err error) {
		r, err = tx.Deliver(in,
			func(session.Asked, json.RawMessage) (error, error) { return nil, nil })
		return err
	}))
	got := "accepted"
	switch {
	case r.Duplicate:
		got = "duplicate"
		late := h.m.status == session.Settled && r.Event.Number > h.m.mail.atEnd
		if late != (r.Fate == session.Superseded) {
			t.Fatalf("the event %s %s is told the fate %q, and the body was shown %d",
				name, id, r.Fate, h.m.mail.atEnd)
		}
	case errors.Is(r.Err, session.ErrResumeConflict):
		got = "conflict"
	case r.Err != nil:
		got = "refused"
	}
	if got != want {
		t.Fatalf("the event %s %s is %s (%v), not %s", name, id, got, r.Err, want)
	}
	if at := r.Event.Number - 1; r.Err == nil && (h.m.mail.came[at] != name || h.m.mail.ids[at] != id) {
		t.Fatalf("the event %s %s has number %d", name, id, r.Event.Number)
	}
	_, err := h.drive.Refresh(t.Context())
	fatal(t, err)
}

// pauseForEvents makes the call wait for events, in one of the ways.
func (h *harness) pauseForEvents(t *rapid.T) {
	names := rapid.SampledFrom([][]string{{"x"}, {"y"}, {"x", "y"}}).Draw(t, "names")
	in := tool.CountOf(rapid.IntRange(1, 3).Draw(t, "count"), names...)
	if rapid.Bool().Draw(t, "all") {
		in = tool.AllOf(names...)
	}
	if rapid.Bool().Draw(t, "bounded") {
		in.Timeout = time.Hour
		if rapid.Bool().Draw(t, "reenters") {
			in.OnTimeout = tool.ReenterOnTimeout
		}
	}
	h.pauses(t, in)
}

// compareMail holds the events of the head, and those that the next entry is
// shown, against the model. Each event is new to one entry at most, and none is
// passed over.
func (h *harness) compareMail(t *rapid.T, c *session.Call) {
	m := &h.m.mail
	if c.Status == session.Settled {
		r, _, err := h.store.Record(t.Context(), "s", "c")
		fatal(t, err)
		if r.Mail != len(m.came) || r.MailShown != m.atEnd {
			t.Fatalf("the record has %d events, of which %d were shown; the model has %d, %d",
				r.Mail, r.MailShown, len(m.came), m.atEnd)
		}
		return
	}
	waits := []string(nil)
	if c.Pause != nil && c.Pause.Mail != nil {
		waits = c.Pause.Mail.Names
	}
	got := fmt.Sprint(c.Mailbox.Count, c.Mailbox.Shown, waits)
	if want := fmt.Sprint(len(m.came), m.shown, m.wait); got != want {
		t.Fatalf("the head has events %s, the model %s", got, want)
	}
	if c.Answer == nil || c.Answer.Mode != tool.ModeReenter {
		return
	}
	all, err := h.store.MailFor(t.Context(), "s", c)
	fatal(t, err)
	var fresh, names []string
	for _, e := range all {
		names = append(names, e.Name)
		if e.New {
			fresh = append(fresh, e.ID)
		}
	}
	if !slices.Equal(names, m.came[:m.shown]) || !slices.Equal(fresh, m.ids[m.from:m.shown]) {
		t.Fatalf("the entry is shown %v, of which %v are new; the model has %v from %d on",
			names, fresh, m.came[:m.shown], m.from)
	}
}
