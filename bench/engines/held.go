package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

// stretch is a part of the time in which a transaction was held open.
type stretch struct {
	Second int     // its end, from when the transaction began
	Cycles float64 // a second
	Dead   int64   // rows of the store's table that no vacuum may clear away
	Share  float64 // see point.share
}

// holding is what an open transaction did.
type holding struct {
	Seconds     int
	Before      point // without it
	Last        point // the last measurement while it was open
	After       point // once it had ended
	Stretches   []stretch
	TableBefore int64 // bytes, with its index
	TableAfter  int64
}

// measureHeld runs the load while a transaction, of another program's, stays
// open in the database, with its snapshot: nothing that was replaced or deleted
// since may be cleared away.
func (u *setup) measureHeld(ctx context.Context, o options) (h holding, err error) {
	within, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- u.load.run(within, o.clients) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	if err := wait(ctx, o.each/4, ended); err != nil {
		return h, err
	}
	if h.Before, err = u.window(ctx, o.each, ended); err != nil {
		return h, err
	}
	conn, err := pgx.Connect(ctx, u.place.URL)
	if err != nil {
		return h, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if h.TableBefore, _, err = rows(ctx, conn); err != nil {
		return h, err
	}
	if h.Stretches, h.Last, err = u.hold(ctx, conn, o, ended); err != nil {
		return h, err
	}
	h.Seconds = int(o.held.Seconds())
	if h.TableAfter, _, err = rows(ctx, conn); err != nil {
		return h, err
	}
	if err := wait(ctx, o.each, ended); err != nil { // until a vacuum has come by
		return h, err
	}
	h.After, err = u.window(ctx, o.each, ended)
	return h, err
}

// hold holds a transaction open, and measures meanwhile.
func (u *setup) hold(
	ctx context.Context, conn *pgx.Conn, o options, ended chan error,
) (all []stretch, last point, err error) {
	other, err := pgx.Connect(ctx, u.place.URL)
	if err != nil {
		return nil, last, err
	}
	defer other.Close(context.WithoutCancel(ctx))
	tx, err := other.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return nil, last, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if _, err := tx.Exec(ctx, "SELECT pg_current_xact_id(), count(*) FROM fermata.entries"); err != nil {
		return nil, last, err
	}
	begun := time.Now()
	for time.Since(begun) < o.held {
		if last, err = u.window(ctx, o.each, ended); err != nil {
			return nil, last, err
		}
		last.Held = true
		_, dead, err := rows(ctx, conn)
		if err != nil {
			return nil, last, err
		}
		progress(last)
		fmt.Fprintln(os.Stderr, "dead rows:", dead)
		all = append(all, stretch{int(time.Since(begun).Seconds()), last.Cycles, dead, last.share()})
	}
	return all, last, nil
}

// rows returns how large the store's table is, and how many dead rows it has.
func rows(ctx context.Context, conn *pgx.Conn) (size, dead int64, err error) {
	err = conn.QueryRow(ctx, `SELECT pg_total_relation_size('fermata.entries'), coalesce(
		(SELECT n_dead_tup FROM pg_stat_user_tables WHERE relid = 'fermata.entries'::regclass), 0)`).
		Scan(&size, &dead)
	return size, dead, err
}
