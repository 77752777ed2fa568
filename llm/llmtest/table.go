package llmtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// page is the file that has the table, under the repository's root.
const page = "docs/providers.md"

// table compares what the repository's page of providers says of one with what
// its tests show. The table's columns are a feature, the suite's tests of it,
// and a provider each, headed by its name. A cell says yes where the provider
// lacks none of the row's tests, and otherwise no, with the reason's first word
// at least.
func table(t *testing.T, p Provider) {
	rows := tableOf(t)
	if rows == nil {
		t.Skipf("there is no %s with a table of providers above this folder", page)
	}
	column := slices.IndexFunc(rows[0], func(cell string) bool {
		return strings.Contains(cell,
			"`"+p.Name+"`")
	})
	if column < 0 {
		if api, at, compatible := strings.Cut(p.Name, "/"); compatible {
			t.Skipf("%s, which speaks %s, has no column of its own, and may have more or less than the provider whose API it is", at, api)
		}
		t.Fatalf("the table of %s has no column for `%s`", page, p.Name)
	}
	known := tests()
	shown := map[string]bool{}
	for _, row := range rows[1:] {
		if column >= len(row) {
			t.Fatalf("the row of %q is too short", row[0])
		}
		lacks := false
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			if !slices.Contains(known, m[1]) {
				t.Errorf("the suite has no test %q, which %s names for %q", m[1], page, row[0])
			}
			_, lack := p.Lacks[m[1]]
			shown[m[1]], lacks = true, lacks || lack
		}
		if cell := row[column]; strings.HasPrefix(cell, "no") != lacks || cell != "yes" && !strings.HasPrefix(cell, "no: ") {
			t.Errorf("%s says %q of %s and %q; by the suite, it lacks it: %v", page, cell, p.Name, row[0], lacks)
		}
	}
	for _, test := range known {
		if !shown[test] {
			t.Errorf("the table of %s has no row for the suite's test %q", page, test)
		}
	}
}

// tests returns the names of the suite's tests that a provider may lack, and of the others.
func tests() (all []string) {
	for _, s := range scenarios {
		all = append(all, s.name)
	}
	for _, c := range conversations() {
		if !slices.Contains(all, c.name) {
			all = append(all, c.name)
		}
	}
	return append(all, "arguments", "chunks", "cuts", "cancel", "silence", "endless", "secrets", "schemas", "schemas_strict", "pauses")
}

// tableOf reads the table from the page under the folder above that has one; nil
// if there is none.
func tableOf(t testing.TB) (rows [][]string) {
	t.Helper()
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		text, readErr := os.ReadFile(filepath.Join(dir, filepath.FromSlash(page)))
		if i := strings.Index(string(text), "| feature | tests of the suite |"); readErr == nil && i >= 0 {
			for line := range strings.Lines(string(text)[i:]) {
				if !strings.HasPrefix(line, "|") {
					break
				}
				var row []string
				for cell := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), "|") {
					row = append(row, strings.TrimSpace(cell))
				}
				if !strings.HasPrefix(row[0], "---") {
					rows = append(rows, row)
				}
			}
			return rows
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return nil
}
