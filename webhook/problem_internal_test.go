package webhook

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/session"
)

// docs/problems.md has a chapter on each problem, in the order of the table,
// with its code, its status and its title.
func TestProblemsAreDescribed(t *testing.T) {
	page, err := os.ReadFile("../docs/problems.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	seen := map[string]bool{}
	for _, k := range kinds {
		if seen[k.code] || http.StatusText(k.status) == "" || k.title == "" {
			t.Errorf("the problem %+v is there twice, or incomplete", k)
		}
		seen[k.code] = true
		want = append(want, fmt.Sprintf("## %s\n\n%d. %s.", k.code, k.status, k.title))
	}
	got := regexp.MustCompile(`(?m)^## \w+\n\n\d+\. [^.]*\.`).FindAllString(string(page), -1)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the page has\n%s\nand the table\n%s", strings.Join(got, "\n"),
			strings.Join(want, "\n"))
	}
}

// Each code that a refusal has is in the table of problems, and each in the
// table is one that a refusal may have.
func TestCodesAreProblems(t *testing.T) {
	var files []string
	for _, dir := range []string{".", "../internal/httpin", "../httpapi"} {
		more, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	said := map[string]bool{}
	for _, file := range files {
		code, err := os.ReadFile(file)
		if err != nil || strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range regexp.MustCompile(`(?:[Rr]efuse\(|kindOf\()\s*"(\w+)"`).
			FindAllStringSubmatch(string(code), -1) {
			said[m[1]] = true
		}
	}
	for _, c := range classes {
		said[c.code] = true
	}
	for _, k := range kinds {
		if !said[k.code] {
			t.Errorf("no refusal is %s", k.code)
		}
		delete(said, k.code)
	}
	for code := range said {
		t.Errorf("the table of problems lacks %s", code)
	}
}

// Of a list of events one that could not be taken for a fault on this side has
// all of it sent again, as it would by itself. One that is refused for good
// doesn't, where another was of use.
func TestVerdictOfAList(t *testing.T) {
	for _, code := range kinds {
		want := code.status >= 500
		err := verdict([]error{nil, Problem{Type: ProblemBase + code.code, Status: code.status}, nil})
		if (err != nil) != want {
			t.Errorf("beside what was taken, %s (%d) leads to %v", code.code, code.status, err)
		}
	}
	if err := verdict([]error{session.ErrSettled, session.ErrCorrupt}); Status(err) != 500 {
		t.Errorf("what may pass is told as %v", err)
	}
	if verdict(nil) != nil {
		t.Error("an empty list is refused")
	}
}
