package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
)

// What lies beside a head, and is not what belongs there, is an error: it is
// neither taken for something else nor trusted with how much memory to ask for.
func TestDamageBesideTheHead(t *testing.T) {
	ctx := context.Background()
	answer := func(s *session.Store) error {
		return s.Update(ctx, "first", func(tx *session.Tx) error {
			_, err := tx.Answer(&session.Incoming{Pause: "c1.1",
				Kind: session.KindDecision, Hash: "h"}, fits)
			return err
		})
	}
	said := func(s *session.Store) error {
		return s.Update(ctx, "first", func(tx *session.Tx) error {
			_, _, err := tx.Said("m", "h")
			return err
		})
	}
	keys := func(s *session.Store) error { _, err := s.TokenKeys(ctx); return err }
	rotate := func(s *session.Store) error {
		_, err := s.RotateTokenKeys(ctx, time.Time{})
		return err
	}
	record := func(s *session.Store) error { _, _, err := s.Record(ctx, "first", "c9"); return err }
	find := func(s *session.Store) error { _, err := s.PauseSession(ctx, "c1.1"); return err }
	byKey := func(s *session.Store) error {
		_, err := s.FindKey(ctx, session.OutsideKey{Tool: "job", Key: "k"})
		return err
	}
	load := func(s *session.Store) error { _, err := s.Load(ctx, "first"); return err }
	history := func(s *session.Store) error {
		st, err := s.Load(ctx, "first")
		if err == nil {
			_, err = s.History(ctx, st, 0)
		}
		return err
	}
	value := func(s *session.Store) error {
		r, _, err := s.Record(ctx, "first", "c9")
		if err == nil {
			_, err = s.Value(ctx, "first", r.Output)
		}
		return err
	}
	inbox := func(s *session.Store) error {
		for _, err := range s.Inbox(ctx, session.PauseFilter{User: "bob"}) {
			return err
		}
		return nil
	}
	const secret = `"secret":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","created":"2026-01-01T00:00:00Z"`
	done := func(more string) string {
		return `{"v":1,"call":"c9","tool":"t","turn":1,"status":"done","at":"2026-01-01T00:00:00Z"` + more + `}`
	}
	receipt, ring := kvstore.Key("r", "first", "c1", "1"), kvstore.Key("x", "token-keys")
	for name, d := range map[string]struct {
		key   []byte
		value string // #: what is there
		read  func(*session.Store) error
	}{
		"a receipt that is null": {receipt, `null`, answer},
		"a receipt of nothing":   {receipt, `{}`, answer},
		"a receipt of an unknown kind": {
			receipt, `{"call":"c1","pause":1,"kind":"decisioo","hash":"h","at":"2026-01-01T00:00:00Z"}`, answer,
		},
		"a receipt of an unknown fate": {
			receipt, `{"call":"c1","pause":1,"kind":"decision","fate":"x","at":"2026-01-01T00:00:00Z"}`, answer,
		},
		"a receipt of another call": {
			receipt, `{"call":"c2","pause":1,"kind":"decision","hash":"h","at":"2026-01-01T00:00:00Z"}`, answer,
		},
		"a receipt of another pause": {
			receipt, `{"call":"c1","pause":2,"kind":"decision","hash":"h","at":"2026-01-01T00:00:00Z"}`, answer,
		},
		"a receipt of two kinds": {receipt,
			`{"call":"c1","pause":1,"kind":"decision","kind":"decision","hash":"h","at":"2026-01-01T00:00:00Z"}`, answer},
		"a receipt with a name in another case": {receipt,
			`{"call":"c1","pause":1,"kind":"decision","Hash":"h","at":"2026-01-01T00:00:00Z"}`, answer},
		"a receipt with a field that is null": {receipt,
			`{"call":"c1","pause":1,"kind":"decision","by":null,"at":"2026-01-01T00:00:00Z"}`, answer},
		"a receipt without its pause": {receipt, `{"call":"c1","kind":"decision","at":"2026-01-01T00:00:00Z"}`, answer},
		"a record without its approval": {kvstore.Key("c", "first", "c9"),
			done(`,"decisions":[{"gate":"g","at":"2026-01-01T00:00:00Z","shown":"h","pause":1}]`), record},
		"a user's message that is null": {kvstore.Key("u", "first", "m"), `null`, said},
		"a user's message without a hash": {kvstore.Key("u", "first", "m"),
			`{"number":1}`, said},
		"a key ring of no version": {ring, `{"keys":[{"id":1,` + secret + `}]}`, keys},
		"a key ring without a secret": {
			ring, `{"v":1,"keys":[{"id":1,"created":"2026-01-01T00:00:00Z"}]}`, keys,
		},
		"a key ring with a short secret": {
			ring, `{"v":1,"keys":[{"id":1,"secret":"AAAA"}]}`, rotate,
		},
		"a key ring in disorder": {
			ring, `{"v":1,"keys":[{"id":2,` + secret + `}]}`, keys,
		},
		"a key ring above its floor": {
			ring, `{"v":2,"floor":3,"keys":[{"id":4,` + secret + `}]}`, keys,
		},
		"a key ring with a floor of nothing": {
			ring, `{"v":2,"keys":[{"id":1,` + secret + `}]}`, keys,
		},
		"a record of another call": {kvstore.Key("c", "first", "c9"),
			strings.Replace(done(""), "c9", "c8", 1), record},
		"a record of an empty action": {kvstore.Key("c", "first", "c9"),
			done(`,"actions":[null]`), record},
		"a record with half a decision": {kvstore.Key("c", "first", "c9"),
			done(`,"decisions":[{"gate":"g","approved":true,"pause":1}]`), record},
		"a record whose payload is too large": {kvstore.Key("c", "first", "c9"),
			done(`,"output":{"ref":"pl_1","size":9000000000000000000}`), value},
		"a record whose payload is nowhere": {kvstore.Key("c", "first", "c9"),
			done(`,"output":{"ref":"pl_1","size":5}`), value},
		"a record whose payload is no JSON": {kvstore.Key("c", "first", "c9"),
			done(`,"output":{"ref":"pl_x","size":5}`), value},
		"a message whose payload is too large": {kvstore.Key("m", "first", "0", "00000000"),
			`{"ref":"pl_1","size":9000000000000000000}`, history},
		"a message whose payload is no JSON": {kvstore.Key("m", "first", "0", "00000000"),
			`{"ref":"pl_x","size":5}`, history},
		"a message that is null": {kvstore.Key("m", "first", "0", "00000000"),
			`null`, history},
		"a pause entry of nothing": {kvstore.Key("o", "c1.1"), `{}`, find},
		"an outside key that is null": {kvstore.Key("k", "job", "k", "first", "c2"),
			`null`, byKey},
		"an outside key of pause zero": {kvstore.Key("k", "job", "k", "first", "c2"), `0`, byKey},
		"too many messages": {
			kvstore.Key("h", "first"), `"msgs":2->"msgs":9000000000000000000`, history,
		},
		"another session's head": {kvstore.Key("h", "first"), `"id":"first"->"id":"second"`, load},
		"an action that is null": {
			kvstore.Key("h", "first"), `"pauses":1->"pauses":1,"actions":[null]`, load,
		},
		"an action that is null, and a later field": {
			kvstore.Key("h", "first"), `"pauses":1->"pauses":1,"later":1,"actions":[null]`, load},
		"an entry of another user in the index of machine waits": {
			nil, `{"session":"first","tool":"job","user":"bob","reason":"external"}`, inbox,
		},
	} {
		t.Run(name, func(t *testing.T) {
			kv, s := gated(t)
			if d.key == nil {
				page, err := kv.Scan(ctx, kvstore.Range{Prefix: kvstore.Key("a")})
				must(t, err)
				d.key = page.Entries[0].Key
			}
			if from, to, edit := strings.Cut(d.value, "->"); edit {
				overwrite(t, kv, func(head string) string {
					return strings.Replace(head, from, to, 1)
				})
			} else {
				_, err := kv.Apply(ctx, kvstore.Batch{Puts: []kvstore.Put{
					{Key: kvstore.Key("p", "first", "pl_x", "00000"), Value: []byte(`{"a":`)},
					{Key: d.key, Value: []byte(d.value)},
				}})
				must(t, err)
			}
			if err := d.read(s); !errors.Is(err, session.ErrCorrupt) {
				t.Errorf("it is read, with %v", err)
			}
			problems := 0
			for p, err := range s.Check(ctx) {
				must(t, err)
				if problems++; p.Session == "second" {
					t.Errorf("the other session is blamed: %v", p)
				}
			}
			if problems == 0 {
				t.Error("Check finds nothing wrong")
			}
			d, err := s.Acquire(ctx, "second", nil) // the other session goes on
			must(t, err)
			must(t, d.Update(ctx, func(tx *session.Tx) error {
				return tx.Say(entry(t, llm.UserText("Go on.")), "", "", false)
			}))
			d.Release()
		})
	}
}
