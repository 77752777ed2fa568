package main

import "fmt"

// What the sums assume, and nothing here measures.
const (
	busy       = 0.6  // of the server's processors, so that it has room for peaks
	processor  = 0.05 // $, one for an hour
	gigabyte   = 0.12 // $, one of storage for a month
	keptDays   = 30   // how long a finished session is kept
	hoursMonth = 730
)

// carrier is what sessions are spread over.
type carrier struct {
	name       string
	databases  int
	processors int // of each
}

var carriers = []carrier{
	{"one database of 2 processors", 1, 2},
	{"one of 8", 1, 8},
	{"one of 32", 1, 32},
	{"16 databases of 8 each", 16, 8},
}

// carries is what databases carry, by what a cycle costs the server's
// processors: that is the first bottleneck.
func (f *figures) carries() table {
	t := table{name: "carries"}
	t.row("Server", "cycles a second", "pauses a day, millions", "WAL, MB/s", "storage a day, GB",
		"of a million paused sessions, GB", "other processors", "$ a month", "$ a million cycles")
	p := f.typical()
	for _, c := range carriers {
		cycles := float64(c.databases*c.processors) * busy * 1000 / p.ServerCPU
		day := cycles * 86400
		storage := day * f.FinishedBytes / 1e9
		workers := cycles * (p.WorkerCPU + p.FrontCPU) / 1000 / busy
		month := (float64(c.databases*c.processors)+workers)*processor*hoursMonth +
			(storage*keptDays+f.PausedBytes/1000)*gigabyte
		t.row(c.name, fmt.Sprintf("%.0f", cycles), fmt.Sprintf("%.0f", day/1e6),
			fmt.Sprintf("%.1f", cycles*(p.WAL+p.WALPages)/1e6), fmt.Sprintf("%.0f", storage),
			fmt.Sprintf("%.1f", f.PausedBytes/1000), fmt.Sprintf("%.0f", workers),
			fmt.Sprintf("%.0f", month), fmt.Sprintf("%.2f", month/(day*30/1e6)))
	}
	return t
}

// typical is the measurement that the sums take: this library's, with two
// workers.
func (f *figures) typical() (p point) {
	for _, q := range f.Points {
		if q.System == "fermata" && (p.System == "" || q.Workers == pairs) {
			p = q
		}
	}
	return p
}
