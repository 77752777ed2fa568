package fermata_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every line of the contract in docs/design.md stands once, and names a test,
// or several, which exist.
func TestEveryLineOfTheContractHasItsTest(t *testing.T) {
	design, err := os.ReadFile("docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(
		"(?m)^\\| ([A-Z][0-9]+[a-z]?) \\| .* \\| ((?:`Test[A-Za-z0-9]+`(?:, )?)+) \\|$")
	lines := line.FindAllStringSubmatch(string(design), -1)
	rows := regexp.MustCompile(`(?m)^\| [A-Z][0-9]+[a-z]? \|`).FindAll(design, -1)
	if len(rows) < 60 || len(rows) != len(lines) {
		t.Fatalf("%d lines of the contract, %d with a test", len(rows), len(lines))
	}
	code := tests(t)
	seen := map[string]bool{}
	for _, l := range lines {
		_, holds, _ := strings.Cut(l[0], l[1]+" |")
		switch {
		case seen[l[1]]:
			t.Errorf("two lines have the id %s", l[1])
		case seen[holds]:
			t.Errorf("line %s repeats another one, with the same test", l[1])
		}
		seen[l[1]], seen[holds] = true, true
		for _, test := range strings.Split(l[2], ", ") {
			test = strings.Trim(test, "`")
			if !strings.Contains(code, "\nfunc "+test+"(t *testing.T)") {
				t.Errorf("line %s: there is no %s", l[1], test)
			}
		}
	}
}

// tests returns the code of all test files.
func tests(t *testing.T) string {
	t.Helper()
	var all bytes.Buffer
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		all.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
