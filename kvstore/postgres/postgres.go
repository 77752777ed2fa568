// Package postgres is the engine that keeps a store in PostgreSQL, for programs
// of many processes. All of it is one table of ordered keys, in a schema of its
// own.
//
// What it promises: a batch that Apply acknowledges is committed, with
// synchronous_commit on; Get and Scan read what is committed. Batches of
// callers of one process share transactions when there are many of them, and
// each is still judged by itself. What waits for another transaction's lock ends
// after [Options.LockTimeout], as an error that is certain.
//
// What it does not promise: it is no exclusive engine, so leases are stored and
// end by time. A server whose fsync is off, or that loses a standby's
// acknowledgements at a failover, loses what was acknowledged. A backup that is
// restored brings revisions back that were given out since: see [Restored].
//
// [Migrate] makes the schema, apart from running, as a role that may; [Open] and
// [New] need one that only reads and writes. [Store.In] is the store within a
// transaction of the caller's own.
//
// Where things are: what callers do: postgres.go, read.go, within.go; how batches
// are written: apply.go, alone.go, queue.go, request.go; what processes tell each
// other: signals.go; connections: server.go, mode.go; errors: errors.go; the
// schema: migrate.go, names.go, sql.
package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fermata-ai/fermata/kvstore"
)

// Options for [Open] and [New]; nil is right for most.
type Options struct {
	// Schema is where the store's table is; default "fermata". A database may
	// have several stores, each in its schema.
	Schema string
	// Timeout is how long a call to the server may take, after which a write is
	// uncertain; default 8 s. It belongs below a third of the runners' leases,
	// which are of 30 s by default.
	Timeout time.Duration
	// LockTimeout is how long a batch waits for a key that another transaction
	// holds, such as one of [Store.In] that stays open; default 5 s. It counts
	// from the call, also for what waits behind other batches of the process for
	// the same key. It belongs below Timeout.
	LockTimeout time.Duration
	// Writers is how many transactions of batches are under way at once; default
	// 4. What comes meanwhile is grouped.
	Writers int
	// Listen is the URL of a connection to the same database on which the store
	// listens for signals of other processes, where the pool's connections are no
	// sessions of the server: as behind pgbouncer in its transaction mode. Empty:
	// one that the pool's configuration makes, with its BeforeConnect.
	Listen string
	// NoListen is for where there is no such connection. The process is then woken
	// by its own polls alone.
	NoListen bool
	// NoPreparedStatements is for poolers that hand each transaction another
	// connection, and know of no prepared statements.
	NoPreparedStatements bool
	// AllowOtherServers takes servers that speak PostgreSQL's protocol and are
	// not PostgreSQL, such as CockroachDB and YugabyteDB. Their sequences and
	// locks differ: nothing is promised of them.
	AllowOtherServers bool
	// Logger gets what no caller is told: that the store can't listen. Default
	// slog.Default.
	Logger *slog.Logger
}

func (o *Options) defaults() {
	if o.Schema == "" {
		o.Schema = defaultSchema
	}
	if o.Timeout <= 0 {
		o.Timeout = 8 * time.Second
	}
	if o.LockTimeout <= 0 {
		o.LockTimeout = 5 * time.Second
	}
	o.LockTimeout = max(o.LockTimeout, time.Millisecond) // to the server, zero is for ever
	if o.Writers <= 0 {
		o.Writers = 4
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

// Store is a store in a schema. Its methods may be called from many goroutines.
type Store struct {
	pool  *pgxpool.Pool
	owned bool // the pool is ours to close
	o     Options
	text  statements

	queue   queue
	patient chan struct{} // a place for each batch for which the server waits
	time    kvstore.Timekeeper
	signals *signals

	// mu guards closed. Reads are counted under it, so that none begins once
	// Close waits for them.
	mu     sync.Mutex
	closed bool
	reads  sync.WaitGroup
}

var (
	_ kvstore.Signaler  = (*Store)(nil)
	_ kvstore.Clock     = (*Store)(nil)
	_ kvstore.Versioned = (*Store)(nil)
)

// Open connects to the server at a URL, or a connection string of key=value, as
// pgxpool.ParseConfig has them. Of several hosts it takes the one that can be
// written to.
func Open(ctx context.Context, url string, o *Options) (*Store, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		// pgx leaves the password out of what it quotes.
		return nil, fmt.Errorf("kvstore/postgres: open: %w", err)
	}
	if c.ConnConfig.ValidateConnect == nil {
		c.ConnConfig.ValidateConnect = writable
	}
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("kvstore/postgres: open: %w", err)
	}
	s, err := New(ctx, pool, o)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.owned = true
	return s, nil
}

// New returns the store over a pool, which stays the caller's to close, after
// the store. It refuses a schema that isn't there or isn't of this version, a
// standby, and a server that isn't PostgreSQL.
func New(ctx context.Context, pool *pgxpool.Pool, o *Options) (*Store, error) {
	s := &Store{pool: pool}
	if o != nil {
		s.o = *o
	}
	s.o.defaults()
	if err := checkSchema(s.o.Schema); err != nil {
		return nil, err
	}
	if err := checkModes(s.o, pool.Config().ConnConfig); err != nil {
		return nil, err
	}
	s.text = statementsOf(s.o.Schema)
	s.queue.init(s.o.Writers, s.commit)
	// Half of the connections at most wait for locks, so that what holds many
	// keys doesn't stop all else.
	s.patient = make(chan struct{}, max(1, pool.Config().MaxConns/2))
	s.signals = newSignals(s)
	if err := s.signals.configure(pool); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	conn, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	if err := s.checkServer(ctx, conn); err != nil {
		return nil, err
	}
	if err := checkVersion(ctx, conn.Conn(), s.o.Schema); err != nil {
		return nil, err
	}
	return s, nil
}

// Now implements [kvstore.Clock]: it is the server's time, which its answers
// tell.
func (s *Store) Now() (t time.Time, within time.Duration) { return s.time.Now() }

// Versioned implements [kvstore.Versioned]: the server keeps what was deleted
// until no transaction of the database can see it, and a vacuum has come by.
func (s *Store) Versioned() {}

// Close waits for the calls that have begun, and gives up the pool if Open made
// it.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.signals.close()
	s.queue.close()
	s.reads.Wait()
	if s.owned {
		s.pool.Close() // once more is nothing
	}
	return nil
}

// begin counts a read, unless the store is closed.
func (s *Store) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return kvstore.ErrClosed
	}
	s.reads.Add(1)
	return nil
}
