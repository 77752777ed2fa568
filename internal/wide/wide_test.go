package wide_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/wide"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
)

// A handle ends once. The same end again is a duplicate, and another one is
// refused with what came first.
func TestAHandleEndsOnce(t *testing.T) {
	r := newRig(t, kvstore.NewMemory(), nil)
	ctx := t.Context()
	r.create("a", "custom", 0)
	if _, _, err := r.Create(ctx, id("a"), wide.NewHandle{Type: "hook"}); !errors.Is(err, wide.ErrTaken) {
		t.Errorf("a second one of the name: %v", err)
	}
	by := wide.NewHandle{Type: "custom", Maker: wide.Maker{Session: "s", Call: "call_1"}}
	for range 2 { // a call that is cut off makes it again
		if _, _, err := r.Create(ctx, id("b"), by); err != nil {
			t.Error(err)
		}
	}
	r.complete("a", `{"x": 1, "y": 2}`)
	_, duplicate, err := r.Complete(ctx, id("a"), wide.Outcome{Result: json.RawMessage(`{"y":2,"x":1}`)})
	if must(t, err); !duplicate {
		t.Error("the same again is no duplicate")
	}
	for _, o := range []wide.Outcome{{Result: json.RawMessage(`2`)}, {Error: "no"}} {
		_, _, err := r.Complete(ctx, id("a"), o)
		var other *wide.EndedError
		if !errors.As(err, &other) || string(other.Handle.End.Result) != `{"x": 1, "y": 2}` {
			t.Errorf("another end: %v", err)
		}
	}
	for _, o := range []wide.Outcome{{}, {Result: json.RawMessage(`1`), Error: "no"},
		{Result: json.RawMessage(`{`)}} {
		if _, _, err := r.Complete(ctx, id("b"), o); !errors.Is(err, wide.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, _, err := r.Complete(ctx, id("c"), wide.Outcome{Error: "no"}); !errors.Is(err, wide.ErrUnknown) {
		t.Errorf("no such handle: %v", err)
	}
	must(t, r.Report(ctx, id("b"), json.RawMessage(`{"done":0.5}`)))
	if err := r.Report(ctx, id("a"), json.RawMessage(`1`)); !errors.Is(err, wide.ErrEnded) {
		t.Errorf("progress of what has ended: %v", err)
	}
	r.sound()
}

// A deadline ends its handle at that time, also if a read is the first to come
// after it: as a time-out, or as the completion of a timer.
func TestAHandleEndsAtItsDeadline(t *testing.T) {
	r := newRig(t, kvstore.NewMemory(), nil)
	for _, name := range []string{"read", "worked", "late"} {
		r.create(name, "custom", time.Minute)
	}
	r.create("timer", "timer", time.Minute)
	_, _, err := r.Create(t.Context(), id("x"), wide.NewHandle{Type: "timer"})
	if !errors.Is(err, wide.ErrInvalid) {
		t.Errorf("a timer without a time: %v", err)
	}
	r.now = r.now.Add(time.Minute - time.Millisecond)
	r.attend()
	is(t, "a moment before", r.names(wide.Filter{Status: wide.Pending}), "late read timer worked")
	r.now = r.now.Add(time.Millisecond)
	h, err := r.Get(t.Context(), id("read"))
	if must(t, err); h.Status() != wide.TimedOut {
		t.Errorf("it is %s when it is read", h.Status())
	}
	_, _, err = r.Complete(t.Context(), id("late"), wide.Outcome{Result: json.RawMessage(`1`)})
	if !errors.Is(err, wide.ErrEnded) {
		t.Errorf("a completion after the deadline: %v", err)
	}
	r.attend()
	is(t, "timed out", r.names(wide.Filter{Status: wide.TimedOut}), "late read worked")
	is(t, "completed", r.names(wide.Filter{Status: wide.Completed}), "timer")
	is(t, "counts", r.counts(), "custom pending 0/3 0s, custom timeout 3/3 3m0s, "+
		"timer completed 1/1 1m0s, timer pending 0/1 0s")
	r.sound()
}

// A page of each list is the handles that its filter selects, in the order in
// which they were made, and a cursor goes on after it.
func TestListsArePages(t *testing.T) {
	r := newRig(t, kvstore.NewMemory(), nil)
	for n := range 7 {
		r.create(fmt.Sprint("h", 9-n), []string{"custom", "hook"}[n%2], 0)
		r.now = r.now.Add(time.Second)
	}
	r.complete("h8", `1`)
	r.complete("h5", `1`)
	for _, c := range []struct {
		f    wide.Filter
		want string
	}{
		{wide.Filter{}, "h9 h8 h7 h6 h5 h4 h3"},
		{wide.Filter{Type: "hook"}, "h8 h6 h4"},
		{wide.Filter{Status: wide.Pending}, "h9 h7 h6 h4 h3"},
		{wide.Filter{Status: wide.Completed, Type: "custom"}, "h5"},
		{wide.Filter{Status: wide.Failed}, ""},
	} {
		for _, c.f.Limit = range []int{0, 1, 2} {
			is(t, fmt.Sprintf("%+v", c.f), r.names(c.f), c.want)
		}
	}
	for _, cursor := range []string{"?", "YQ"} {
		if _, err := r.List(t.Context(), scope, wide.Filter{Cursor: cursor}); !errors.Is(err, wide.ErrBadCursor) {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
	r.sound()
}

// A handle is kept for its retention, is archived, and goes. What is counted of
// it stays counted.
func TestEndedHandlesAreArchivedAndGo(t *testing.T) {
	var archived []string
	fails := true
	r := newRig(t, kvstore.NewMemory(), &wide.Options{Ended: time.Hour, Changes: 2 * time.Hour,
		Archive: func(_ context.Context, h *wide.Handle) error {
			if fails {
				return errors.New("the archive is full")
			}
			archived = append(archived, h.Name+" "+h.Status())
			return nil
		}})
	r.create("a", "custom", 0)
	r.create("open", "custom", 0)
	r.complete("a", `1`)
	r.now = r.now.Add(59 * time.Minute)
	r.attend()
	is(t, "kept", r.names(wide.Filter{}), "a open")
	r.now = r.now.Add(time.Minute)
	due := r.outlived()
	if len(due) != 1 {
		t.Fatalf("%d are due", len(due))
	}
	if err := r.Remove(t.Context(), due[0]); err == nil {
		t.Error("it goes without having been archived")
	}
	r.sound()
	fails = false
	r.now = r.now.Add(time.Minute)
	r.attend()
	is(t, "kept", r.names(wide.Filter{}), "open")
	is(t, "archived", strings.Join(archived, ", "), "a completed")
	is(t, "counts", r.counts(), "custom completed 0/1 0s, custom pending 1/2 0s")
	r.sound()
	r.now = r.now.Add(2 * time.Hour)
	gone, err := r.Sweep(t.Context())
	if must(t, err); gone != 3 {
		t.Errorf("%d changes are forgotten", gone) // the last one is not two hours old
	}
	r.sound()
	if _, _, err := r.Since(t.Context(), scope, ""); !errors.Is(err, wide.ErrChangesGone) {
		t.Errorf("what is no longer kept: %v", err)
	}
}

// A subscriber misses nothing and gets nothing twice, whichever of several
// stores makes the changes, and wherever it goes on from its cursor.
func TestSubscribersMissNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := kvstore.NewMemory()
		stores := []*rig{newRig(t, kv, nil), newRig(t, kv, nil)}
		var writers sync.WaitGroup
		for w, r := range stores {
			for g := range 4 {
				writers.Go(func() {
					for n := range 10 {
						name := fmt.Sprintf("%d-%d-%d", w, g, n)
						r.create(name, "custom", 0)
						must(t, r.Report(t.Context(), id(name), json.RawMessage(`1`)))
						r.complete(name, `2`)
					}
				})
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		seen, cursor := map[string][]wide.ChangeKind{}, ""
		for n := 0; n < 240; {
			for c, err := range stores[n%2].Follow(ctx, scope, cursor) {
				must(t, err)
				seen[c.Name], cursor = append(seen[c.Name], c.Kind), c.Cursor
				if n++; n%7 == 0 || n == 240 {
					break // and goes on, perhaps from another process
				}
			}
		}
		writers.Wait()
		for name, kinds := range seen {
			if !slices.Equal(kinds, []wide.ChangeKind{wide.Created, wide.Progressed, wide.Ended}) {
				t.Errorf("%s: %v", name, kinds)
			}
		}
		now, err := stores[0].Now(ctx, scope)
		if must(t, err); now != cursor {
			t.Errorf("the cursor is %s, and the end of the log %s", cursor, now)
		}
		stores[0].sound()
	})
}

// lossy returns a rig whose first acknowledgement gets lost, and another one
// that does something just then.
func lossy(t *testing.T, meanwhile func(other *rig)) (r, other *rig) {
	memory := kvstore.NewMemory()
	other = newRig(t, memory, nil)
	faults := faultkv.New(memory, faultkv.LoseAt(1))
	var once sync.Once
	faults.After(func(faultkv.Call) { once.Do(func() { meanwhile(other) }) })
	return newRig(t, faults.Store, nil), other
}

// A change whose acknowledgement was lost is told as made, also if another
// process has changed the handle since.
func TestAnAcknowledgementIsLostAndTheHandleChanges(t *testing.T) {
	for name, meanwhile := range map[string]func(*rig){
		"progress": func(r *rig) { must(t, r.Report(t.Context(), id("h"), json.RawMessage("1"))) },
		"its end":  func(r *rig) { r.complete("h", "2") },
	} {
		t.Run(name, func(t *testing.T) {
			r, other := lossy(t, meanwhile)
			_, made, err := r.Create(t.Context(), id("h"), wide.NewHandle{Type: "custom"})
			if err != nil || !made {
				t.Errorf("a creation that has come to pass is told as made: %v, %v", made, err)
			}
			other.sound()
		})
	}
	t.Run("its sessions are told", func(t *testing.T) {
		r, other := lossy(t, (*rig).attend)
		other.create("h", "custom", 0)
		other.awaited("h")
		end := wide.Outcome{Result: json.RawMessage("2"), Actor: "bank"}
		for _, want := range []bool{false, true} {
			_, duplicate, err := r.Complete(t.Context(), id("h"), end)
			if err != nil || duplicate != want {
				t.Errorf("its end is told as a duplicate: %v, %v", duplicate, err)
			}
		}
		other.sound()
	})
}

// Who tells sessions of a handle learns of an end whose acknowledgement was lost,
// as of any other.
func TestTellersLearnOfAnEndThatWasNotAcknowledged(t *testing.T) {
	faults := faultkv.New(kvstore.NewMemory())
	r := newRig(t, faults.Store, nil)
	r.create("h", "custom", 0)
	r.awaited("h")
	var told []wide.ID
	defer r.OnTell(func(id wide.ID) { told = append(told, id) })()
	faults.Add(faultkv.LoseAt(faults.Applies() + 1))
	r.complete("h", "2")
	if faults.Struck() != 1 || len(told) != 1 || told[0] != id("h") {
		t.Errorf("to tell is %v, and %d acknowledgements were lost", told, faults.Struck())
	}
}

// A change whose acknowledgement was lost, and which is then refused by the
// engine for certain, may have come to pass all the same.
func TestAFailureAfterALostAcknowledgement(t *testing.T) {
	memory := kvstore.NewMemory()
	other := newRig(t, memory, nil)
	_, _, err := other.Create(t.Context(), id("h"), wide.NewHandle{Type: "custom"})
	must(t, err)
	faults := faultkv.New(memory, faultkv.LoseAt(1), faultkv.FailAt(2))
	var once sync.Once
	faults.After(func(faultkv.Call) {
		once.Do(func() { must(t, other.Report(t.Context(), id("h"), json.RawMessage("2"))) })
	})
	err = newRig(t, faults.Store, nil).Report(t.Context(), id("h"), json.RawMessage("1"))
	if !errors.Is(err, kvstore.ErrUncertain) {
		t.Errorf("a report that has come to pass ends with %v", err)
	}
}

// What an older program can't read, of a handle or of a session that waits for
// it, stays due, and a newer one does it at once.
func TestWhatANewerProgramHasWrittenStaysDue(t *testing.T) {
	for name, key := range map[string][]byte{
		"the handle":  kvstore.Key("W", "r", scope, "h"),
		"the session": kvstore.Key("h", "s"),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, kvstore.NewMemory(), nil)
			r.owes()
			put := func(value []byte) {
				_, err := r.kv.Apply(t.Context(), kvstore.Batch{Puts: []kvstore.Put{{Key: key, Value: value}}})
				must(t, err)
			}
			old, err := r.kv.Get(t.Context(), key)
			must(t, err)
			put(bytes.Replace(old.Value, []byte(`"v":1`), []byte(`"v":99`), 1))
			due, err := r.Due(t.Context(), nil)
			must(t, err)
			for range 2 {
				if _, err := r.Attend(t.Context(), due.Due[0]); !errors.Is(err, session.ErrNewerVersion) {
					t.Errorf("it is attended to with %v", err)
				}
			}
			put(old.Value)
			if now, err := r.Due(t.Context(), nil); err != nil || !cmp.Equal(now.Due, due.Due) {
				t.Errorf("due is %v, and was %v: %v", now.Due, due.Due, err)
			}
			r.attend()
			r.sound()
		})
	}
}

// What the engine fails to do of a handle stays due, and comes with the next
// look, of whichever process.
func TestATellThatFailsStaysDue(t *testing.T) {
	faults := faultkv.New(kvstore.NewMemory())
	r := newRig(t, faults.Store, nil)
	r.owes()
	due, err := r.Due(t.Context(), nil)
	must(t, err)
	faults.Add(faultkv.FailAt(faults.Applies()+1), faultkv.FailAt(faults.Applies()+2))
	for range 2 {
		if _, err := r.Attend(t.Context(), due.Due[0]); !errors.Is(err, faultkv.ErrFault) {
			t.Errorf("it is attended to with %v", err)
		}
	}
	if now, err := r.Due(t.Context(), nil); err != nil || !cmp.Equal(now.Due, due.Due) {
		t.Errorf("due is %v, and was %v: %v", now.Due, due.Due, err)
	}
	r.attend()
	r.sound()
}
