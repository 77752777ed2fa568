package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/kvstore/postgres/postgrestest"
)

// The workers are this program once more.
func TestMain(m *testing.M) {
	if part() {
		return
	}
	os.Exit(m.Run())
}

// Each system comes through cycles of its own, and each figure is there.
func TestEachSystemIsMeasured(t *testing.T) {
	t.Parallel()
	s, err := startServer(t.Context())
	postgrestest.Need(t, err)
	defer func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}()
	for name, sys := range systems {
		url, err := s.database(t.Context(), name)
		must(t, err)
		must(t, sys.prepare(t.Context(), url))
		if name == "fermata" {
			each, err := fillPaused(t.Context(), url, 20)
			must(t, err)
			if each < 100 {
				t.Errorf("a paused session takes %v bytes", each)
			}
		}
		u, err := s.setup(t.Context(), beside{place{name, url}, name, 20}, 2)
		must(t, err)
		before, err := u.mark(t.Context())
		must(t, err)
		for range 3 {
			must(t, u.load.cycle(t.Context()))
		}
		p, err := u.since(t.Context(), before)
		must(t, errors.Join(err, u.close()))
		if name == "fermata" {
			each, err := finished(t.Context(), url, 20, 1000)
			must(t, err)
			if each < 100 {
				t.Errorf("a finished session takes %v bytes", each)
			}
		}
		for what, figure := range map[string]float64{"cycles": p.Cycles, "acceptance": p.AcceptP99,
			"commits": p.Commits - 1, "statements": p.Statements - 5, "bytes": p.Bytes - 1000,
			"WAL": p.WAL - 1000} {
			if figure <= 0 {
				t.Errorf("%s: %s of %+v", name, what, p)
			}
		}
	}
}

// While a transaction is held open the load goes on, and what it did is told.
func TestHeldIsMeasured(t *testing.T) {
	t.Parallel()
	s, err := startServer(t.Context())
	postgrestest.Need(t, err)
	p := &plan{o: options{each: time.Second, clients: 4, paused: 20, held: time.Second}, server: s}
	must(t, errors.Join(p.held(t.Context()), s.close()))
	if h := p.f.Held; h.Before.Cycles <= 0 || h.Last.Cycles <= 0 || h.After.Cycles <= 0 ||
		len(h.Stretches) == 0 || h.TableAfter <= 0 {
		t.Errorf("it is told %+v", h)
	}
}

// A worker that can't work tells why.
func TestAWorkerTellsWhyItEnds(t *testing.T) {
	t.Parallel()
	w, err := place{"none", ""}.start(func(news) {})
	must(t, err)
	if err := w.stop(); err == nil || !strings.Contains(err.Error(), `no system "none"`) {
		t.Errorf("it ended with %v", err)
	}
}

// The tables of docs/scale.md are those of the figures that were measured.
func TestThePageHasTheFigures(t *testing.T) {
	t.Parallel()
	f, err := readFigures("figures.json")
	must(t, err)
	page, err := os.ReadFile(filepath.FromSlash("../../docs/scale.md"))
	must(t, err)
	filled, err := f.filled(string(page))
	must(t, err)
	if filled != string(page) {
		t.Error("docs/scale.md isn't what the figures say: go run . -from figures.json -page ../../docs/scale.md")
	}
}

// A page without a place for a table is an error.
func TestAPageHasAPlaceForEachTable(t *testing.T) {
	t.Parallel()
	f, err := readFigures("figures.json")
	must(t, err)
	if _, err := f.filled("nothing"); err == nil || !strings.Contains(err.Error(), `"run"`) {
		t.Error(err)
	}
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	all := []float64{5, 1, 4, 2, 3}
	for share, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 5, 1: 5} {
		if got := quantile(all, share); got != want {
			t.Errorf("%v: %v", share, got)
		}
	}
	if got := count(1234567); got != "1,234,567" {
		t.Error(got)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
