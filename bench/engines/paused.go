package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/postgres"
	"github.com/fermata-ai/fermata/llm"
)

// fillPaused makes so many sessions that wait for an answer, in a database that
// was prepared. They are run in memory, and copied from there as a program that
// moves to another engine does it. It returns the bytes that each takes there.
func fillPaused(ctx context.Context, url string, sessions int) (each float64, err error) {
	memory := kvstore.NewMemory()
	if err := runPaused(ctx, memory, sessions); err != nil {
		return 0, fmt.Errorf("paused sessions: %w", err)
	}
	to, err := postgres.Open(ctx, url, nil)
	if err != nil {
		return 0, err
	}
	defer to.Close()
	if _, err := kvstore.Copy(ctx, memory, to, nil); err != nil {
		return 0, err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	// What the copy has left for the server to do isn't measured.
	for _, do := range []string{"VACUUM (ANALYZE) fermata.entries", "CHECKPOINT"} {
		if _, err := conn.Exec(ctx, do); err != nil {
			return 0, err
		}
	}
	var size float64
	err = conn.QueryRow(ctx, "SELECT pg_total_relation_size('fermata.entries')").Scan(&size)
	return size / float64(sessions), err
}

// finished returns the bytes that each session takes which has come to its end,
// beside so many that wait.
func finished(ctx context.Context, url string, paused int, each float64) (float64, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "VACUUM FULL fermata.entries"); err != nil {
		return 0, err
	}
	var size float64
	var heads int
	err = conn.QueryRow(ctx, `SELECT pg_total_relation_size('fermata.entries'), count(*)
		FROM fermata.entries WHERE key >= 'h\000'::bytea AND key < 'h\001'::bytea`).Scan(&size, &heads)
	if err != nil || heads <= paused {
		return 0, errors.Join(err, errNoneFinished)
	}
	return (size - float64(paused)*each) / float64(heads-paused), nil
}

var errNoneFinished = errors.New("no session has come to its end")

func runPaused(ctx context.Context, kv kvstore.Store, sessions int) error {
	p, err := over(kv, func() {})
	if err != nil {
		return err
	}
	defer p.close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for i := next.Add(1); i <= int64(sessions) && ctx.Err() == nil; i = next.Add(1) {
				if err := p.pause(ctx, fmt.Sprintf("p-%08d", i)); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

var errNoPause = errors.New("a run did not pause")

// pause runs a session until it waits.
func (p *process) pause(ctx context.Context, id string) error {
	for ev, err := range p.rn.Run(ctx, userOf(id), id, llm.UserText(asked), nil) {
		if err != nil {
			return err
		}
		if end, _ := ev.(event.End); end.Finish == event.FinishPaused {
			return nil
		}
	}
	return errNoPause
}
