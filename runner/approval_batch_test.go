package runner_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// deletions returns a rig on which three deletions wait for approval. Two of
// them are equal, in this session and in another one.
func deletions(t *testing.T, n *counter) (r *rig, waiting []tool.Pause) {
	t.Helper()
	model := fakellm.New(
		fakellm.Calls("refund", `{"text":"1"}`).And("refund", `{"text":"2"}`).And("refund",
			`{"text":"2"}`), fakellm.Says("I see."))
	r = newRig(t, gated(n, model), nil)
	watch(t, r.Run(t.Context(), "eve", "chat-2",
		llm.UserText("Mine too."), nil)).finished(event.FinishPaused)
	return r, r.say("Refund 1, 2 and 2.").finished(event.FinishPaused).end.Pending
}

// inbox lists what waits in a session, by pause, as a second client sees it. It
// is sorted, since calls pause in any order.
func inbox(t *testing.T, r *rig, id string) (pauses []string) {
	t.Helper()
	for p, err := range r.another().Pending(t.Context(), session.PauseFilter{Session: id,
		Reason: tool.ReasonApproval}, user) {
		must(t, err)
		pauses = append(pauses, p.ID)
	}
	slices.Sort(pauses)
	return pauses
}

func ids(pauses ...tool.Pause) (ids []string) {
	for _, p := range pauses {
		ids = append(ids, p.ID)
	}
	return ids
}

// TestApprovalBatch: several approvals of one tool, decided differently, in one
// request or in three. Each is an item of its own and reaches its end. A button
// that is pressed twice does no harm, and neither does another session's open
// approval.
func TestApprovalBatch(t *testing.T) {
	for name, bulk := range map[string]bool{"in one request": true, "in three": false} {
		t.Run(name, func(t *testing.T) {
			var n counter
			r, waits := deletions(t, &n)
			if got := inbox(t, r, chat); len(got) != 3 || !cmp.Equal(got, ids(waits...)) ||
				string(waits[1].Arguments) != `{"text":"2"}` {
				t.Fatalf("the inbox has %q of %q", got, ids(waits...))
			}
			others := inbox(t, r, "chat-2")
			decisions := []runner.Resumption{
				runner.Approve(waits[0].ID, "bob", ""), runner.Deny(waits[1].ID,
					"bob", "once is enough"), runner.Approve(waits[2].ID, "bob", ""),
			}
			send := func(duplicate bool, rs ...runner.Resumption) {
				res, err := r.Resume(t.Context(), chat, rs...)
				must(t, err)
				for _, receipt := range res.Receipts {
					if receipt.Err != nil || receipt.Duplicate != duplicate {
						t.Errorf("receipt %+v; want a duplicate: %v", receipt, duplicate)
					}
				}
			}
			if bulk {
				send(false, decisions...)
				send(true, decisions...)
			} else {
				for i, d := range decisions {
					send(false, d)
					send(true, d)
					if got := inbox(t, r, chat); len(got) != 2-i {
						t.Errorf("after %d decisions the inbox has %q", i+1, got)
					}
				}
			}
			if got := inbox(t, r, chat); len(got) != 0 {
				t.Errorf("after all decisions the inbox has %q", got)
			}
			r.restart()
			run := r.carryOn().finished(event.FinishStop)
			var ends []event.Status
			for _, res := range of[event.Result](run) {
				ends = append(ends, res.Status)
			}
			if n.get("refund") != 2 || len(ends) != 3 {
				t.Errorf("refund was entered %d times; the results are %q", n.get("refund"), ends)
			}
			for i, want := range []string{"1", "once is enough", "2"} {
				c, err := r.Call(t.Context(), chat, waits[i].Call, user)
				must(t, err)
				if c.Status != session.Settled || !strings.Contains(string(c.Output), want) ||
					(c.Settled == event.Denied) != (i == 1) {
					t.Errorf("call %d ended as %q with %s", i, c.Settled, c.Output)
				}
			}
			if got := inbox(t, r, "chat-2"); !cmp.Equal(got, others) {
				t.Errorf("the other session's inbox has %q, not %q", got, others)
			}
			r.acceptable()
		})
	}
}

// TestBulkIsJudgedByItem: what is wrong with one item is told of that item, and
// the others are taken.
func TestBulkIsJudgedByItem(t *testing.T) {
	var n counter
	r, waits := deletions(t, &n)
	others := inbox(t, r, "chat-2")
	_, err := r.Resume(t.Context(), chat, runner.Deny(waits[1].ID, "ann", "no"))
	must(t, err)
	res, err := r.Resume(t.Context(), chat,
		runner.Approve(waits[0].ID, "bob", ""), runner.Approve(waits[1].ID, "bob", ""),
		runner.Approve(others[0], "bob", ""))
	must(t, err)
	var conflict *session.ConflictError
	if err := res.Receipts[1].Err; !errors.As(err, &conflict) || conflict.Receipt.Actor != "ann" ||
		conflict.Receipt.Kind != session.KindDecision ||
		conflict.Receipt.Decided != "denied" || !strings.Contains(err.Error(),
		"with decision (denied) by ann") {
		t.Errorf("another decision than Ann's: %v", err)
	}
	if err := res.Receipts[2].Err; !errors.Is(err, session.ErrUnknownCall) {
		t.Errorf("another session's approval: %v", err)
	}
	if res.Receipts[0].Err != nil {
		t.Errorf("the good item: %v", res.Receipts[0].Err)
	}
	if got := inbox(t, r, chat); !cmp.Equal(got, ids(waits[2])) {
		t.Errorf("the inbox has %q", got)
	}
}

// TestTwoTabsDecide: of two people who decide differently at once, one wins,
// and the other is told.
func TestTwoTabsDecide(t *testing.T) {
	var n counter
	r, waits := deletions(t, &n)
	tabs := []*runner.Runner{r.Runner, r.another()}
	for _, p := range waits {
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() {
				d := runner.Approve(p.ID, "ann", "")
				if i%2 == 1 {
					d = runner.Deny(p.ID, "bob", "")
				}
				_, errs[i] = tabs[i/2%2].Resume(t.Context(), chat, d)
			})
		}
		wg.Wait()
		for i, err := range errs {
			if won := errs[i%2] == nil; won != (err == nil) || !won && !errors.Is(err,
				session.ErrResumeConflict) {
				t.Errorf("decision %d of %v: %v", i, errs, err)
			}
		}
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Errorf("not one of two decisions won: %v", errs)
		}
	}
	r.carryOn().finished(event.FinishStop)
	for _, p := range waits {
		c, err := r.Call(t.Context(), chat, p.Call, user)
		must(t, err)
		if c.Status != session.Settled || len(c.Decisions) != 1 ||
			c.Decisions[0].Approved != (c.Settled == event.Done) {
			t.Errorf("call %s ended as %q with decisions %+v", p.Call, c.Settled, c.Decisions)
		}
	}
	r.acceptable()
}
