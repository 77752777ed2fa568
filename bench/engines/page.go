package main

import (
	"fmt"
	"os"
	"strings"
)

// table is one of a page's.
type table struct {
	name string
	rows [][]string // the first is its head
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) String() string {
	var b strings.Builder
	for i, row := range t.rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString("| --- |" + strings.Repeat(" ---: |", len(row)-1) + "\n")
		}
	}
	return b.String()
}

// tables returns those that the figures fill.
func (f *figures) tables() (all []table) {
	if len(f.Points) > 0 {
		all = append(all, f.run(), f.cycles(), f.costs(), f.carries())
	}
	if len(f.Light) > 0 {
		all = append(all, f.light())
	}
	if len(f.Turns) > 0 {
		all = append(all, f.beside())
	}
	if f.Held != nil {
		all = append(all, f.open())
	}
	return all
}

// run is what the figures come from.
func (f *figures) run() table {
	t := table{name: "run"}
	t.row("What", "Which")
	t.row("day", f.Day)
	t.row("machine", f.Machine)
	t.row("cycles under way at once", fmt.Sprint(f.Clients))
	t.row("a paused session takes", count(int(f.PausedBytes))+" bytes")
	t.row("a finished one takes", count(int(f.FinishedBytes))+" bytes")
	t.row("a measurement", fmt.Sprintf("%.0f s", f.Seconds))
	for _, of := range []string{"Go", "PostgreSQL", "github.com/jackc/pgx/v5",
		"github.com/riverqueue/river", "github.com/dbos-inc/dbos-transact-golang"} {
		t.row(of, f.Versions[of])
	}
	return t
}

func (f *figures) cycles() table { return speeds("cycles", f.Points) }

// light is cycles, where nothing is busy.
func (f *figures) light() table { return speeds("light", f.Light) }

func speeds(name string, points []point) table {
	t := table{name: name}
	t.row("System, workers", "cycles a second", "accepted in, ms, median", "p99, ms")
	for _, p := range points {
		t.row(p.label(), fmt.Sprintf("%.0f", p.Cycles), fmt.Sprintf("%.1f", p.AcceptP50),
			fmt.Sprintf("%.1f", p.AcceptP99))
	}
	return t
}

func (f *figures) costs() table {
	t := table{name: "costs"}
	t.row("System, workers", "commits", "statements", "kB to and from the server", "kB of WAL",
		"ms of the server's processors", "of the workers'", "of the front's")
	for _, p := range f.Points {
		t.row(p.label(), fmt.Sprintf("%.1f", p.Commits), fmt.Sprintf("%.1f", p.Statements), kB(p.Bytes),
			kB(p.WAL), fmt.Sprintf("%.2f", p.ServerCPU), fmt.Sprintf("%.2f", p.WorkerCPU),
			fmt.Sprintf("%.2f", p.FrontCPU))
	}
	return t
}

func (f *figures) beside() table {
	t := table{name: "paused"}
	t.row("Paused sessions", "cycles a second, of each round", "the median")
	for _, n := range []int{f.Few, f.Paused} {
		var each []string
		var all []float64
		for _, p := range f.Turns {
			if p.Paused == n {
				all = append(all, p.Cycles)
				each = append(each, fmt.Sprintf("%.0f", p.Cycles))
			}
		}
		t.row(count(n), strings.Join(each, ", "), fmt.Sprintf("%.0f", median(all)))
	}
	t.row("the first over the second", "round by round", fmt.Sprintf("%.2f", f.PausedRatio))
	return t
}

func (f *figures) open() table {
	h := f.Held
	cycles, share := h.late()
	t := table{name: "held"}
	t.row("When", "cycles a second", "p99 of acceptance, ms", "dead rows", "the table, MB")
	t.row("before", fmt.Sprintf("%.0f", h.Before.Cycles), fmt.Sprintf("%.1f", h.Before.AcceptP99), "",
		mB(h.TableBefore))
	if len(h.Stretches) > 0 {
		last := h.Stretches[len(h.Stretches)-1]
		t.row("the last third of "+count(last.Second)+" s with it, the median",
			fmt.Sprintf("%.0f", cycles), "", "", "")
		t.row("the end of that time", fmt.Sprintf("%.0f", h.Last.Cycles),
			fmt.Sprintf("%.1f", h.Last.AcceptP99), count(int(last.Dead)), mB(h.TableAfter))
	}
	t.row("once it has ended", fmt.Sprintf("%.0f", h.After.Cycles),
		fmt.Sprintf("%.1f", h.After.AcceptP99), "", "")
	t.row("before, over the last third with it", fmt.Sprintf("%.2f", h.Before.Cycles/cycles), "", "", "")
	t.row("the server's processor time over its clients', before and in that third",
		fmt.Sprintf("%.2f and %.2f", h.Before.share(), share), "", "", "")
	return t
}

// late returns the medians of the last third of the time: cycles a second, and
// the server's processor time over that of its clients.
func (h *holding) late() (cycles, share float64) {
	var all, shares []float64
	for _, s := range h.Stretches[len(h.Stretches)*2/3:] {
		all, shares = append(all, s.Cycles), append(shares, s.Share)
	}
	return median(all), median(shares)
}

func (p *point) label() string { return fmt.Sprintf("%s, %d", p.System, p.Workers) }

func kB(bytes float64) string { return fmt.Sprintf("%.1f", bytes/1000) }

func mB(bytes int64) string { return fmt.Sprintf("%.0f", float64(bytes)/1e6) }

// count is a number with commas.
func count(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// fill writes the tables into a page, each between its two comments.
func (f *figures) fill(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err := f.filled(string(b))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

func (f *figures) filled(text string) (string, error) {
	for _, t := range f.tables() {
		begin, end := "<!-- "+t.name+" -->\n", "<!-- end of "+t.name+" -->"
		before, rest, ok := strings.Cut(text, begin)
		_, after, ended := strings.Cut(rest, end)
		if !ok || !ended {
			return "", fmt.Errorf("it has no place for the table %q: %q and %q", t.name, begin, end)
		}
		text = before + begin + "\n" + t.String() + "\n" + end + after
	}
	return text, nil
}
