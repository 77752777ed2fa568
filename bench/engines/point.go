package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// point is one measurement. What is said of a cycle is a mean.
type point struct {
	System  string
	Workers int
	Paused  int
	Held    bool `json:",omitempty"` // while a transaction was held open

	Cycles     float64 // a second
	AcceptP50  float64 // ms
	AcceptP99  float64 // ms
	Commits    float64 // a cycle: transactions of the server that wrote
	Statements float64 // a cycle, that clients sent
	Bytes      float64 // a cycle, between the server and its clients
	WAL        float64 // bytes a cycle, without whole pages after checkpoints
	WALPages   float64 // bytes a cycle, of those
	Syncs      float64 // a cycle, of the log to the disk

	ServerCPU float64 // ms a cycle
	WorkerCPU float64 // ms a cycle, of all workers
	FrontCPU  float64 // ms a cycle
}

// share is the server's processor time over that of its clients: it doesn't
// depend on how fast the machine is just then.
func (p *point) share() float64 { return p.ServerCPU / (p.WorkerCPU + p.FrontCPU) }

// beside is a place, and how many sessions are paused in it.
type beside struct {
	place
	database string
	paused   int
}

// setup is a system at work: a database, workers, and a load.
type setup struct {
	beside
	server  *server
	wire    wire
	load    *load
	workers []*worker
}

func (s *server) setup(ctx context.Context, at beside, workers int) (*setup, error) {
	sys, err := named(at.System)
	if err != nil {
		return nil, err
	}
	u := &setup{beside: at, server: s}
	f, err := sys.front(ctx, at.URL, &u.wire)
	if err != nil {
		return nil, err
	}
	u.load = newLoad(f, fmt.Sprintf("c-%d", time.Now().UnixNano()))
	for range workers {
		w, err := at.start(u.load.tell)
		if err != nil {
			return nil, errors.Join(err, u.close())
		}
		u.workers = append(u.workers, w)
	}
	return u, nil
}

func (u *setup) close() (err error) {
	for _, w := range u.workers {
		err = errors.Join(err, w.stop())
	}
	u.load.front.close()
	return err
}

// mark is what all have used so far.
type mark struct {
	at      time.Time
	cycles  int64
	server  reading
	workers used
	front   used
}

func (u *setup) mark(ctx context.Context) (m mark, err error) {
	for _, w := range u.workers {
		a, err := w.ask()
		if err != nil {
			return m, err
		}
		m.workers.Bytes += a.Bytes
		m.workers.CPU += a.CPU
	}
	m.front = used{u.wire.bytes.Load(), ownCPU()}
	if m.server, err = u.server.read(ctx, u.database); err != nil {
		return m, err
	}
	m.at, m.cycles = time.Now(), u.load.done.Load()
	return m, nil
}

// measure runs the load for so long, after a time to warm up.
func (u *setup) measure(ctx context.Context, clients int, warm, each time.Duration) (point, error) {
	within, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- u.load.run(within, clients) }()
	if err := wait(ctx, warm, ended); err != nil {
		return point{}, err
	}
	p, err := u.window(ctx, each, ended)
	stop()
	return p, errors.Join(err, <-ended)
}

// window measures a load that is under way: for so long, or longer, until a
// cycle has come to its end.
func (u *setup) window(ctx context.Context, each time.Duration, ended chan error) (p point, err error) {
	u.load.accepted()
	before, err := u.mark(ctx)
	if err != nil {
		return p, err
	}
	for first := true; first || u.load.done.Load() == before.cycles; first = false {
		if err := wait(ctx, each, ended); err != nil {
			return p, err
		}
	}
	return u.since(ctx, before)
}

// since returns what was done since a mark.
func (u *setup) since(ctx context.Context, before mark) (p point, err error) {
	after, err := u.mark(ctx)
	if err != nil {
		return p, err
	}
	took := u.load.accepted()
	log, err := u.server.written(ctx, before.server.at, after.server.at)
	if err != nil {
		return p, err
	}
	n := float64(after.cycles - before.cycles)
	if n == 0 {
		return p, fmt.Errorf("%s: no cycle came to its end", u.place.System)
	}
	return point{
		System: u.place.System, Workers: len(u.workers), Paused: u.paused,
		Cycles:     n / after.at.Sub(before.at).Seconds(),
		AcceptP50:  quantile(took, 0.5),
		AcceptP99:  quantile(took, 0.99),
		Commits:    float64(log.commits) / n,
		Statements: float64(after.server.statements-before.server.statements) / n,
		Bytes: float64(after.workers.Bytes-before.workers.Bytes+
			after.front.Bytes-before.front.Bytes) / n,
		WAL:       float64(log.bytes-log.pages) / n,
		WALPages:  float64(log.pages) / n,
		Syncs:     float64(after.server.syncs-before.server.syncs) / n,
		ServerCPU: 1000 * (after.server.cpu - before.server.cpu) / n,
		WorkerCPU: 1000 * (after.workers.CPU - before.workers.CPU) / n,
		FrontCPU:  1000 * (after.front.CPU - before.front.CPU) / n,
	}, nil
}

// wait waits, unless the load ends before.
func wait(ctx context.Context, d time.Duration, ended chan error) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case err := <-ended:
		ended <- err
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// machine says what all of it ran on.
func machine() string {
	return fmt.Sprintf("%d processors, %s/%s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
}
