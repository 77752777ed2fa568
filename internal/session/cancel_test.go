package session_test

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// TestCancelThatIsOvertakenByTheCallItself: a cancellation that has read the
// head before the call was asked for, and finds it settled by another
// cancellation, is that one's duplicate.
func TestCancelThatIsOvertakenByTheCallItself(t *testing.T) {
	kv := kvstore.NewMemory()
	other := session.NewStore(kv, nil)
	d, err := other.Acquire(t.Context(), "s", &session.New{User: "ada"})
	must(t, err)
	must(t, d.Update(t.Context(), func(tx *session.Tx) error {
		return tx.Say(entry(t, llm.UserText("Go.")), "", "", false)
	}))
	cancel := func(s *session.Store, by string) (rc session.Receipt, err error) {
		err = s.Update(t.Context(), "s", func(tx *session.Tx) (err error) {
			rc, err = tx.Cancel("c1", by, "")
			return err
		})
		return rc, err
	}
	late := session.NewStore(&beforeRecords{Memory: kv, call: func() {
		m := llm.Message{Role: llm.RoleAssistant,
			Parts: []llm.Part{
				llm.ToolCall{ID: "c1", Name: "pay", Arguments: json.RawMessage(`{}`)},
			}}
		must(t, d.Update(t.Context(), func(tx *session.Tx) error {
			return tx.Reply(entry(t, m), []session.Call{
				{ID: "c1", Tool: "pay", Status: session.Requested},
			}, session.Stopped{}, 0)
		}))
		_, err := cancel(other, "bob")
		must(t, err)
	}}, nil)
	rc, err := cancel(late, "eve")
	if err != nil || !rc.Duplicate || rc.Actor != "bob" {
		t.Errorf("eve is told %+v, %v", rc, err)
	}
}

// beforeRecords is an engine that calls a function before it first reads the
// record of a call.
type beforeRecords struct {
	*kvstore.Memory
	call func()
}

func (b *beforeRecords) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	if call := b.call; call != nil && strings.HasPrefix(string(key), "c\x00") {
		b.call = nil
		call()
	}
	return b.Memory.Get(ctx, key)
}

// A claim that is taken back entered no body. So the events that it would have
// been shown are told as superseded, if the call ended otherwise meanwhile.
func TestEventsOfAClaimThatWasTakenBack(t *testing.T) {
	for name, meanwhile := range map[string]func(tx *session.Tx) error{
		"cancelled": func(tx *session.Tx) error { _, err := tx.Cancel("c", "bob", ""); return err },
		"answered": func(tx *session.Tx) error {
			rc, err := tx.Answer(&session.Incoming{Pause: "c.2", Kind: session.KindComplete,
				Value: json.RawMessage(`"early"`), Payload: blob(t, `"early"`), Hash: "h", Actor: "bob"}, fits)
			return cmp.Or(err, rc.Err)
		},
		"failed": func(tx *session.Tx) error {
			rc, err := tx.Answer(&session.Incoming{Pause: "c.2", Kind: session.KindFail,
				Payload: blob(t, `"no"`), Hash: "h", Actor: "bob"}, fits)
			return cmp.Or(err, rc.Err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if rc := entryThatEnds(t, true, meanwhile); rc.Fate != session.Superseded {
				t.Errorf("the sender is told %+v", rc)
			}
			if name == "cancelled" {
				return
			}
			// Without a claim the store doesn't tell whether the body was entered.
			// It may have acted on the events.
			if rc := entryThatEnds(t, false, meanwhile); rc.Fate != "" {
				t.Errorf("of a body that may have been entered the sender is told %+v", rc)
			}
		})
	}
}

// entryThatEnds has a call stand before the entry that an event leads to, or,
// claimed, have it claimed and the claim taken back, after something that ends
// the call, or answers it. It returns what a repeat of the event is told at the
// end.
func entryThatEnds(
	t *testing.T, claimed bool, meanwhile func(tx *session.Tx) error,
) (told session.Receipt) {
	s := session.NewStore(kvstore.NewMemory(), nil)
	d, err := s.Acquire(t.Context(), "s", &session.New{User: "ada"})
	must(t, err)
	do := func(f func(tx *session.Tx) error) { t.Helper(); must(t, d.Update(t.Context(), f)) }
	send := func() (rc session.Receipt) {
		do(func(tx *session.Tx) (err error) {
			rc, err = tx.Deliver(&session.IncomingMail{Call: "c", Name: "x", ID: "1", Hash: "h",
				Payload: &session.Blob{Inline: []byte("null")}, Actor: "ci"},
				func(session.Asked, json.RawMessage) (error, error) { return nil, nil })
			return err
		})
		must(t, rc.Err)
		return rc
	}
	effect := tool.Idempotent
	if claimed {
		effect = tool.Once
	}
	do(func(tx *session.Tx) error {
		return tx.Say(entry(t, llm.UserText("Go.")), "", "", false)
	})
	do(func(tx *session.Tx) error {
		return tx.Reply(entry(t, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{
			llm.ToolCall{ID: "c", Name: "tell", Arguments: json.RawMessage(`{}`)}}}),
			[]session.Call{{ID: "c", Tool: "tell", Status: session.Requested, MayPause: true,
				Effect: effect, Mailbox: mailbox("x")}}, session.Stopped{}, 0)
	})
	await, err := tool.AnyOf("x").Normalize()
	must(t, err)
	if claimed {
		do(func(tx *session.Tx) error { return tx.Claim("c") })
	}
	do(func(tx *session.Tx) error { return tx.Pause("c", &session.Hold{Await: await}) })
	send()
	var was session.Call
	d.View(func(st *session.State) { was = *st.Call("c") })
	if claimed {
		do(func(tx *session.Tx) error { return tx.Claim("c") })
	}
	do(meanwhile)
	if claimed {
		do(func(tx *session.Tx) error { return tx.Unclaim(&was) })
	} else {
		do(func(tx *session.Tx) error { return tx.TakeEarly("c") })
	}
	do(func(tx *session.Tx) error {
		if tx.Call("c").Status == session.Settled {
			return nil
		}
		return tx.Settle("c", &session.Outcome{Status: event.Done, Output: tx.Call("c").Answer.Payload})
	})
	if told = send(); !told.Duplicate {
		t.Errorf("the sender is told %+v", told)
	}
	d.Release()
	return told
}
