package postgres_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fermata-ai/fermata/kvstore/postgres"
	"github.com/fermata-ai/fermata/kvstore/postgres/postgrestest"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// payAsChild prints the name of each step when it is done, and goes on when it
// reads a line.
func payAsChild(args []string) {
	url, schema, pause := args[0], args[1], args[2]
	ctx := context.Background()
	kv, err := postgres.Open(ctx, url, &postgres.Options{Schema: schema})
	exitOn(err)
	rn, err := runner.New(nil, session.NewStore(kv, nil), nil)
	exitOn(err)
	c, err := pgx.Connect(ctx, url)
	exitOn(err)
	s := &shop{schema: schema, kv: kv, rn: rn}
	lines := bufio.NewScanner(os.Stdin)
	_, err = s.pay(ctx, c, pause, "9", func(step string) {
		fmt.Println(step)
		if !lines.Scan() {
			os.Exit(1)
		}
	})
	exitOn(err)
}

// A handler that resumes a call and writes a row in one transaction is killed
// after each of its steps: there is never one without the other, and the same
// webhook, delivered again, makes both.
func TestHandlerKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for i, step := range steps {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			s, p := newShop(t, postgrestest.Shared(t))
			s.killedAfter(p.ID, i+1)
			committed := i >= 3
			if paid, open := s.payments(), len(s.waits()); paid+open != 1 || committed != (paid == 1) {
				t.Errorf("after the kill there are %d payments, and %d pauses wait", paid, open)
			}
			must(t, withConn(s.server, func(ctx context.Context, c conn) error {
				rc, err := s.pay(ctx, c, p.ID, "9", func(string) {})
				if rc.Duplicate != committed {
					t.Errorf("delivered again: %+v", rc)
				}
				return err
			}))
			s.settled(p.ID)
		})
	}
}

// killedAfter has another process handle a payment, and kills it after so many
// steps.
func (s *shop) killedAfter(pause string, n int) {
	s.t.Helper()
	c := startChild(s.t, "pay", s.server.URL(), s.schema, pause)
	for i := range n {
		c.says(steps[i])
		if i < n-1 {
			fmt.Fprintln(c.in)
		}
	}
	c.kill()
}

// The answer to COMMIT is lost, or COMMIT itself: the handler can't know, and
// does all of it again.
func TestLostCommit(t *testing.T) {
	t.Parallel()
	for name, reaches := range map[string]bool{"the answer": true, "the commit": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := newShop(t, postgrestest.Shared(t))
			cut := &cutAtCommit{reaches: reaches}
			c, err := pgx.ParseConfig(s.server.URL())
			must(t, err)
			c.DialFunc = cut.dial
			lossy, err := pgx.ConnectConfig(t.Context(), c)
			must(t, err)
			defer lossy.Close(t.Context())
			if rc, err := s.pay(t.Context(), lossy, p.ID, "9", func(string) {}); err == nil {
				t.Errorf("the commit that was cut off went well: %+v", rc)
			}
			if !cut.done.Load() {
				t.Error("nothing was cut off")
			}
			must(t, withConn(s.server, func(ctx context.Context, c conn) error {
				rc, err := s.pay(ctx, c, p.ID, "9", func(string) {})
				if rc.Duplicate != reaches {
					t.Errorf("delivered again: %+v", rc)
				}
				return err
			}))
			s.settled(p.ID)
		})
	}
}

// cutAtCommit breaks a connection at its COMMIT: before it is sent, or after the
// server has it and has answered.
type cutAtCommit struct {
	reaches bool
	done    atomic.Bool
}

func (c *cutAtCommit) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	return cutConn{conn, c}, err
}

type cutConn struct {
	net.Conn
	cut *cutAtCommit
}

func (c cutConn) Write(b []byte) (int, error) {
	if !bytes.Contains(b, []byte("\x0bcommit\x00")) { // the whole of a query's message
		return c.Conn.Write(b)
	}
	c.cut.done.Store(true)
	if c.cut.reaches {
		if n, err := c.Conn.Write(b); err != nil {
			return n, err
		}
		c.Conn.Read(make([]byte, 1)) // the server has answered
	}
	c.Conn.Close()
	return len(b), nil
}
