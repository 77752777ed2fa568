package postgres

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fermata-ai/fermata/kvstore"
)

// Signals go by NOTIFY, which is sent after the commits that they are for, and
// never in a batch's transaction: there it would take a lock of the whole
// database, and commits would wait for each other. A notification has a topic's
// hash, and nothing else.
type signals struct {
	*kvstore.Signals
	s       *Store
	channel string
	config  *pgx.ConnConfig // of the listener's connection
	// before is called before each connection, as the pool does: it may bring
	// passwords that change. Nil is nothing.
	before func(context.Context, *pgx.ConnConfig) error

	// mu guards listening, and is held over no call.
	mu        sync.Mutex
	listening bool
	ctx       context.Context // the listener's
	stop      context.CancelFunc
	listener  sync.WaitGroup
}

func newSignals(s *Store) *signals {
	g := &signals{s: s, channel: "fermata_" + digest(s.o.Schema)}
	g.ctx, g.stop = context.WithCancel(context.Background())
	g.Signals = kvstore.NewSignals(g.send)
	return g
}

// configure takes over how connections are made, from the options or a pool.
func (g *signals) configure(pool *pgxpool.Pool) (err error) {
	if g.s.o.Listen == "" {
		c := pool.Config()
		g.config, g.before = c.ConnConfig, c.BeforeConnect
	} else if g.config, err = pgx.ParseConfig(g.s.o.Listen); err != nil {
		return fmt.Errorf("kvstore/postgres: Options.Listen: %w", err)
	}
	if g.config.ValidateConnect == nil { // a standby can't be listened to
		g.config.ValidateConnect = writable
	}
	return nil
}

// digest stands for a name: of a topic, in a notification.
func digest(name string) string {
	h := sha256.Sum256([]byte(name))
	return fmt.Sprintf("%x", h[:8])
}

// Signal implements [kvstore.Signaler].
func (s *Store) Signal(topic string) { s.signals.Signal(digest(topic)) }

// Watch implements [kvstore.Signaler]. The first one has the store listen, on a
// connection of its own.
func (s *Store) Watch(topic string, wake func()) (stop func()) {
	stop = s.signals.Watch(digest(topic), wake)
	s.signals.listen()
	return stop
}

// between is the least time from one notification to the next.
const between = 5 * time.Millisecond

// send notifies of topics, all in one transaction, which waits for no disk. What
// it can't send is lost.
func (g *signals) send(ctx context.Context, topics []string) {
	within, cancel := context.WithTimeout(ctx, g.s.o.Timeout)
	defer cancel()
	conn, err := g.s.acquire(within)
	if err != nil {
		return
	}
	_, err = conn.Exec(within, "SELECT pg_catalog.set_config('synchronous_commit', 'off', true), "+
		"(SELECT count(pg_catalog.pg_notify($1::text, t)) FROM unnest($2::text[]) AS t)",
		mode(g.s.o, conn, g.channel, topics)...)
	conn.Release()
	if err != nil {
		return
	}
	pause(ctx, between) // what is signalled meanwhile goes together
}

// listen starts the listener, unless it is there.
func (g *signals) listen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listening || g.s.o.NoListen || g.ctx.Err() != nil {
		return
	}
	g.listening = true
	g.listener.Go(g.hear)
}

// hear wakes watchers, until close. When a connection breaks, it makes another
// one: what was signalled in between is lost, so all are woken. The first of
// several failures to connect is logged.
func (g *signals) hear() {
	const least, most = 100 * time.Millisecond, 10 * time.Second
	told := false
	for wait := least; g.ctx.Err() == nil; wait = min(2*wait, most) {
		err := g.hearOn()
		switch {
		case err == nil:
			wait, told = least, false
		case !told && g.ctx.Err() == nil:
			told = true
			g.s.o.Logger.Warn("kvstore/postgres: no connection to listen on, so signals of other "+
				"processes aren't heard: polls find what they tell", "err", err)
		}
		pause(g.ctx, wait)
	}
}

// hearOn listens on one connection until that breaks. The error is that of a
// connection that wasn't made.
func (g *signals) hearOn() error {
	conn, err := g.connect()
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(g.ctx), time.Second)
		defer cancel()
		conn.Close(ctx)
	}()
	g.WakeAll()
	for {
		n, err := g.next(conn)
		if err != nil {
			return nil
		}
		if n != "" {
			g.Wake(n)
		}
	}
}

func (g *signals) connect() (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(g.ctx, g.s.o.Timeout)
	defer cancel()
	c := g.config.Copy()
	if g.before != nil {
		if err := g.before(ctx, c); err != nil {
			return nil, err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := exec(ctx, conn, "LISTEN "+pgx.Identifier{g.channel}.Sanitize()); err != nil {
		conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

// quiet is how long a connection may be silent until it is asked whether it is
// still there.
const quiet = 30 * time.Second

// next returns the topic of the next notification, or nothing after a while.
func (g *signals) next(conn *pgx.Conn) (string, error) {
	ctx, cancel := context.WithTimeout(g.ctx, quiet)
	defer cancel()
	n, err := conn.WaitForNotification(ctx)
	switch {
	case err == nil:
		return n.Payload, nil
	case ctx.Err() == nil || g.ctx.Err() != nil:
		return "", err
	}
	ctx, cancel = context.WithTimeout(g.ctx, g.s.o.Timeout)
	defer cancel()
	return "", conn.Ping(ctx)
}

func (g *signals) close() {
	g.Signals.Close()
	g.mu.Lock()
	g.stop()
	g.mu.Unlock()
	g.listener.Wait()
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
