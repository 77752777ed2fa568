package fermata_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Packages of many files say where things are, and name each file once.
func TestWhereThingsAre(t *testing.T) {
	for dir, file := range map[string]string{"tool": "tool.go", "internal/session": "state.go",
		"runner": "runner.go"} {
		code, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		_, list, _ := strings.Cut(string(code), "// Where things are:\n")
		list, _, _ = strings.Cut(list, "\n\n")
		named := regexp.MustCompile(`\w+\.go`).FindAllString(list, -1)
		slices.Sort(named)
		var files []string
		all, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range all {
			if !strings.HasSuffix(path, "_test.go") {
				files = append(files, filepath.Base(path))
			}
		}
		for _, name := range files {
			if !slices.Contains(named, name) {
				t.Errorf("%s/%s doesn't say where %s is", dir, file, name)
			}
		}
		for i, name := range named {
			if !slices.Contains(files, name) {
				t.Errorf("%s/%s tells of %s, which isn't there", dir, file, name)
			}
			if i > 0 && named[i-1] == name {
				t.Errorf("%s/%s tells of %s twice", dir, file, name)
			}
		}
	}
}

// The tests of the runner stand in families, each of which is named in
// runner/main_test.go and has a file.
func TestWhereTheRunnersTestsAre(t *testing.T) {
	code, err := os.ReadFile("runner/main_test.go")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]int{} // by family
	for _, named := range regexp.MustCompile(`(?m)^//   - (\w+): `).FindAllSubmatch(code, -1) {
		files[string(named[1])] = 0
	}
	all, err := filepath.Glob("runner/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		family, _, _ := strings.Cut(filepath.Base(path), "_")
		if _, ok := files[family]; !ok {
			t.Errorf("%s: runner/main_test.go names no family %q", path, family)
		}
		files[family]++
	}
	for family, n := range files {
		if n == 0 {
			t.Errorf("runner/main_test.go names the family %q, which has no file", family)
		}
	}
}
