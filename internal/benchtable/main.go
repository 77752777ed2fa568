// Command benchtable reads what `go test -bench` prints, and prints one table:
// a row for each benchmark and metric.
//
//	go test -run '^$' -bench . ./bench | go run ./internal/benchtable
//
// Metrics that a benchmark reports itself are shown; of one that reports none,
// the time. Where a benchmark ran several times (-count), the median stands,
// with the lowest and the highest value beside it. What is no benchmark goes to
// standard error; a failure in the input is a failure of the table.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "benchtable:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out, rest io.Writer) error {
	results, err := parse(in, rest)
	if err != nil {
		return err
	}
	return print(out, results)
}
