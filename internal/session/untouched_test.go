package session_test

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// A State that readers were lent doesn't change, whatever a transition does
// next: it writes through no pointer of that State.
func TestTransitionsLeaveALentStateAsItIs(t *testing.T) {
	d := busy(t)
	undone := errors.New("undone")
	for method, transitions := range changes(t) {
		for n, change := range transitions {
			_, err := d.Refresh(t.Context())
			must(t, err)
			lent := d.State()
			before := asJSON(t, lent)
			err = d.Update(t.Context(), func(tx *session.Tx) error {
				if err := change(tx); err != nil {
					return err
				}
				return undone
			})
			if !errors.Is(err, undone) {
				t.Errorf("%s (%d) is not taken: %v", method, n, err)
			}
			if after := asJSON(t, lent); after != before {
				t.Errorf("%s (%d) changes\n%s\nto\n%s", method, n, before, after)
			}
		}
	}
}

// The changes above are those of every method of a Tx, but for those of a
// session that has no open turn.
func TestEveryTransitionIsTried(t *testing.T) {
	tried := changes(t)
	closed := []string{"Say", "Reply", "Close", "Again", "AskNow", "UseUp", "Lift",
		"NothingNew", "LiftFor"}
	all := slices.Concat(closed, slices.Collect(maps.Keys(tried)))
	state := reflect.TypeFor[*session.State]()
	var methods []string
	for m := range reflect.TypeFor[*session.Tx]().Methods() {
		if _, reads := state.MethodByName(m.Name); !reads {
			methods = append(methods, m.Name)
		}
	}
	slices.Sort(all)
	slices.Sort(methods)
	if !slices.Equal(all, methods) {
		t.Errorf("tried are\n%v, and a Tx has\n%v", all, methods)
	}
}

// busy returns the drive of a session whose calls are in every state, with all
// that they may have:
//
//	asked    requested
//	runs     running, with an early answer
//	stops    running, and to be cancelled
//	parked   answered, and its tool is gone
//	waits    pending, for a child
//	gate     pending, once decided
//	answered answered, in re-entry
//	mail     pending, for events, of which one has come
//	lost     pending, for an operator
//	owed     settled, and to be called off; a try of that is taken
//	began    settled, and has begun a handle
//	awaits   pending, for that one, and registers
//	outside  pending, for a wait handle of the store, and registers
//	permit   pending, for a permit of such a handle, and registers
func busy(t *testing.T) *session.Lease {
	t.Helper()
	s := session.NewStore(kvstore.NewMemory(),
		&session.Options{Notify: &session.Notify{Remind: time.Hour}})
	d, err := s.Acquire(t.Context(), "s", &session.New{User: "ada"})
	must(t, err)
	t.Cleanup(d.Release)
	m := llm.Message{Role: llm.RoleAssistant}
	var calls []session.Call
	for _, id := range []string{"asked", "runs", "stops", "parked", "waits", "gate", "answered", "mail",
		"lost", "owed", "began", "awaits", "outside", "permit"} {
		m.Parts = append(m.Parts, llm.ToolCall{ID: id, Name: "pay", Arguments: json.RawMessage(`{}`)})
		calls = append(calls, session.Call{ID: id, Tool: "pay", Status: session.Requested,
			Effect: tool.Once, MayPause: true, Mailbox: mailbox("offer", "done")})
	}
	question, message := entry(t, llm.UserText("Go.")), entry(t, m)
	reenter := pause("answered", tool.Await{Mode: tool.ModeReenter, Prompt: "Which?"})
	for _, change := range []session.Transition{
		func(tx *session.Tx) error { return tx.Say(question, "m", "h", false) },
		func(tx *session.Tx) error { return tx.Reply(message, calls, session.Stopped{}, 0) },
		func(tx *session.Tx) error { return tx.Claim("runs") }, answers(t, "runs.1"),
		sends(t, "q1"), sends(t, "q2"),
		func(tx *session.Tx) error { return tx.Claim("stops") }, cancels("stops"),
		pause("parked", tool.Await{}), answers(t, "parked.1"),
		func(tx *session.Tx) error { return tx.Park("parked", tx.Now.Add(time.Hour)) },
		spawns(t, "waits", session.Left{}),
		pause("gate", tool.Await{Gate: "first", Arguments: json.RawMessage(`{}`)}), decides("gate.1"),
		pause("gate", tool.Await{Gate: "second", Arguments: json.RawMessage(`{}`)}),
		reenter, delivers(t, "answered", "offer", "1"), answers(t, "answered.1"),
		delivers(t, "mail", "offer", "1"), pause("mail", tool.AllOf("offer", "done")),
		pause("lost", tool.Await{Reason: tool.ReasonUnknown}),
		undoable(t, "owed"), cancels("owed"), takes("owed"),
		begins(t, "began"), awaits(t, "awaits", "began"),
		awaitsWide(t, "outside", nil), awaitsWide(t, "permit", &tool.PermitWait{Most: 1}),
	} {
		must(t, d.Update(t.Context(), change))
	}
	return d
}

// changes are transitions of the session that busy makes, by the methods.
func changes(t *testing.T) map[string][]session.Transition {
	t.Helper()
	done := &session.Outcome{Status: event.Done, Output: blob(t, `1`), Actions: blob(t, `[]`),
		Body: true}
	list := func(ts ...session.Transition) []session.Transition { return ts }
	void := func(f func(*session.Tx)) []session.Transition {
		return list(func(tx *session.Tx) error { f(tx); return nil })
	}
	each := func(f func(*session.Tx, string) error, calls ...string) (ts []session.Transition) {
		for _, call := range calls {
			ts = append(ts, func(tx *session.Tx) error { return f(tx, call) })
		}
		return ts
	}
	settle := func(tx *session.Tx, call string) error { return tx.Settle(call, done) }
	lose := func(tx *session.Tx, call string) error { return tx.Lose(call, done) }
	extend := func(tx *session.Tx, p string) error { return tx.Extend(p, tx.Now.Add(2*time.Hour)) }
	return map[string][]session.Transition{
		"Answer": list(answers(t, "waits"), answers(t, "stops.1"), decides("gate.2"),
			runsAgain(t, "lost.1")),
		"Give": list(func(tx *session.Tx) error {
			r, err := tx.Give(&session.Incoming{Pause: "waits", Kind: session.KindComplete, Hash: "h",
				Value: json.RawMessage(`2`), Payload: blob(t, `2`), Actor: "ada", Delivery: "1"}, "h", fits)
			return errors.Join(err, r.Err)
		}),
		"TellEnd": list(func(tx *session.Tx) error {
			_, err := tx.TellEnd(session.EndEvent{Session: "other", Event: "ended", ID: "1"})
			return err
		}),
		"CancelChild": void(func(tx *session.Tx) { tx.CancelChild("ada", "no") }),
		"Begin":       list(func(tx *session.Tx) error { return tx.Begin("other", newHandle(t, "other")) }),
		"Register": list(func(tx *session.Tx) error {
			return tx.Register("awaits", 1, 0, []session.Awaited{{Name: "began", All: true,
				Child: session.HandleID("began")}})
		}),
		"RegisteredWaits": list(func(tx *session.Tx) error {
			return tx.RegisteredWaits("outside", 1, 0, 1, nil)
		}, func(tx *session.Tx) error {
			over := session.WaitOver{WaitingCall: session.WaitingCall{Call: "outside", Pause: 1, All: true}}
			return tx.RegisteredWaits("outside", 1, 0, 1, []session.WaitOver{over})
		}),
		"WaitEnded": list(func(tx *session.Tx) error {
			return tx.WaitEnded(session.WaitingCall{Call: "outside", Pause: 1, All: true}, true)
		}),
		"TimeOut": each(func(tx *session.Tx, call string) error {
			return tx.TimeOut(call, "ada", tx.Now)
		}),
		"TakePermit": list(func(tx *session.Tx) error {
			_, err := tx.TakePermit(session.HeldPermit{Scope: "store", Name: "x", Call: "permit", Pause: 1})
			return errors.Join(err, settle(tx, "permit"))
		}),
		"BeginOnce": list(func(tx *session.Tx) error {
			_, err := tx.BeginOnce("once", newHandle(t, "once"))
			return err
		}),
		"Interrupt": each(func(tx *session.Tx, call string) error {
			return tx.Interrupt(call, "ada")
		}, "awaits"),
		"PutContent": void(func(tx *session.Tx) {
			tx.PutContent("runs", &session.Content{Content: tool.Content{Total: 1, Tail: "x", At: tx.Now}})
		}),
		"Untold": list(func(tx *session.Tx) error {
			_, err := tx.Untold([]session.Handle{{Name: "a"}})
			return err
		}),
		"Tell": list(func(tx *session.Tx) error {
			tx.Calls, tx.Due, tx.Notices = nil, true, tx.Notices+1
			return tx.Tell(entry(t, llm.UserText("It has stopped.")), tx.Notices, nil)
		}),
		"ChildEnded": list(func(tx *session.Tx) error {
			return tx.ChildEnded(&session.ChildEnd{Child: session.HandleID("began"), Call: "began",
				Handle: "began", Outcome: *done}, fits)
		}, func(tx *session.Tx) error {
			return tx.ChildEnded(&session.ChildEnd{Child: session.ChildID("waits.1"), Call: "waits",
				Outcome: *done}, fits)
		}),
		"Cancel": list(cancels("asked"), cancels("runs"), cancels("parked"), cancels("waits"),
			cancels("gate"), cancels("answered")),
		"HandleAsks": list(func(tx *session.Tx) error {
			return tx.HandleAsks(session.Asking{Name: "began",
				Child: session.HandleID("began"), Pause: 1, Assistant: true})
		}),
		"Decide": list(func(tx *session.Tx) error {
			tx.Calls, tx.Linger = nil, &session.Linger{Turn: 1}
			return tx.Decide(&session.Fates{Turn: 1, Last: true, Until: tx.Now.Add(time.Hour),
				List: []session.HandleFate{{Name: "began", Child: session.HandleID("began"),
					Until: tx.Now.Add(time.Hour)}}})
		}),
		"Claim": each((*session.Tx).Claim, "asked", "answered"),
		"Pause": list(pause("asked", tool.Await{}), pause("runs", tool.Await{}),
			pause("runs", tool.Await{Mode: tool.ModeReenter}), pause("stops", tool.Await{}),
			pause("runs", tool.Await{Gate: "first", Arguments: json.RawMessage(`{}`)}),
			pause("answered", tool.Await{Gate: "first", Arguments: json.RawMessage(`{}`)})),
		"PauseAhead": list(func(tx *session.Tx) error {
			await := tool.Await{Reason: tool.ReasonApproval, Mode: tool.ModeReenter, Gate: "first",
				Arguments: json.RawMessage(`{}`)}
			return tx.PauseAhead(&session.Ahead{Since: tx.Mark(),
				Pauses: []session.AheadPause{{Call: "asked", Hold: &session.Hold{Await: await}}}})
		}),
		"Settle":    each(settle, "asked", "runs", "stops", "parked", "waits", "gate", "answered"),
		"Lose":      each(lose, "runs", "stops"),
		"TakeEarly": each((*session.Tx).TakeEarly, "runs"),
		"Unclaim": each(func(tx *session.Tx, call string) error {
			return tx.Unclaim(&session.Call{ID: call, Tool: "pay", Status: session.Requested})
		}, "runs", "stops"),
		"Declare": each(func(tx *session.Tx, call string) error {
			return tx.Declare(call, session.Declared{Effect: tool.Idempotent, Output: "hash",
				Mailbox: mailbox("done", "note")})
		}, "asked", "answered"),
		"Deliver": list(delivers(t, "asked", "done", "1"), delivers(t, "mail", "offer", "2"),
			delivers(t, "mail", "done", "1"), delivers(t, "stops", "done", "1")),
		"Extend": each(extend, "waits", "gate"),
		"Remind": list(func(tx *session.Tx) error {
			tx.Now = tx.Call("gate").Pause.Remind
			return tx.Remind("gate.2")
		}),
		"Expire": list(func(tx *session.Tx) error {
			tx.Now = tx.Now.AddDate(1, 0, 0)
			return tx.Expire()
		}),
		"Supersede": list(func(tx *session.Tx) error {
			return tx.Supersede("ada", []string{"gate.2", "parked"}, nil)
		}),
		"Park": each(func(tx *session.Tx, call string) error {
			return tx.Park(call, time.Time{})
		}, "asked", "runs"),
		"Unpark":     each((*session.Tx).Unpark, "parked"),
		"Delete":     void(func(tx *session.Tx) { tx.Delete("") }),
		"EndInOrder": void((*session.Tx).EndInOrder),
		"End":        void(func(tx *session.Tx) { tx.End(event.FinishCancelled, "ada", "no") }),
		"Stop":       void(func(tx *session.Tx) { tx.Stop(event.FinishInterrupted, "no") }),
		"Heard":      void(func(tx *session.Tx) { tx.Heard("n", "h", session.PauseRef{}) }),
		"Said": list(func(tx *session.Tx) error {
			_, _, err := tx.Said("m", "h")
			return err
		}),
		"Unheard": void(func(tx *session.Tx) { tx.Unheard("m") }),
		"Abandon": list(func(tx *session.Tx) error {
			return tx.Abandon("stops", &session.Hold{Undo: blob(t, `{}`)}, done)
		}),
		"TakeUndo": list(func(tx *session.Tx) error {
			tx.Now = tx.Now.AddDate(1, 0, 0)
			return takes("owed")(tx)
		}),
		"UndoFailed": list(func(tx *session.Tx) error {
			return tx.UndoFailed("owed", 1, "no", time.Time{})
		}),
		"UndoInterrupted": list(func(tx *session.Tx) error {
			return tx.UndoInterrupted("owed", 1)
		}),
		"ParkUndo": each(func(tx *session.Tx, call string) error {
			return tx.ParkUndo(call, true)
		}, "owed"),
		"RetryUndo": each((*session.Tx).RetryUndo, "owed"),
		"UndoDone":  each((*session.Tx).UndoDone, "owed"),
		"Send":      list(sends(t, "q3")),
		"Take":      list(first((*session.Tx).Take)),
		"SayQueued": list(first(func(tx *session.Tx, m *session.Queued) error {
			tx.Calls = nil
			return tx.SayQueued(m)
		})),
		"Refuse": list(first(func(tx *session.Tx, m *session.Queued) error {
			return tx.Refuse(m, "no")
		})),
		"Judge":      list(func(tx *session.Tx) error { return tx.Judge(tx.State) }),
		"WaitsBelow": list(func(tx *session.Tx) error { tx.WaitsBelow(); return nil }),
		"Bind": list(first(func(tx *session.Tx, m *session.Queued) error {
			return tx.Bind(m, session.PauseRef{Session: "s", Pause: "waits.1"})
		})),
		"First": list(first(func(*session.Tx, *session.Queued) error { return nil })),
		"OnItsWay": list(first(func(tx *session.Tx, m *session.Queued) error {
			_, err := tx.OnItsWay(m)
			return err
		})),
		"Seen": list(func(tx *session.Tx) error {
			return errors.Join(settle(tx, "waits"), tx.Seen(nil, []string{"waits"}))
		}),
		"SeenBefore": list((*session.Tx).SeenBefore),
	}
}

// newHandle returns a handle in the making.
func newHandle(t *testing.T, name string) *session.NewHandle {
	t.Helper()
	asked := llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{
		llm.ToolCall{ID: name + "-1", Name: "pay", Arguments: json.RawMessage(`{}`)}}}
	return &session.NewHandle{Name: name, Message: entry(t, asked),
		Call: session.Call{ID: name + "-1", Tool: "pay", Status: session.Requested}}
}

// begins settles a call that begins a handle of its name.
func begins(t *testing.T, call string) session.Transition {
	t.Helper()
	o := &session.Outcome{Status: event.Done, Output: blob(t, `1`), Begins: newHandle(t, call)}
	return func(tx *session.Tx) error { return tx.Settle(call, o) }
}

// awaits has a call wait for a handle that another call has begun.
func awaits(t *testing.T, call, name string) session.Transition {
	t.Helper()
	return awaitsAll(t, call, session.Awaited{Name: name, Child: session.HandleID(name), All: true})
}

// awaitsAll has a call wait for handles.
func awaitsAll(t *testing.T, call string, list ...session.Awaited) session.Transition {
	t.Helper()
	a, err := tool.Await{Reason: tool.ReasonHandles,
		Handles: &tool.HandleWait{All: []string{"some"}}}.Normalize()
	must(t, err)
	raw, err := json.Marshal(list)
	must(t, err)
	h := &session.Hold{Await: a, Awaited: list, AwaitedList: blob(t, string(raw))}
	return func(tx *session.Tx) error { return tx.Pause(call, h) }
}

// awaitsWide has a call wait for a wait handle of the store, or for a permit of
// it.
func awaitsWide(t *testing.T, call string, p *tool.PermitWait) session.Transition {
	t.Helper()
	a, err := tool.Await{Reason: tool.ReasonHandles, Handles: &tool.HandleWait{All: []string{"x"},
		Scope: tool.StoreScope, Permit: p}}.Normalize()
	must(t, err)
	h := &session.Hold{Await: a, Awaited: []session.Awaited{{Name: "x", All: true}}, Scope: "store",
		AwaitedList: blob(t, `[{"name":"x","child":"","all":true}]`)}
	return func(tx *session.Tx) error { return tx.Pause(call, h) }
}

func answers(t *testing.T, pause string) session.Transition {
	t.Helper()
	payload := blob(t, `2`)
	return func(tx *session.Tx) error {
		r, err := tx.Answer(&session.Incoming{Pause: pause, Kind: session.KindComplete, Hash: "h",
			Value: json.RawMessage(`2`), Payload: payload, Actor: "ada"}, fits)
		return errors.Join(err, r.Err)
	}
}

// undoable has a call wait whose tool can call off what it has begun.
func undoable(t *testing.T, call string) session.Transition {
	t.Helper()
	await, err := tool.Await{}.Normalize()
	must(t, err)
	args := blob(t, `{"text":"a"}`)
	return func(tx *session.Tx) error {
		return tx.Pause(call, &session.Hold{Await: await, Undo: args})
	}
}

// takes takes a try to call off what a call has begun.
func takes(call string) session.Transition {
	return func(tx *session.Tx) error {
		_, err := tx.TakeUndo(call, tx.Now.Add(time.Minute))
		return err
	}
}

// runsAgain is an operator's statement that a call did not happen.
func runsAgain(t *testing.T, pause string) session.Transition {
	t.Helper()
	why := blob(t, `"no paper"`)
	return func(tx *session.Tx) error {
		r, err := tx.Answer(&session.Incoming{Pause: pause, Kind: session.KindRunAgain, Hash: "h",
			Why: why, Actor: "olga"}, fits)
		return errors.Join(err, r.Err)
	}
}

// mailbox is that of a tool that takes these events.
func mailbox(names ...string) *session.Mailbox {
	m := &session.Mailbox{Limit: 10}
	for _, name := range names {
		m.Kinds = append(m.Kinds, session.MailKind{Name: name})
	}
	return m
}

func delivers(t *testing.T, call, name, id string) session.Transition {
	t.Helper()
	payload := blob(t, `3`)
	return func(tx *session.Tx) error {
		r, err := tx.Deliver(&session.IncomingMail{Call: call, Name: name, ID: id, Hash: "h",
			Value: json.RawMessage(`3`), Payload: payload, Actor: "shop"}, fits)
		return errors.Join(err, r.Err)
	}
}

func decides(pause string) session.Transition {
	return func(tx *session.Tx) error {
		r, err := tx.Answer(&session.Incoming{Pause: pause, Kind: session.KindDecision, Hash: "h",
			Decision: tool.Decision{Approved: true}, Actor: "ada"}, fits)
		return errors.Join(err, r.Err)
	}
}

func cancels(call string) session.Transition {
	return func(tx *session.Tx) error {
		_, err := tx.Cancel(call, "ada", "no")
		return err
	}
}

func asJSON(t *testing.T, st *session.State) string {
	t.Helper()
	b, err := json.Marshal(st)
	must(t, err)
	return string(b)
}
