package runner_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
)

func TestBatchIsJudgedItemByItem(t *testing.T) {
	var n counter
	r := newRig(t, jobs(&n, 4), nil)
	p := r.say("Go.").finished(event.FinishPaused).end.Pending
	r.answer(runner.Complete(p[0].ID, "ci", text("a")))
	res, err := r.Resume(t.Context(), chat,
		runner.Complete(p[0].ID, "ci", text("a")),
		runner.Complete(p[0].ID, "ci", text("other")),
		runner.Complete(p[1].ID, "ci", text("b")),
		runner.Complete(p[1].ID, "ci", text("b")),
		runner.Complete(p[1].ID, "ci", text("c")),
		runner.Complete(p[2].ID, "ci", []byte(`{"text":1}`)),
		runner.Complete("call_nosuch.1", "ci", text("x")),
		runner.Approve(p[2].ID, "ada", "yes"),                            // no decision is asked for
		runner.ApproveEdited(p[2].ID, "ada", "yes", make(chan struct{})), // does not encode
		runner.Fail(p[3].ID, "ci", "no disk", false))                     // accepted
	must(t, err)
	want := []error{nil, session.ErrResumeConflict, nil, nil, session.ErrResumeConflict,
		session.ErrInvalidResumePayload,
		session.ErrUnknownCall, session.ErrInvalidResumePayload,
		session.ErrInvalidResumePayload, nil}
	for i, receipt := range res.Receipts {
		if !errors.Is(receipt.Err, want[i]) || receipt.Duplicate != (i == 0 || i == 3) {
			t.Errorf("item %d: %+v, not %v", i, receipt, want[i])
		}
	}
	if got := r.transcript().Pending; len(got) != 1 || got[0].ID != p[2].ID {
		t.Errorf("what waits is %v", got)
	}
	if _, err := r.Resume(t.Context(), chat, runner.Complete(p[2].ID, "ci", []byte(`1`)),
		runner.Complete("call_nosuch", "ci", text("x"))); !errors.Is(err, session.ErrUnknownCall) ||
		!errors.Is(err, session.ErrInvalidResumePayload) {
		t.Errorf("a batch of which nothing is accepted: %v", err)
	}
	for _, some := range []int{0, 17} {
		if _, err := r.Resume(t.Context(), chat, make([]runner.Resumption, some)...); err == nil {
			t.Errorf("%d resumptions are taken", some)
		}
	}
}

// As many answers as one Resume takes fit one commit, also where each settles
// its call, with much to say, and as many other calls expire in it.
func TestLargestBatch(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(pause string) runner.Resumption{
		"failures": func(pause string) runner.Resumption {
			return runner.Fail(pause, "ci", strings.Repeat("long ", 1000), true)
		},
		"outputs": func(pause string) runner.Resumption {
			return runner.Complete(pause, "ci", text(strings.Repeat("x", 55_000)))
		},
		"huge": func(pause string) runner.Resumption {
			return runner.Complete(pause, "ci", text(strings.Repeat("x", testlength.Part(4, 300_000))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			r := newRig(t, jobs(&n, 64), &rigOptions{
				session: &session.Options{Now: func() time.Time { return now }},
			})
			p := r.say("Go.").finished(event.FinishPaused).end.Pending
			for _, p := range p[:48] {
				must(t, r.Extend(t.Context(), chat, p.ID, user, now.Add(24*time.Hour)))
			}
			now = now.Add(2 * time.Hour) // the last 16 are overdue
			for first := 0; first < 48; first += 16 {
				var all []runner.Resumption
				for _, p := range p[first : first+16] {
					all = append(all, answer(p.ID))
				}
				_, err := r.Resume(t.Context(), chat, all...)
				must(t, err)
			}
			r.restart()
			r.carryOn().finished(event.FinishStop) // 48 answers are taken up by one drive
			r.acceptable()
		})
	}
}

// Several senders may share one slice, and send it again after it was refused
// in part.
func TestBatchIsTheCallersOwn(t *testing.T) {
	r, p := many(t, 2)
	batch := []runner.Resumption{runner.Complete(p[0].ID, "ci", text("v2")),
		runner.Complete(p[1].ID, "ci", nil)}
	var senders sync.WaitGroup
	for range 4 {
		senders.Go(func() {
			if _, err := r.Resume(t.Context(), chat, batch...); err != nil {
				t.Error(err)
			}
		})
	}
	senders.Wait()
	batch[1].Payload = text("v3")
	res, err := r.Resume(t.Context(), chat, batch...)
	if err != nil || res.Receipts[1].Err != nil {
		t.Errorf("mended, and sent again: %+v, %v", res, err)
	}
}

func TestPartialAnswers(t *testing.T) {
	var n counter
	asked := 0
	config := jobs(&n, 6)
	model := config.Model.(modelFunc)
	config.Model = modelFunc(func(r llm.Request) []llm.Event { asked++; return model(r) })
	config.Concurrency = 8
	r := newRig(t, config, nil)
	p := r.say("Go.").finished(event.FinishPaused).end.Pending
	for i, at := range []int{3, 0, 5, 1, 4, 2} {
		res, err := r.Resume(t.Context(), chat,
			runner.Complete(p[at].ID, "ci", text(fmt.Sprint(at))))
		must(t, err)
		r.restart()
		if got := len(r.transcript().Pending); got != 5-i {
			t.Errorf("after %d answers %d calls wait", i+1, got)
		}
		if asked != 1 {
			t.Fatalf("the model was called with %d calls open", 6-i)
		}
		if i%2 == 0 {
			r.carryOn()
		}
		_ = res
	}
	r.carryOn().finished(event.FinishStop)
	if asked != 2 || n.get("job") != 6 {
		t.Errorf("the model was called %d times, bodies were entered %d times", asked, n.get("job"))
	}
	for i := range p {
		if got := string(r.result(p[i].Call).Output); got != string(text(fmt.Sprint(i))) {
			t.Errorf("call %d has the result %s", i, got)
		}
	}
	r.acceptable()
}
