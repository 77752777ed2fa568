package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

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

// throughPooler opens a store through a pooler, with a connection of its own to listen.
func throughPooler(
	t *testing.T, pooler string, server *postgrestest.Server, schema string,
) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), pooler, &postgres.Options{Schema: schema,
		NoPreparedStatements: true, Listen: server.URL()})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// Behind a pooler that hands each transaction another connection, the store is
// what it is elsewhere.
func TestBehindAPooler(t *testing.T) {
	t.Parallel()
	at := postgrestest.Shared(t).Pooler(t)
	suite(t, func(t *testing.T, server *postgrestest.Server, schema string) kvstore.Store {
		return throughPooler(t, at, server, schema)
	})
}

// Sessions of two processes run there at once, wait, are answered by the other
// process, and come to their ends.
func TestSessionsBehindAPooler(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	at, schema := server.Pooler(t), migrated(t, server)
	process := func() *runner.Runner {
		a, err := agent.New(agent.Config{Name: "shop", Tools: []tool.Tool{waiting("order", tool.Once)},
			Model: fakellm.New(fakellm.Calls("order", `{"text":"book"}`), fakellm.Says("Done."))})
		must(t, err)
		rn, err := runner.New(a, session.NewStore(throughPooler(t, at, server, schema), nil), nil)
		must(t, err)
		t.Cleanup(func() { must(t, rn.Close()) })
		return rn
	}
	one, two := process(), process()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			id, ctx := fmt.Sprint("s", i), context.Background()
			for _, err := range one.Run(ctx, "ada", id, llm.UserText("Go."), nil) {
				if err != nil {
					t.Error(err)
				}
			}
			p, err := two.Find(ctx, runner.Ref{Tool: "order", Key: "book", Session: id}, "")
			if err != nil {
				t.Error(err)
				return
			}
			resumed, err := two.Resume(ctx, id, runner.Complete(p.ID, "ci", text("sent")))
			if err != nil {
				t.Error(err)
				return
			}
			var last event.Event
			for ev, err := range resumed.Events(ctx) {
				if last = ev; err != nil {
					t.Error(err)
				}
			}
			if end, over := last.(event.End); !over || end.Finish != event.FinishStop {
				t.Errorf("%s ends with %+v", id, last)
			}
		})
	}
	all.Wait()
}

// A server that becomes a standby behind a pooler, whose connections stay, is
// refused at the next call: what it has may be old.
func TestStandbyBehindAPooler(t *testing.T) {
	t.Parallel()
	server := own(t)
	migrate(t, server, nil)
	s := throughPooler(t, server.Pooler(t), server, "")
	_, err := s.Apply(t.Context(), put("a", "1"))
	must(t, err)
	beStandby(t, server)
	if e, err := s.Get(t.Context(), []byte("a")); !errors.Is(err, postgres.ErrStandby) {
		t.Errorf("Get: %q, %v", e.Value, err)
	}
	for _, prefix := range []string{"a", "none"} {
		p, err := s.Scan(t.Context(), kvstore.Range{Prefix: []byte(prefix)})
		if !errors.Is(err, postgres.ErrStandby) {
			t.Errorf("Scan(%q): %v, %v", prefix, p, err)
		}
	}
	_, err = s.Apply(t.Context(), put("a", "2"))
	if !errors.Is(err, postgres.ErrStandby) || errors.Is(err, kvstore.ErrUncertain) {
		t.Errorf("Apply: %v", err)
	}
}

// A batch that a pooler has lost with its connection to the server may have been
// applied, whatever the pooler calls that.
func TestWhatAPoolerLoses(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	for name, refusal := range map[string]pgproto3.ErrorResponse{
		"a lost connection": {Severity: "ERROR", Code: "08P01", Message: "server conn crashed?"},
		"of another code":   {Severity: "ERROR", Code: "58000", Message: "the server has gone"},
	} {
		t.Run(name, func(t *testing.T) {
			schema := migrated(t, server)
			p := newLossy(t, server)
			s, err := postgres.Open(t.Context(), p.url, &postgres.Options{Schema: schema,
				NoListen: true})
			must(t, err)
			defer s.Close()
			_, err = s.Apply(t.Context(), put("a", "1"))
			must(t, err)
			p.refusal.Store(&refusal)
			_, err = s.Apply(t.Context(), put("b", "1"))
			p.refusal.Store(nil)
			if !errors.Is(err, kvstore.ErrUncertain) {
				t.Errorf("Apply: %v", err)
			}
			if _, err := s.Get(t.Context(), []byte("b")); err != nil {
				t.Errorf("it was applied: %v", err)
			}
		})
	}
}

// lossy stands between a store and a server. With a refusal, the server's answers
// are lost, the refusal is sent in their place, and the connection ends.
type lossy struct {
	url     string
	refusal atomic.Pointer[pgproto3.ErrorResponse]
}

func newLossy(t *testing.T, server *postgrestest.Server) *lossy {
	t.Helper()
	u, err := url.Parse(server.URL())
	must(t, err)
	to := u.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	u.Host = l.Addr().String()
	p := &lossy{url: u.String()}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			all.Go(func() { io.Copy(server, client); server.Close() })
			all.Go(func() { p.answers(client, server) })
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return p
}

// answers passes on what a server answers.
func (p *lossy) answers(client, server net.Conn) {
	defer client.Close()
	for buf := make([]byte, 1<<16); ; {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		out := buf[:n]
		refusal := p.refusal.Load()
		if refusal != nil {
			if out, err = refusal.Encode(nil); err != nil {
				return
			}
		}
		if _, err := client.Write(out); err != nil || refusal != nil {
			return
		}
	}
}

// Of several hosts to listen on, the store takes the one that can be listened to.
func TestListenerPassesAStandbyOver(t *testing.T) {
	t.Parallel()
	server, standby := postgrestest.Shared(t), own(t)
	beStandby(t, standby)
	there, err := url.Parse(standby.URL())
	must(t, err)
	at, err := url.Parse(server.URL())
	must(t, err)
	at.Host = there.Host + "," + at.Host
	s := open(t, server, &postgres.Options{Schema: migrated(t, server), Listen: at.String()})
	woken := make(chan struct{}, 1)
	defer s.Watch("work", func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})()
	select {
	case <-woken: // it listens
	case <-time.After(20 * time.Second):
		t.Error("it doesn't listen")
	}
}
