package session_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// telling returns a store that tells the outside, and the drive of a session
// whose one call waits for an answer.
func telling(t *testing.T) (*kvstore.Memory, *session.Store, *session.Lease) {
	t.Helper()
	kv := kvstore.NewMemory()
	s := session.NewStore(kv, &session.Options{Notify: &session.Notify{Remind: time.Hour}})
	d, err := s.Acquire(t.Context(), "s", &session.New{User: "ada", Agent: "ops"})
	must(t, err)
	t.Cleanup(d.Release)
	asked := llm.Message{Role: llm.RoleAssistant,
		Parts: []llm.Part{llm.ToolCall{ID: "c", Name: "ask", Arguments: []byte(`{}`)}}}
	call := session.Call{ID: "c", Tool: "ask", Status: session.Requested, MayPause: true,
		Effect: tool.Idempotent}
	must(t, d.Update(t.Context(),
		func(tx *session.Tx) error { return tx.Say(entry(t, llm.UserText("Go.")), "", "", false) },
		func(tx *session.Tx) error {
			return tx.Reply(entry(t, asked), []session.Call{call}, session.Stopped{}, 0)
		},
		pause("c", tool.Await{Reason: tool.ReasonInput, Timeout: 2 * time.Hour})))
	return kv, s, d
}

// due returns the one session that has something to send, or nil.
func dueNotices(t *testing.T, s *session.Store) (due []session.DueNotice) {
	t.Helper()
	for shard := range session.NoticeShards {
		some, _, _, err := s.DueNotices(t.Context(), shard, nil)
		must(t, err)
		due = append(due, some...)
	}
	return due
}

// unsent returns what a session has to send, and sends it.
func unsent(t *testing.T, s *session.Store) (kinds []session.NotificationKind) {
	t.Helper()
	for _, d := range dueNotices(t, s) {
		w, err := s.BeginSending(t.Context(), d, time.Second)
		must(t, err)
		for {
			u, more, err := w.Next(t.Context())
			must(t, err)
			if !more {
				break
			}
			kinds = append(kinds, u.Kind)
			must(t, w.Sent(t.Context()))
		}
		w.Release()
	}
	return kinds
}

// edit changes the one record of a kind, or with nil takes it away.
func edit(t *testing.T, kv kvstore.Store, kind string, to func(string) []byte) {
	t.Helper()
	page, err := kv.Scan(t.Context(), kvstore.Range{Prefix: kvstore.Key(kind)})
	must(t, err)
	if len(page.Entries) == 0 {
		t.Fatalf("there is no record of kind %s", kind)
	}
	e := page.Entries[0]
	b := kvstore.Batch{Deletes: [][]byte{e.Key}}
	if to != nil {
		b = kvstore.Batch{Puts: []kvstore.Put{{Key: e.Key, Value: to(string(e.Value))}}}
	}
	_, err = kv.Apply(t.Context(), b)
	must(t, err)
}

func untold(t *testing.T, s *session.Store) (all []string) {
	t.Helper()
	for p, err := range s.Check(t.Context()) {
		must(t, err)
		all = append(all, p.String())
	}
	return all
}

// Check reports what no sender would find, and what it couldn't read.
func TestCheckSeesWhatIsUntold(t *testing.T) {
	broken := func(s string) []byte { return []byte(s[:len(s)-1]) }
	for want, damage := range map[string]func(kv kvstore.Store){
		"is not in the index of that":    func(kv kvstore.Store) { edit(t, kv, "O", nil) },
		`["N" "s" "0000000001"]: `:       func(kv kvstore.Store) { edit(t, kv, "N", broken) },
		"is no entry of the index":       func(kv kvstore.Store) { put(t, kv, kvstore.Key("O", "00", "1"), "") },
		`record is damaged: ["D" "s" `:   func(kv kvstore.Store) { put(t, kv, kvstore.Key("D", "s", "1"), "{") },
		`record is damaged: ["L" "s"]: `: func(kv kvstore.Store) { put(t, kv, kvstore.Key("L", "s"), "{") },
		"the reminder of a pause": func(kv kvstore.Store) {
			edit(t, kv, "O", nil) // that of what is to be sent now
			edit(t, kv, "O", nil)
		},
	} {
		kv, s, _ := telling(t)
		if all := untold(t, s); len(all) > 0 {
			t.Fatalf("sound is %q", all)
		}
		damage(kv)
		if all := strings.Join(untold(t, s), "\n"); !strings.Contains(all, want) {
			t.Errorf("for %q it reports %q", want, all)
		}
	}
}

// A record that is damaged keeps none after it from being sent, and is listed.
func TestDamagedNotificationsHoldNothingUp(t *testing.T) {
	kv, s, d := telling(t)
	edit(t, kv, "N", func(s string) []byte { return []byte("{") })
	put(t, kv, kvstore.Key("L", "s"), "{")
	must(t, d.Update(t.Context(), func(tx *session.Tx) error {
		tx.End(event.FinishCancelled, "ada", "no more")
		return nil
	}, func(tx *session.Tx) error {
		return tx.Settle("c", &session.Outcome{Status: event.Expired, Output: blob(t, `1`)})
	}))
	if kinds := unsent(t, s); len(kinds) != 1 || kinds[0] != session.NoteFailed {
		t.Errorf("sent are %q", kinds)
	}
	n := 0
	for d, err := range s.DeadLetters(t.Context(), "s") {
		if n++; err == nil || d.Session != "s" || d.Number != 1 {
			t.Errorf("listed is %+v, %v", d, err)
		}
	}
	if n != 1 || len(dueNotices(t, s)) != 0 {
		t.Errorf("%d dead letters, and due are %v", n, dueNotices(t, s))
	}
}

// A reminder whose entry was left says nothing, and goes.
func TestReminderOfAPauseThatIsOver(t *testing.T) {
	kv, s, d := telling(t)
	must(t, d.Update(t.Context(), answers(t, "c.1")))
	unsent(t, s)
	left := session.DueNotice{Session: "s", Pause: "c.1", Key: kvstore.Key("O", "00", "1", "s", "c.1")}
	put(t, kv, left.Key, "")
	must(t, s.RemindOf(t.Context(), left))
	if due := dueNotices(t, s); len(due) != 0 {
		t.Errorf("due are %v", due)
	}
}

func put(t *testing.T, kv kvstore.Store, key []byte, value string) {
	t.Helper()
	_, err := kv.Apply(t.Context(),
		kvstore.Batch{Puts: []kvstore.Put{{Key: key, Value: []byte(value)}}})
	must(t, err)
}
