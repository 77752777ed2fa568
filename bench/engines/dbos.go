package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"
)

// dbosFlows is the cycle as a workflow of DBOS: the model is a step, the call
// that starts the outside job is a step, the answer is a message that it
// receives, the last word is a step. A web server enqueues workflows, and
// workers take them from the queue. While a workflow waits, the process that
// took it holds it.
type dbosFlows struct{}

const (
	dbosApp   = "bench"
	dbosQueue = "bench"
	dbosTopic = "answer"
	// Its default of a second bounds what it does.
	dbosPoll = 10 * time.Millisecond
)

func (dbosFlows) context(ctx context.Context, pool *pgxpool.Pool) (dbos.Context, error) {
	return dbos.NewContext(ctx, dbos.Config{AppName: dbosApp, SystemDBPool: pool, Logger: quiet,
		ApplicationVersion: "1", ExecutorID: executor()})
}

func (d dbosFlows) prepare(ctx context.Context, url string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	c, err := d.context(ctx, pool)
	if err != nil {
		return err
	}
	if err := dbos.Launch(c); err != nil {
		return err
	}
	if _, err := dbos.RegisterQueue(c, dbosQueue,
		dbos.WithQueueBasePollingInterval(dbosPoll)); err != nil {
		return err
	}
	return dbos.Shutdown(c, 10*time.Second)
}

type dbosFront struct {
	pool   *pgxpool.Pool
	client dbos.Client
}

func (dbosFlows) front(ctx context.Context, url string, w *wire) (front, error) {
	pool, err := w.pool(ctx, url)
	if err != nil {
		return nil, err
	}
	c, err := dbos.NewClient(ctx, dbos.ClientConfig{AppName: dbosApp, SystemDBPool: pool,
		Logger: quiet})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &dbosFront{pool, c}, nil
}

func (f *dbosFront) close() {
	_ = dbos.Shutdown(f.client, 10*time.Second)
	f.pool.Close()
}

func (f *dbosFront) send(_ context.Context, id string) error {
	_, err := dbos.Enqueue[string](f.client, dbosQueue, "cycle", flow{id, asked},
		dbos.WithEnqueueWorkflowID(id), dbos.WithEnqueueApplicationVersion("1"))
	return err
}

func (f *dbosFront) answer(_ context.Context, id, pause string) error {
	return dbos.Send(f.client, id, result, dbosTopic, dbos.WithIdempotencyKey(pause))
}

// flow is a workflow's input.
type flow struct{ Session, Message string }

func (d dbosFlows) work(ctx context.Context, url string, w *wire, tell func(news)) error {
	pool, err := w.pool(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	c, err := d.context(ctx, pool)
	if err != nil {
		return err
	}
	dbos.RegisterWorkflow(c, func(c dbos.Context, in flow) (string, error) {
		word, err := cycle(c, in, tell)
		return word, err
	}, dbos.WithWorkflowName("cycle"))
	if err := dbos.Launch(c); err != nil {
		return err
	}
	<-ctx.Done()
	_ = dbos.Shutdown(c, 10*time.Second) // what waits goes on at the next start
	return nil
}

func cycle(c dbos.Context, in flow, tell func(news)) (string, error) {
	said, err := dbos.RunAsStep(c, func(context.Context) (json.RawMessage, error) {
		return call, nil
	}, dbos.WithStepName("model"))
	if err != nil {
		return "", err
	}
	pause, err := dbos.RunAsStep(c, func(context.Context) (string, error) {
		return "pause-" + in.Session, nil // of the call that the model asked for
	}, dbos.WithStepName("job"))
	if err != nil {
		return "", err
	}
	tell(news{Session: in.Session, Pause: pause})
	answer, err := dbos.Recv[json.RawMessage](c, dbosTopic, 30*24*time.Hour)
	if err != nil {
		return "", err
	}
	word, err := dbos.RunAsStep(c, func(context.Context) (string, error) {
		return last(said, answer), nil
	}, dbos.WithStepName("model"))
	if err == nil {
		tell(news{Session: in.Session})
	}
	return word, err
}

// last is the model's last word, for which it has seen all that came before.
func last(_, _ json.RawMessage) string { return lastWord }

// executor names this process.
func executor() string { return fmt.Sprint("pid-", os.Getpid()) }
