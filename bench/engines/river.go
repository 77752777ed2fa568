package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverJobs is the cycle as one would write it on River, a queue of jobs: it
// has no call that waits. So a cycle is two jobs and two tables of one's own.
// The first job stores the model's message and the pause, and ends. The answer
// closes the pause and inserts the second job, in one transaction. That stores
// the result and the last word. Each job ends in the transaction that stores
// what it did.
type riverJobs struct{}

const riverTables = `
CREATE TABLE messages (
	session text NOT NULL, n int NOT NULL, body jsonb NOT NULL, PRIMARY KEY (session, n)
);
CREATE TABLE pauses (
	id text NOT NULL PRIMARY KEY, session text NOT NULL, answer jsonb
);`

func (riverJobs) prepare(ctx context.Context, url string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, riverTables); err != nil {
		return err
	}
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

var quiet = slog.New(slog.DiscardHandler)

// turn is a job: what the model is asked for next in a session.
type turn struct {
	Session string `json:"session"`
	Pause   string `json:"pause,omitempty"` // that was answered
}

func (turn) Kind() string { return "turn" }

type riverFront struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
}

func (riverJobs) front(ctx context.Context, url string, w *wire) (front, error) {
	pool, err := w.pool(ctx, url)
	if err != nil {
		return nil, err
	}
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: quiet,
		FetchCooldown: riverCooldown}) // so often, too, it tells workers of jobs
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &riverFront{pool, client}, nil
}

func (f *riverFront) close() { f.pool.Close() }

func (f *riverFront) send(ctx context.Context, id string) error {
	return pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
		if err := say(ctx, tx, id, 0, map[string]any{"user": asked}); err != nil {
			return err
		}
		_, err := f.client.InsertTx(ctx, tx, turn{Session: id}, nil)
		return err
	})
}

func (f *riverFront) answer(ctx context.Context, id, pause string) error {
	return pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "UPDATE pauses SET answer = $2 WHERE id = $1 AND answer IS NULL",
			pause, result)
		if err != nil || tag.RowsAffected() == 0 { // answered before
			return err
		}
		_, err = f.client.InsertTx(ctx, tx, turn{Session: id, Pause: pause}, nil)
		return err
	})
}

func say(ctx context.Context, tx pgx.Tx, session string, n int, body map[string]any) error {
	_, err := tx.Exec(ctx, "INSERT INTO messages VALUES ($1, $2, $3)", session, n, body)
	return err
}

type riverTurns struct {
	river.WorkerDefaults[turn]
	pool *pgxpool.Pool
	tell func(news)
}

// Work is a job: the history is read for the model, and what it says is stored.
func (w *riverTurns) Work(ctx context.Context, j *river.Job[turn]) error {
	rows, err := w.pool.Query(ctx, "SELECT body FROM messages WHERE session = $1 ORDER BY n",
		j.Args.Session)
	if err != nil {
		return err
	}
	history, err := pgx.CollectRows(rows, pgx.RowTo[map[string]any])
	if err != nil {
		return err
	}
	out := news{Session: j.Args.Session}
	err = pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		n := len(history)
		if j.Args.Pause == "" {
			out.Pause = "pause-" + j.Args.Session
			err = w.pause(ctx, tx, n, out)
		} else {
			err = w.finish(ctx, tx, n, j.Args)
		}
		if err == nil {
			_, err = river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, j)
		}
		return err
	})
	if err == nil {
		w.tell(out)
	}
	return err
}

func (w *riverTurns) pause(ctx context.Context, tx pgx.Tx, n int, p news) error {
	if err := say(ctx, tx, p.Session, n, map[string]any{"call": call}); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "INSERT INTO pauses (id, session) VALUES ($1, $2)", p.Pause, p.Session)
	return err
}

func (w *riverTurns) finish(ctx context.Context, tx pgx.Tx, n int, t turn) error {
	var answer map[string]any
	err := tx.QueryRow(ctx, "SELECT answer FROM pauses WHERE id = $1", t.Pause).Scan(&answer)
	if err != nil {
		return err
	}
	if err := say(ctx, tx, t.Session, n, map[string]any{"result": answer}); err != nil {
		return err
	}
	return say(ctx, tx, t.Session, n+1, map[string]any{"model": lastWord})
}

func (riverJobs) work(ctx context.Context, url string, w *wire, tell func(news)) error {
	pool, err := w.pool(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverTurns{pool: pool, tell: tell})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Logger:            quiet,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 64}},
		FetchCooldown:     riverCooldown, // its default of 100 ms bounds what it does
		FetchPollInterval: riverCooldown, // how often it looks where no news came
		Workers:           workers,
	})
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return fmt.Errorf("river: %w", err)
	}
	<-ctx.Done()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return client.StopAndCancel(end)
}

const riverCooldown = 5 * time.Millisecond
