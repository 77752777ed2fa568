package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// A deploy changes which events a tool takes. Those that have come stay, and
// count on.
func TestEventsOfAToolThatWasDeclaredAnew(t *testing.T) {
	takes := func(then func(tool.Call) tool.Await, events ...tool.MailboxEvent) tool.Tool {
		spec := tool.Spec{
			Name: "buy", Effect: tool.Idempotent, MayPause: true, Mailbox: events,
		}
		return does(spec, func(ctx context.Context, _ string) (tool.Result[textOut], error) {
			call := tool.CallFrom(ctx)
			if call.Pauses == 2 {
				return tool.Done(textOut{entryOf(call)}), nil
			}
			a := then(call)
			a.Data = text(entryOf(call))
			return tool.Pending[textOut](a), nil
		})
	}
	r := newRig(t, oneCall(takes(func(tool.Call) tool.Await {
		return tool.Await{Mode: tool.ModeReenter}
	}, note, done.Spec())), nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("buy")
	r.sent(sends(p.Call, "note", "1")).finished(event.FinishPaused)
	_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("")))
	must(t, err)
	// The answer shows the first. What comes from here on is for the next pause.
	_, err = r.Deliver(t.Context(), chat, sends(p.Call, "note", "2"), sends(p.Call, "done", "1"))
	must(t, err)

	r.config.Tools = []tool.Tool{takes(func(tool.Call) tool.Await {
		return tool.AllOf("offer", "done")
	}, offer.Spec(), done.Spec())}
	r.restart()
	// Another process, which doesn't have the tool, judges by what is stored.
	if _, err := r.Deliver(t.Context(), chat, sends(p.Call, "offer", "0")); !errors.Is(err,
		session.ErrUnknownEvent) {
		t.Errorf("before the call is entered again, an event of the new tool is told %v", err)
	}
	r.carryOn().finished(event.FinishPaused) // the done has come before
	if _, err := r.Deliver(t.Context(), chat, sends(p.Call, "note", "3")); !errors.Is(err,
		session.ErrUnknownEvent) {
		t.Errorf("an event that the tool takes no more is told %v", err)
	}
	r.redelivered(sends(p.Call, "note", "2"), 2)
	r.sound()
	r.sent(sends(p.Call, "offer", "1")).finished(event.FinishStop)
	if got, want := r.shown(p.Call), "(note 1*)(note 1, note 2*, done 1*, offer 1*)"; got != want {
		t.Errorf("the entries were shown %s, not %s", got, want)
	}
	r.sound()
}

// picky is a type whose own method refuses what its schema allows.
type picky struct{ Word string }

func (p *picky) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, &p.Word); err != nil {
		return err
	}
	if p.Word == "never" {
		return errors.New("not that one")
	}
	return nil
}

func (p picky) MarshalJSON() ([]byte, error) { return json.Marshal(p.Word) }

func TestEventIsJudgedByTheGoType(t *testing.T) {
	word := tool.Must(tool.NewEvent[picky]("word"))
	spec := tool.Spec{Name: "buy", MayPause: true, Mailbox: []tool.MailboxEvent{word.Spec()}}
	r := newRig(t, oneCall(does(spec,
		func(ctx context.Context, _ string) (tool.Result[textOut], error) {
			words, err := word.From(tool.CallFrom(ctx))
			if len(words) > 0 || err != nil {
				return tool.Done(textOut{words[0].Value.Word}), err
			}
			return tool.Pending[textOut](tool.AnyOf("word")), nil
		})), nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("buy")
	m := runner.Mail{Call: p.Call, Name: "word", ID: "1", Payload: json.RawMessage(`"never"`)}
	if _, err := r.Deliver(t.Context(), chat, m); !errors.Is(err, session.ErrInvalidResumePayload) ||
		!strings.Contains(err.Error(), "not that one") {
		t.Errorf("what the type can't read is told %v", err)
	}
	m.Payload = json.RawMessage(`"now"`)
	r.sent(m).finished(event.FinishStop)
	if got := r.shown(p.Call); got != "now" {
		t.Errorf("the result is %s", got)
	}
}

// Events and their receipts live as long as the receipts of their call, and go
// with it, and with its session.
func TestEventsGoWithTheirCall(t *testing.T) {
	left := func(r *rig) (n int) {
		for _, kind := range []string{"e", "d", "p"} {
			page, err := r.engine.Scan(t.Context(), kvstore.Range{Prefix: kvstore.Key(kind)})
			must(t, err)
			n += len(page.Entries)
		}
		return n
	}
	for _, how := range []string{"sweep", "delete"} {
		t.Run(how, func(t *testing.T) {
			var n counter
			cl := &clock{at: time.Now()}
			r, p := bought(t, &rigOptions{session: &session.Options{Now: cl.now}}, &n,
				tool.AllOf("done", "note"))
			large := sends(p.Call, "done", "1")
			large.Payload, _ = json.Marshal(strings.Repeat("x", 100<<10))
			r.sent(large).finished(event.FinishPaused)
			cl.pass(40 * 24 * time.Hour)
			_, err := r.store.Sweep(t.Context(), nil)
			must(t, err)
			r.restart()
			r.sound()
			r.sent(sends(p.Call, "note", "1")).finished(event.FinishStop)
			if got := r.shown(p.Call); got != "(done 1*, note 1*)" {
				t.Errorf("the entry was shown %s", got)
			}
			if how == "delete" {
				must(t, r.Delete(t.Context(), chat, user))
				if _, err := r.Deliver(t.Context(), chat, large); !errors.Is(err, session.ErrDeleted) {
					t.Errorf("an event of a deleted session is told %v", err)
				}
			} else {
				r.redelivered(large, 1)
				cl.pass(40 * 24 * time.Hour)
				_, err := r.store.Sweep(t.Context(), nil)
				must(t, err)
				if _, err := r.Deliver(t.Context(), chat, large); !errors.Is(err, session.ErrUnknownCall) {
					t.Errorf("an event whose receipt is gone is told %v", err)
				}
			}
			if n := left(r); n != 0 {
				t.Errorf("%d entries are left", n)
			}
			r.sound()
		})
	}
}

// A check finds what is wrong with events.
func TestCheckFindsDamagedEvents(t *testing.T) {
	for name, key := range map[string]func(p tool.Pause) []byte{
		"an event":   func(p tool.Pause) []byte { return kvstore.Key("e", chat, p.Call, "00000001") },
		"a receipt":  func(p tool.Pause) []byte { return kvstore.Key("d", chat, p.Call, "note", "1") },
		"one beside": func(p tool.Pause) []byte { return kvstore.Key("e", chat, p.Call, "00000002") },
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			r, p := bought(t, nil, &n, tool.AllOf("done"))
			r.sent(sends(p.Call, "note", "1")).finished(event.FinishPaused)
			b := kvstore.Batch{Deletes: [][]byte{key(p)}}
			if name == "one beside" {
				first, err := r.engine.Get(t.Context(), kvstore.Key("e", chat, p.Call, "00000001"))
				must(t, err)
				b = kvstore.Batch{Puts: []kvstore.Put{{Key: key(p), Value: first.Value}}}
			}
			_, err := r.engine.Apply(t.Context(), b)
			must(t, err)
			found := 0
			for _, err := range r.store.Check(t.Context()) {
				must(t, err)
				found++
			}
			if found == 0 {
				t.Error("the check finds nothing wrong")
			}
		})
	}
}
