package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"
)

// options are how much is measured.
type options struct {
	each    time.Duration
	clients int
	few     int // paused sessions, where their number is not what is measured
	paused  int
	rounds  int
	held    time.Duration
	only    string // of the steps; empty: all
}

// plan is a measurement under way.
type plan struct {
	o      options
	server *server
	f      figures
}

// measure starts the server, and does all of it.
func measure(ctx context.Context, o options) (figures, error) {
	s, err := startServer(ctx)
	if err != nil {
		return figures{}, err
	}
	defer s.close()
	p := &plan{o: o, server: s, f: figures{Machine: machine(), Clients: o.clients,
		Seconds: o.each.Seconds(), Day: time.Now().UTC().Format(time.DateOnly), Versions: versions()}}
	if p.f.Versions["PostgreSQL"], err = s.version(ctx); err != nil {
		return figures{}, err
	}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{{"compare", p.compare}, {"turns", p.turns}, {"held", p.held}} {
		if o.only != "" && o.only != step.name {
			continue
		}
		if err := step.do(ctx); err != nil {
			return figures{}, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return p.f, nil
}

// versions returns those of what is compared.
func versions() map[string]string {
	all := map[string]string{}
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return all
	}
	all["Go"] = info.GoVersion
	for _, m := range info.Deps {
		switch m.Path {
		case "github.com/riverqueue/river", "github.com/dbos-inc/dbos-transact-golang",
			"github.com/jackc/pgx/v5":
			all[m.Path] = m.Version
		}
	}
	return all
}

// compare measures each system with 1, 2 and 4 workers, the systems in turns.
func (p *plan) compare(ctx context.Context) error {
	places := map[string]place{}
	order := []string{"fermata", "river", "dbos"}
	for _, name := range order {
		at, err := p.database(ctx, name, name)
		if err != nil {
			return err
		}
		places[name] = at
	}
	each, err := fillPaused(ctx, places["fermata"].URL, p.o.few)
	if err != nil {
		return err
	}
	p.f.Few, p.f.PausedBytes = p.o.few, each
	for _, workers := range []int{1, 2, 4} {
		for _, name := range order {
			at := beside{places[name], name, p.f.pausedOf(name)}
			point, err := p.point(ctx, at, workers, p.o.clients)
			if err != nil {
				return err
			}
			p.f.Points = append(p.f.Points, point)
		}
	}
	for _, name := range order {
		at := beside{places[name], name, p.f.pausedOf(name)}
		point, err := p.point(ctx, at, pairs, lightly)
		if err != nil {
			return err
		}
		p.f.Light = append(p.f.Light, point)
	}
	p.f.FinishedBytes, err = finished(ctx, places["fermata"].URL, p.o.few, p.f.PausedBytes)
	return err
}

// turns measures this library with few and with many paused sessions, in turns.
func (p *plan) turns(ctx context.Context) (err error) {
	var at [2]place
	sessions, names := [2]int{p.o.few, p.o.paused}, [2]string{"few", "many"}
	for i, n := range sessions {
		if at[i], p.f.PausedBytes, err = p.paused(ctx, names[i], n); err != nil {
			return err
		}
	}
	p.f.Few, p.f.Paused = p.o.few, p.o.paused
	var ratios []float64
	for range p.o.rounds {
		var cycles [2]float64
		for i, n := range sessions {
			point, err := p.point(ctx, beside{at[i], names[i], n}, pairs, p.o.clients)
			if err != nil {
				return err
			}
			cycles[i] = point.Cycles
			p.f.Turns = append(p.f.Turns, point)
		}
		ratios = append(ratios, cycles[0]/cycles[1])
	}
	p.f.PausedRatio = median(ratios)
	return nil
}

// held measures with many paused sessions while a transaction is open.
func (p *plan) held(ctx context.Context) error {
	if p.o.held == 0 {
		return nil
	}
	at, _, err := p.paused(ctx, "held", p.o.paused)
	if err != nil {
		return err
	}
	u, err := p.server.setup(ctx, beside{at, "held", p.o.paused}, pairs)
	if err != nil {
		return err
	}
	h, err := u.measureHeld(ctx, p.o)
	p.f.Held = &h
	return errors.Join(err, u.close())
}

// paused makes a database with paused sessions, and tells the bytes of each.
func (p *plan) paused(ctx context.Context, name string, n int) (at place, each float64, err error) {
	if at, err = p.database(ctx, "fermata", name); err == nil {
		each, err = fillPaused(ctx, at.URL, n)
	}
	return at, each, err
}

const (
	// pairs is how many workers there are where their number is not what is
	// measured.
	pairs = 2
	// lightly is how many cycles are under way at once where nothing is busy.
	lightly = 2
)

// point is one measurement, by processes of its own.
func (p *plan) point(ctx context.Context, at beside, workers, clients int) (point, error) {
	u, err := p.server.setup(ctx, at, workers)
	if err != nil {
		return point{}, err
	}
	m, err := u.measure(ctx, clients, p.o.each/4, p.o.each)
	if err = errors.Join(err, u.close()); err != nil {
		return m, fmt.Errorf("%s with %d workers: %w", at.System, workers, err)
	}
	progress(m)
	return m, nil
}

// database makes one, with what a system needs.
func (p *plan) database(ctx context.Context, system, name string) (place, error) {
	s, err := named(system)
	if err != nil {
		return place{}, err
	}
	url, err := p.server.database(ctx, name)
	if err != nil {
		return place{}, err
	}
	if err := s.prepare(ctx, url); err != nil {
		return place{}, fmt.Errorf("%s: prepare: %w", system, err)
	}
	return place{system, url}, nil
}

// progress shows a measurement as it comes.
func progress(p point) {
	fmt.Fprintf(os.Stderr, "%-8s %d workers, %6d paused: %6.1f cycles/s, accepted in %.1f ms (p99 %.1f), "+
		"%.1f commits, %.1f statements, %.0f bytes, %.0f of WAL, CPU %.2f + %.2f + %.2f ms\n",
		p.System, p.Workers, p.Paused, p.Cycles, p.AcceptP50, p.AcceptP99, p.Commits, p.Statements,
		p.Bytes, p.WAL, p.ServerCPU, p.WorkerCPU, p.FrontCPU)
}
