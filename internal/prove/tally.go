package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// counts are what one go test counted.
type counts struct {
	lines  []count
	failed int // tests
}

// count is so many of something, and how many of them were wrong.
type count struct {
	what          string
	n, violations int
}

var (
	countedLine = regexp.MustCompile(`counted: ([\d,]+) (.+), (\d+) violations`)
	fuzzedLine  = regexp.MustCompile(`fuzz: elapsed: .*execs: (\d+)`)
)

// read returns what a test's output counts, and the tables that the test
// logged.
func read(printed []byte) (c counts, tables []byte) {
	inTable, fuzzed := false, 0
	for line := range bytes.Lines(printed) {
		text := strings.TrimRight(string(line), "\n")
		if m := countedLine.FindStringSubmatch(text); m != nil {
			n, _ := strconv.Atoi(strings.ReplaceAll(m[1], ",", ""))
			wrong, _ := strconv.Atoi(m[3])
			c.lines = append(c.lines, count{m[2], n, wrong})
		}
		if m := fuzzedLine.FindStringSubmatch(text); m != nil {
			fuzzed, _ = strconv.Atoi(m[1]) // so far
		}
		switch row := strings.TrimSpace(text); {
		case strings.HasPrefix(row, "scenario ") && strings.HasSuffix(row, "violations"):
			inTable = true
			tables = append(tables, row+"\n"...)
		case inTable && row != "" && row[len(row)-1] >= '0' && row[len(row)-1] <= '9' &&
			strings.HasPrefix(text, "        "):
			tables = append(tables, row+"\n"...)
		case inTable:
			inTable = false
			tables = append(tables, '\n')
		}
	}
	if fuzzed > 0 {
		c.lines = append(c.lines, count{"inputs", fuzzed, 0})
	}
	return c, tables
}

// tally adds up what the parts counted, by part and kind.
type tally []row

type row struct {
	part string
	count
}

func (t *tally) add(part string, c counts) {
	if c.failed > 0 || len(c.lines) == 0 {
		c.lines = append(c.lines, count{"go test", 1, c.failed})
	}
	for _, l := range c.lines {
		at := slices.IndexFunc(*t, func(r row) bool { return r.part == part && r.what == l.what })
		if at < 0 {
			at = len(*t)
			*t = append(*t, row{part: part, count: count{what: l.what}})
		}
		(*t)[at].n += l.n
		(*t)[at].violations += l.violations
	}
}

func (t tally) violations() (n int) {
	for _, r := range t {
		n += r.violations
	}
	return n
}

// String returns the table.
func (t tally) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "how many\tviolations\t  of what")
	for _, r := range t {
		fmt.Fprintf(w, "%d\t%d\t  %s: %s\n", r.n, r.violations, r.part, r.what)
	}
	w.Flush()
	return b.String()
}

// fuzzTest is a fuzz test and the directory of its package.
type fuzzTest struct{ dir, name string }

// fuzzTests returns the fuzz tests below a directory: if coreAlone, those of
// its own module.
func fuzzTests(root string, coreAlone bool) (found []fuzzTest, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && coreAlone && path != root {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				return fs.SkipDir
			}
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil &&
				strings.HasPrefix(f.Name.Name, "Fuzz") {
				found = append(found,
					fuzzTest{"./" + filepath.ToSlash(filepath.Dir(path)), f.Name.Name})
			}
		}
		return nil
	})
	return found, err
}
