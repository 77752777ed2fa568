package session_test

import (
	"context"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
)

// hooked does something once, after a look that has found nothing to send.
type hooked struct {
	*kvstore.Memory
	after func()
}

func (h *hooked) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	page, err := h.Memory.Scan(ctx, r)
	parts, _ := kvstore.Parts(r.Prefix)
	if f := h.after; f != nil && parts[0] == "N" && len(page.Entries) == 0 {
		h.after = nil
		f()
	}
	return page, err
}

func (h *hooked) halts(t *testing.T, s *session.Store) {
	must(t, s.Update(t.Context(), "s", func(tx *session.Tx) error {
		tx.Calls, tx.Halt, tx.Due = nil, nil, true
		tx.Stop(event.FinishFailed, "no")
		return nil
	}))
}

// What is told between the last look and the end of the sending is not lost,
// though it stands at the same place of the index.
func TestToldWhileASenderEnds(t *testing.T) {
	kv, _, d := telling(t)
	d.Release()
	h := &hooked{Memory: kv}
	at := time.Now()
	s := session.NewStore(h, &session.Options{Notify: &session.Notify{},
		Now: func() time.Time { return at }})
	unsent(t, s) // what telling has told
	h.halts(t, s)
	h.after = func() { h.halts(t, s) }
	kinds := unsent(t, s)
	kinds = append(kinds, unsent(t, s)...)
	if len(kinds) != 2 {
		t.Errorf("sent are %q", kinds)
	}
}

// While a failure is waited out, what is told later waits as well, and costs no
// more looks.
func TestToldWhileAFailureIsWaitedOut(t *testing.T) {
	kv, _, d := telling(t)
	d.Release()
	h := &hooked{Memory: kv}
	at := time.Now()
	s := session.NewStore(h, &session.Options{Notify: &session.Notify{},
		Now: func() time.Time { return at }})
	due := dueNotices(t, s)
	w, err := s.BeginSending(t.Context(), due[0], time.Second)
	must(t, err)
	_, _, err = w.Next(t.Context())
	must(t, err)
	_, err = w.Failed(t.Context(), "no", func(int) (time.Duration, bool) { return time.Minute, true })
	must(t, err)
	w.Release()
	at = at.Add(2 * time.Second)
	h.halts(t, s)
	if due = dueNotices(t, s); len(due) != 1 {
		t.Fatalf("due are %v", due)
	}
	if w, err := s.BeginSending(t.Context(), due[0], time.Second); w != nil || err != nil {
		t.Errorf("it may send, %v", err)
	}
	if due = dueNotices(t, s); len(due) != 0 {
		t.Errorf("still due are %v", due)
	}
	at = at.Add(time.Minute)
	if kinds := unsent(t, s); len(kinds) != 3 {
		t.Errorf("sent are %q", kinds)
	}
}

// Where only the acknowledgement of a sending was not stored, it is not sent
// again by the same sender.
func TestSentThoughTheCommitFailed(t *testing.T) {
	kv, _, d := telling(t)
	d.Release()
	c := &conflicting{Memory: kv}
	s := session.NewStore(c, &session.Options{Notify: &session.Notify{}})
	w, err := s.BeginSending(t.Context(), dueNotices(t, s)[0], time.Second)
	must(t, err)
	var numbers []int
	for {
		u, more, err := w.Next(t.Context())
		must(t, err)
		if !more {
			break
		}
		numbers = append(numbers, u.Number)
		c.once = true
		must(t, w.Sent(t.Context()))
	}
	w.Release()
	if len(numbers) != 2 || numbers[0] != 1 || numbers[1] != 2 {
		t.Errorf("sent are %v", numbers)
	}
}

// conflicting refuses one write.
type conflicting struct {
	*kvstore.Memory
	once bool
}

func (c *conflicting) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	if c.once {
		c.once = false
		return 0, kvstore.ErrUncertain
	}
	return c.Memory.Apply(ctx, b)
}
