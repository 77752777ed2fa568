package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"iter"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/postgres"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// fermata is this library: a session for each cycle.
type fermata struct{}

func (fermata) prepare(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return postgres.Migrate(ctx, conn, nil)
}

func (fermata) front(ctx context.Context, url string, w *wire) (front, error) {
	p, err := openProcess(ctx, url, w)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (fermata) work(ctx context.Context, url string, w *wire, tell func(news)) error {
	p, err := openProcess(ctx, url, w)
	if err != nil {
		return err
	}
	defer p.close()
	err = p.rn.Work(ctx, &runner.WorkOptions{
		OnEvent: func(session string, ev event.Event, _ error) {
			switch end, _ := ev.(event.End); {
			case end.Finish == event.FinishPaused:
				tell(news{Session: session, Pause: end.Pending[0].ID})
			case end.Finish == event.FinishStop:
				tell(news{Session: session})
			case end.Why != "": // without a reason a drive failed, and another one follows
				tell(news{Session: session, Failed: string(end.Finish) + " " + end.Why})
			}
		}})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// process is a runner on a store.
type process struct {
	kv kvstore.Store
	rn *runner.Runner
	// end closes the store, after the runner.
	end func()
}

func openProcess(ctx context.Context, url string, w *wire) (*process, error) {
	pool, err := w.pool(ctx, url)
	if err != nil {
		return nil, err
	}
	kv, err := postgres.New(ctx, pool, nil)
	if err != nil {
		pool.Close()
		return nil, err
	}
	end := func() {
		_ = kv.Close()
		pool.Close()
	}
	p, err := over(kv, end)
	if err != nil {
		end()
	}
	return p, err
}

// over returns a process over a store that is open.
func over(kv kvstore.Store, end func()) (*process, error) {
	ag, err := agent.New(agent.Config{Name: "bench", Model: script{}, Tools: []tool.Tool{job}})
	if err != nil {
		return nil, err
	}
	rn, err := runner.New(ag, session.NewStore(kv, nil),
		&runner.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	return &process{kv, rn, end}, nil
}

func (p *process) send(ctx context.Context, id string) error {
	_, err := p.rn.Send(ctx, userOf(id), id, llm.UserText(asked), nil)
	return err
}

func (p *process) answer(ctx context.Context, id, pause string) error {
	res, err := p.rn.Resume(ctx, id, runner.Complete(pause, "ci", result))
	if err == nil && res.Receipts[0].Err != nil {
		err = fmt.Errorf("session %s: %w", id, res.Receipts[0].Err)
	}
	return err
}

func (p *process) close() {
	_ = p.rn.Close()
	p.end()
}

// userOf spreads sessions over a thousand users.
func userOf(id string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return fmt.Sprint("user-", h.Sum32()%1000)
}

// script is a model that asks for the job, and then says the last word. It
// takes no time.
type script struct{}

func (script) Generate(_ context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	var p llm.Part = llm.ToolCall{Name: "job", Arguments: json.RawMessage(`{"text":"x"}`)}
	if r.Messages[len(r.Messages)-1].Role != llm.RoleUser {
		p = llm.Text{Text: lastWord}
	}
	return func(yield func(llm.Event, error) bool) {
		if yield(llm.PartDone{Part: p}, nil) {
			yield(llm.Finish{Reason: llm.StopEnd, Usage: llm.Usage{Input: 10, Output: 10}}, nil)
		}
	}
}

type jobIn struct {
	Text string `json:"text"`
}

type jobOut struct {
	Result string `json:"result"`
}

// job waits for an outside job.
var job = tool.Must(tool.Func(
	tool.Spec{Name: "job", Description: "Starts a job.", Effect: tool.Idempotent, MayPause: true},
	func(context.Context, jobIn) (tool.Result[jobOut], error) {
		return tool.Pending[jobOut](tool.Await{Timeout: 30 * 24 * time.Hour}), nil
	}))
