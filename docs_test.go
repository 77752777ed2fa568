package fermata_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block is a piece of code in a page for readers.
type block struct {
	file     string
	number   int
	language string
	code     string
	output   string // what stands in a block of text right behind a program
}

// pages returns the paths of the README and the docs.
func pages(t *testing.T) []string {
	t.Helper()
	docs, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	return append(docs, "README.md")
}

func blocks(t *testing.T, files ...string) []block {
	t.Helper()
	var all []block
	fence := regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range fence.FindAllStringSubmatch(string(text), -1) {
			b := block{file: file, number: i, language: m[1], code: m[2]}
			if before := len(all) - 1; b.language == "text" && before >= 0 &&
				all[before].file == file && all[before].isProgram() {
				all[before].output = b.code
			}
			all = append(all, b)
		}
	}
	return all
}

func (b block) isProgram() bool {
	return b.language == "go" && strings.HasPrefix(b.code, "package main\n")
}

func (b block) hasTests() bool { return strings.Contains(b.code, "\nfunc Test") }

// dir returns the folder in which the block is a package.
func (b block) dir() string {
	return fmt.Sprintf("block_%s_%d",
		regexp.MustCompile(`\W`).ReplaceAllString(b.file, "_"), b.number)
}

// Every Go block of the README and of the docs is a file that is formatted and
// compiles. A program prints what the page says, and does so again on the same
// file; a test passes.
func TestCodeInPages(t *testing.T) {
	all := blocks(t, pages(t)...)
	overlay := overlay(t, all)
	built := t.TempDir()
	// Without tables for debuggers, they link in half the time.
	build := func(tests bool, args ...string) {
		args = append(args, "-overlay", overlay, "-ldflags=-s -w", "-o", built+string(filepath.Separator))
		for _, b := range all {
			if b.language == "go" && b.hasTests() == tests {
				args = append(args, "./"+b.dir())
			}
		}
		if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	build(false, "build")
	build(true, "test", "-c", "-vet=off")
	for _, b := range all {
		if b.language != "go" {
			continue
		}
		t.Run(b.dir(), func(t *testing.T) {
			t.Parallel()
			if formatted, err := format.Source([]byte(b.code)); err != nil ||
				string(formatted) != b.code {
				t.Errorf("it is not formatted: %v", err)
			}
			switch {
			case b.hasTests():
				b.test(t, filepath.Join(built, b.dir()+".test"))
			case b.output != "":
				b.run(t, filepath.Join(built, b.dir()))
			}
		})
	}
}

// run runs a program twice in one folder.
func (b block) run(t *testing.T, binary string) {
	dir := t.TempDir()
	for range 2 {
		cmd := exec.CommandContext(t.Context(), binary)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != b.output {
			t.Errorf("it prints (%v)\n%s", err, out)
		}
	}
}

// test runs the tests of a block.
func (b block) test(t *testing.T, binary string) {
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Dir = t.TempDir()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// overlay lays the blocks over the module, each as a package of its own,
// without touching the module. It returns the file that go build takes.
func overlay(t *testing.T, all []block) string {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replace := map[string]string{}
	for _, b := range all {
		if b.language != "go" {
			continue
		}
		name := "block.go"
		if b.hasTests() {
			name = "block_test.go"
		}
		file := filepath.Join(dir, b.dir()+name)
		if err := os.WriteFile(file, []byte(b.code), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, b.dir(), name)] = file
	}
	if len(replace) == 0 {
		t.Fatal("there is no Go block in any page")
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The README's program is short, and its output stands behind it.
func TestReadmeProgramIsShort(t *testing.T) {
	const most = 40
	for _, b := range blocks(t, "README.md") {
		if !b.isProgram() {
			continue
		}
		if n := strings.Count(b.code, "\n"); n > most || b.output == "" {
			t.Errorf("it has %d lines, at most %d are promised, and prints %q", n, most, b.output)
		}
		return
	}
	t.Error("the README has no program")
}

// Each link of a page to this repository leads somewhere.
func TestLinksInPages(t *testing.T) {
	code := regexp.MustCompile("(?ms)^```.*?^```$")
	link := regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllSubmatch(code.ReplaceAll(text, nil), -1) {
			target := page
			if len(m[1]) > 0 {
				target = filepath.Join(filepath.Dir(page), string(m[1]))
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s leads nowhere", page, m[0])
				continue
			}
			if anchor := m[2]; len(anchor) > 0 && !hasHeading(t, target, string(anchor)) {
				t.Errorf("%s: %s leads to no heading", page, m[0])
			}
		}
	}
}

// Each file that a page names is there: by its path, or, where the page says in
// which folder it is, by its name. So is each folder below internal/.
func TestFilesThatPagesName(t *testing.T) {
	names := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		names[filepath.Base(path)] = true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile("(?ms)^```.*?^```$")
	named := regexp.MustCompile("`([A-Za-z0-9_./-]+\\.go|internal/[a-z0-9/]+)`")
	seen := 0
	for _, page := range append(pages(t), "CHANGELOG.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllSubmatch(code.ReplaceAll(text, nil), -1) {
			seen++
			path := string(m[1])
			if _, err := os.Stat(path); err != nil &&
				(strings.Contains(path, "/") || !names[path]) {
				t.Errorf("%s names %s, which isn't there", page, path)
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d names of files were found", seen)
	}
}

func hasHeading(t *testing.T, page, anchor string) bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if title, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "## "); ok &&
			strings.ToLower(strings.ReplaceAll(title, " ", "-")) == anchor {
			return true
		}
	}
	return false
}

// Pages are set in lines that fit a terminal, but for tables. Code may have
// some columns more.
func TestLinesOfPages(t *testing.T) {
	const most, mostOfCode = 80, 100
	for _, page := range append(pages(t), "CHANGELOG.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		code := false
		for n, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(line, "```") {
				code = !code
			}
			columns := len([]rune(strings.ReplaceAll(line, "\t", "    ")))
			if columns > mostOfCode && code ||
				columns > most && !code && !strings.HasPrefix(line, "|") {
				t.Errorf("%s:%d has %d columns", page, n+1, columns)
			}
		}
	}
}
