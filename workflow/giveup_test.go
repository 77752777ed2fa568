package workflow_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/workflow"
)

// A step that ends its process each time is given up. Whether it was done is
// unknown: it isn't begun again, and is taken back.
func TestAStepThatIsGivenUpIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := kvstore.NewMemory()
		var process *faultkv.Injector
		entered, refunds := 0, 0
		died := make(chan struct{}, 1)
		kills := fn("charge", func(context.Context, in) (out, error) {
			entered++
			process.Kill()
			died <- struct{}{}
			return out{}, nil
		})
		refund := fn("refund", func(context.Context, in) (out, error) { refunds++; return out{}, nil })
		w := build(t, workflow.New("pays").
			Step("charge", kills, nil, &workflow.StepOptions{Compensate: "refund",
				Retry: &workflow.Retry{Times: 3}}).
			Step("refund", refund, nil, nil))
		process = faultkv.New(memory)
		r := &rig{t: t, engine: process.Store}
		r.open(w.Agent())
		m, err := w.Message(nil)
		must(t, err)
		_, err = r.Send(t.Context(), ada, here, m, nil)
		must(t, err)
		var end event.End
		const most = 10 // more than drives that may die of it
		for n := 0; end.Finish == "" && n < most; n++ {
			ctx, stop := context.WithCancel(t.Context())
			over := make(chan struct{})
			go func() {
				defer close(over)
				_ = r.Work(ctx, &runner.WorkOptions{OnEvent: func(id string, ev event.Event, _ error) {
					if e, ok := ev.(event.End); ok && id == here && e.Finish == event.FinishFailed &&
						!process.Dead() {
						end = e
						stop()
					}
				}})
			}()
			select {
			case <-died:
				stop()
				<-over
				_ = r.Close()
				memory = memory.Reopen()
				process = faultkv.New(memory)
				r.engine = process.Store
				r.open(w.Agent())
			case <-over:
			}
		}
		if end.Finish != event.FinishFailed || entered >= most || refunds != 1 ||
			!strings.Contains(end.Why, "Taken back: charge.") ||
			!strings.Contains(end.Why, "given up") {
			t.Errorf("%d entries, %d refunds: %+v", entered, refunds, end)
		}
		if h := r.step("charge"); h.Status != string(event.Unknown) {
			t.Errorf("%+v", h)
		}
		r.sound()
	})
}

// A workflow that fails, and is taken back in order, is no error of the program
// that carries it on.
func TestAWorkflowThatFailsIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := build(t, workflow.New("pays").
			Step("charge", echo("charge"), args{"text": "1"}, &workflow.StepOptions{Compensate: "refund"}).
			Step("refund", echo("refund"), args{"text": "1"}, nil).
			Step("ship", bad("ship"), args{"text": workflow.From("charge", "/text")}, nil))
		r := &rig{t: t, engine: kvstore.NewMemory()}
		r.store = session.NewStore(r.engine, nil)
		var err error
		r.Runner, err = runner.New(w.Agent(), r.store,
			&runner.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		must(t, err)
		m, err := w.Message(nil)
		must(t, err)
		_, err = r.Send(t.Context(), ada, here, m, nil)
		must(t, err)
		if end := r.works(here); end.Finish != event.FinishFailed ||
			!strings.Contains(end.Why, "Taken back: charge.") {
			t.Errorf("it ends as %+v", end)
		}
		time.Sleep(time.Minute)
		r.sound()
		if text := log.String(); strings.Contains(text, "level=ERROR") ||
			!strings.Contains(text, "a tool has ended the run") {
			t.Errorf("the log has\n%s", text)
		}
	})
}
