package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/postgres"
	"github.com/fermata-ai/fermata/kvstore/postgres/postgrestest"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// shop is a program that takes payments for what an agent ordered. Its own rows
// are in the schema of the store.
type shop struct {
	t      testing.TB
	server *postgrestest.Server
	schema string
	kv     *postgres.Store
	rn     *runner.Runner
}

const chat = "chat-1"

// newShop returns a shop whose order waits for its payment.
func newShop(t testing.TB, server *postgrestest.Server) (*shop, tool.Pause) {
	s := openShop(t, server, migrated(t, server))
	s.exec("CREATE TABLE " + s.schema + ".payments (id text NOT NULL)")
	s.drive(s.rn.Run(t.Context(), "ada", chat, llm.UserText("Order it."), nil))
	return s, s.waits()[0]
}

func openShop(t testing.TB, server *postgrestest.Server, schema string) *shop {
	a, err := agent.New(agent.Config{Name: "shop",
		Tools: []tool.Tool{waiting("order", tool.Once)},
		Model: fakellm.New(fakellm.Calls("order", `{"text":"book"}`), fakellm.Says("Done."))})
	must(t, err)
	s := &shop{t: t, server: server, schema: schema,
		kv: open(t, server, &postgres.Options{Schema: schema})}
	s.rn, err = runner.New(a, session.NewStore(s.kv, nil), nil)
	must(t, err)
	t.Cleanup(func() { must(t, s.rn.Close()) })
	return s
}

func (s *shop) exec(sql string, args ...any) {
	s.t.Helper()
	must(s.t, withConn(s.server, func(ctx context.Context, c conn) error {
		_, err := c.Exec(ctx, sql, args...)
		return err
	}))
}

func (s *shop) drive(events func(func(event.Event, error) bool)) {
	s.t.Helper()
	for _, err := range events {
		must(s.t, err)
	}
}

// waits returns the pauses that are open.
func (s *shop) waits() (all []tool.Pause) {
	s.t.Helper()
	for p, err := range s.rn.Pending(context.Background(), session.PauseFilter{}, "") {
		must(s.t, err)
		all = append(all, p)
	}
	return all
}

// payments returns how many rows there are.
func (s *shop) payments() (n int) {
	s.t.Helper()
	must(s.t, withConn(s.server, func(ctx context.Context, c conn) error {
		return c.QueryRow(ctx, "SELECT count(*) FROM "+s.schema+".payments").Scan(&n)
	}))
	return n
}

// pay is the handler of a payment's webhook, which may be delivered again and
// again. Step is called after each of its steps.
func (s *shop) pay(
	ctx context.Context, db pgxBeginner, pause, out string, step func(string),
) (rc session.Receipt, err error) {
	tx, err := db.Begin(ctx)
	if err != nil {
		return rc, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	step("begun")
	resumed, committed, err := s.rn.ResumeIn(ctx, s.kv.In(tx), chat,
		runner.Complete(pause, "bank", text(out)))
	if err != nil {
		return rc, err
	}
	step("resumed")
	if rc = resumed.Receipts[0]; !rc.Duplicate {
		_, err := tx.Exec(ctx, "INSERT INTO "+s.schema+".payments VALUES ($1)", out)
		if err != nil {
			return rc, err
		}
	}
	step("paid")
	if err := tx.Commit(ctx); err != nil {
		return rc, err
	}
	step("committed")
	committed()
	step("told")
	return rc, nil
}

// steps are those of pay.
var steps = []string{"begun", "resumed", "paid", "committed", "told"}

type pgxBeginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// settled makes sure that the order was paid once, and that the agent knows.
func (s *shop) settled(pause string) {
	s.t.Helper()
	s.drive(s.rn.Continue(s.t.Context(), chat, ""))
	end, err := s.rn.Ended(s.t.Context(), runner.Ref{Pause: pause, Session: chat}, "")
	must(s.t, err)
	if open := s.waits(); len(open) > 0 || s.payments() != 1 || end.How != runner.EndedAnswered {
		s.t.Errorf("%d payments; there wait %v, and the pause ended so: %+v", s.payments(), open, end)
	}
}

func TestAnAnswerAndRowsInOneTransaction(t *testing.T) {
	t.Parallel()
	s, p := newShop(t, postgrestest.Shared(t))
	_, committed, err := s.rn.ResumeIn(t.Context(), nil, chat, runner.Complete(p.ID, "bank", text("5")))
	if err == nil || committed == nil {
		t.Errorf("without a store: %v", err)
	}
	must(t, withConn(s.server, func(ctx context.Context, c conn) error {
		// Until it is committed it is nowhere; rolled back, it never was.
		tx, err := c.Begin(ctx)
		must(t, err)
		resumed, _, err := s.rn.ResumeIn(ctx, s.kv.In(tx), chat, runner.Complete(p.ID, "bank", text("5")))
		must(t, err)
		if resumed.Receipts[0].Duplicate || len(s.waits()) != 1 {
			t.Errorf("it counts before the commit: %+v, %v", resumed.Receipts, s.waits())
		}
		must(t, tx.Rollback(ctx))
		if open := s.waits(); len(open) != 1 {
			t.Errorf("after the rollback there wait %v", open)
		}
		// A refusal leaves the transaction as it was.
		tx, err = c.Begin(ctx)
		must(t, err)
		_, committed, err := s.rn.ResumeIn(ctx, s.kv.In(tx), chat, runner.Complete(p.ID, "bank", []byte(`{"text":7}`)))
		if !errors.Is(err, session.ErrInvalidResumePayload) {
			t.Errorf("a payload that doesn't fit: %v", err)
		}
		committed()
		_, err = tx.Exec(ctx, "SELECT 1")
		must(t, err)
		must(t, tx.Rollback(ctx))
		for i := range 3 {
			rc, err := s.pay(ctx, c, p.ID, "9", func(string) {})
			must(t, err)
			if rc.Duplicate != (i > 0) {
				t.Errorf("delivery %d: %+v", i, rc)
			}
		}
		var conflict *session.ConflictError
		_, err = s.pay(ctx, c, p.ID, "10", func(string) {})
		if !errors.As(err, &conflict) || conflict.Receipt.Actor != "bank" {
			t.Errorf("another answer: %v", err)
		}
		return nil
	}))
	s.settled(p.ID)
}

// Two handlers of the same webhook at once: one waits for the other's
// transaction, and is the duplicate. So it is at every isolation level; at those
// that promise more, the server may refuse it, and it begins again.
func TestTwoHandlersAtOnce(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			s, p := newShop(t, postgrestest.Shared(t))
			resumed, second := make(chan bool), make(chan error)
			handle := func(step func(string)) (rc session.Receipt, err error) {
				err = withConn(s.server, func(ctx context.Context, c conn) error {
					for {
						rc, err = s.pay(ctx, at{c, level}, p.ID, "9", step)
						if !postgres.IsRetryable(err) {
							return err
						}
					}
				})
				return rc, err
			}
			go func() {
				<-resumed
				rc, err := handle(func(step string) {
					if step == "begun" {
						select {
						case resumed <- true:
						default: // it begins again
						}
					}
				})
				if err == nil && !rc.Duplicate {
					err = fmt.Errorf("the second was accepted: %+v", rc)
				}
				second <- err
			}()
			rc, err := handle(func(step string) {
				if step == "resumed" {
					resumed <- true // the second begins, and will wait for this one
					<-resumed
				}
			})
			must(t, err)
			must(t, <-second)
			if rc.Duplicate {
				t.Errorf("the first is a duplicate: %+v", rc)
			}
			s.settled(p.ID)
		})
	}
}

// at begins transactions of a level.
type at struct {
	c     conn
	level pgx.TxIsoLevel
}

func (a at) Begin(ctx context.Context) (pgx.Tx, error) {
	return a.c.BeginTx(ctx, pgx.TxOptions{IsoLevel: a.level})
}

// The store within a transaction reads what it wrote, judges preconditions, and
// leaves the transaction usable after a conflict.
func TestTheStoreWithinATransaction(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	kv := open(t, server, &postgres.Options{Schema: migrated(t, server)})
	ctx := t.Context()
	r, err := kv.Apply(ctx, put("a", "1"))
	must(t, err)
	must(t, withConn(server, func(ctx context.Context, c conn) error {
		tx, err := c.Begin(ctx)
		must(t, err)
		in := kv.In(tx)
		b := put("a", "2")
		b.Preconditions = []kvstore.Precondition{{Key: []byte("a"), Revision: r}, {Key: []byte("b")}}
		r2, err := in.Apply(ctx, b)
		must(t, err)
		if _, err := in.Apply(ctx, b); !errors.Is(err, kvstore.ErrConflict) || errors.Is(err, kvstore.ErrUncertain) {
			t.Errorf("again: %v", err)
		}
		e, err := in.Get(ctx, []byte("a"))
		if err != nil || string(e.Value) != "2" || e.Revision != r2 {
			t.Errorf("inside: %+v, %v", e, err)
		}
		page, err := in.Scan(ctx, kvstore.Range{})
		if err != nil || len(page.Entries) != 1 {
			t.Errorf("inside: %+v, %v", page, err)
		}
		if e, err := kv.Get(ctx, []byte("a")); err != nil || string(e.Value) != "1" {
			t.Errorf("outside, before the commit: %+v, %v", e, err)
		}
		must(t, tx.Commit(ctx))
		must(t, in.Close())
		if _, err := in.Get(ctx, []byte("a")); !errors.Is(err, kvstore.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		return nil
	}))
	if e, err := kv.Get(ctx, []byte("a")); err != nil || string(e.Value) != "2" {
		t.Errorf("after the commit: %+v, %v", e, err)
	}
}
