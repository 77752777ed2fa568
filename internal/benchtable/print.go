package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// print lays the results out: names to the left, numbers aligned at their
// points.
func print(out io.Writer, results []*result) error {
	rows := [][]string{{"benchmark", "metric", "median", "lowest", "highest"}}
	for _, r := range results {
		name := r.name
		for _, m := range r.own() {
			rows = append(rows, append([]string{name, m.unit}, m.numbers()...))
			name = "" // said once
		}
	}
	if !slices.ContainsFunc(rows[1:], func(r []string) bool { return r[3] != "" }) {
		for i := range rows {
			rows[i] = rows[i][:3]
		}
		rows[0][2] = "value"
	}
	for column := 2; column < len(rows[0]); column++ {
		align(rows[1:], column)
	}
	return write(out, rows)
}

// numbers returns the median, and, of several runs, the lowest and the highest.
func (m metric) numbers() []string {
	sorted := slices.Sorted(slices.Values(m.values))
	n := len(sorted)
	median := (sorted[(n-1)/2] + sorted[n/2]) / 2
	if n == 1 {
		return []string{number(median), "", ""}
	}
	return []string{number(median), number(sorted[0]), number(sorted[n-1])}
}

// number returns a value with as many decimals as are worth reading.
func number(v float64) string {
	decimals := 2
	if v >= 1000 || v <= -1000 || v == float64(int64(v)) {
		decimals = 0
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// align pads a column so that the points stand below each other.
func align(rows [][]string, column int) {
	after := func(s string) int {
		if i := strings.IndexByte(s, '.'); i >= 0 {
			return len(s) - i
		}
		return 0
	}
	most := 0
	for _, r := range rows {
		most = max(most, after(r[column]))
	}
	for _, r := range rows {
		r[column] += strings.Repeat(" ", most-after(r[column]))
	}
}

// write prints rows: text flush left, numbers flush right.
func write(out io.Writer, rows [][]string) error {
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			widths[i] = max(widths[i], len(cell))
		}
	}
	for _, r := range rows {
		var line strings.Builder
		for i, cell := range r {
			if i < 2 {
				fmt.Fprintf(&line, "%-*s  ", widths[i], cell)
			} else {
				fmt.Fprintf(&line, "%*s  ", widths[i], cell)
			}
		}
		if _, err := fmt.Fprintln(out, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}
