package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// result is one benchmark.
type result struct {
	name    string
	metrics []metric // in the order in which they came
}

type metric struct {
	unit   string
	values []float64 // one for each run
}

// standard are the units that package testing reports by itself.
var standard = []string{"ns/op", "B/op", "allocs/op", "MB/s"}

// parse reads benchmarks in the order in which they first appear. Lines that
// are none are copied to rest.
func parse(in io.Reader, rest io.Writer) ([]*result, error) {
	var results []*result
	failed := false
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		name, values, ok := benchmark(line)
		if !ok {
			failed = failed || strings.HasPrefix(line, "FAIL") ||
				strings.HasPrefix(line, "--- FAIL") || strings.HasPrefix(line, "panic:")
			fmt.Fprintln(rest, line)
			continue
		}
		at := slices.IndexFunc(results, func(r *result) bool { return r.name == name })
		if at < 0 {
			at = len(results)
			results = append(results, &result{name: name})
		}
		for i := 0; i < len(values); i += 2 {
			value, err := strconv.ParseFloat(values[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %q is no number", name, values[i])
			}
			results[at].add(values[i+1], value)
		}
	}
	switch {
	case lines.Err() != nil:
		return nil, lines.Err()
	case failed:
		return nil, errors.New("the benchmarks failed")
	case len(results) == 0:
		return nil, errors.New("there are no benchmarks in the input")
	}
	return results, nil
}

// processors is the suffix that tells GOMAXPROCS.
var processors = regexp.MustCompile(`-\d+$`)

// benchmark takes apart "BenchmarkX/y-2   100   12 ns/op   3 us/call".
func benchmark(line string) (name string, values []string, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 4 || len(fields)%2 != 0 || !strings.HasPrefix(fields[0], "Benchmark") {
		return "", nil, false
	}
	if _, err := strconv.Atoi(fields[1]); err != nil {
		return "", nil, false
	}
	name = processors.ReplaceAllString(strings.TrimPrefix(fields[0], "Benchmark"), "")
	return name, fields[2:], true
}

func (r *result) add(unit string, value float64) {
	for i := range r.metrics {
		if r.metrics[i].unit == unit {
			r.metrics[i].values = append(r.metrics[i].values, value)
			return
		}
	}
	r.metrics = append(r.metrics, metric{unit, []float64{value}})
}

// own returns the metrics to show.
func (r *result) own() []metric {
	own := slices.DeleteFunc(slices.Clone(r.metrics), func(m metric) bool {
		return slices.Contains(standard, m.unit)
	})
	if len(own) == 0 {
		own = r.metrics[:1]
	}
	return own
}
