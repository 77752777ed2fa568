package fermata_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block is a piece of code in a text for readers.
type block struct {
	file           string
	number         int
	language, code string
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
			all = append(all, block{file, i, m[1], m[2]})
		}
	}
	return all
}

// Every Go block of the README and of the docs is a file that compiles, and is formatted.
func TestGoBlocksCompile(t *testing.T) {
	docs, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, b := range blocks(t, append(docs, "README.md")...) {
		if b.language != "go" {
			continue
		}
		n++
		t.Run(fmt.Sprintf("%s block %d", b.file, b.number), func(t *testing.T) {
			if out, err := b.build(t, os.DevNull); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			format := exec.Command("gofmt", "-l")
			format.Stdin = strings.NewReader(b.code)
			if out, err := format.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("it is not formatted: %v %s", err, out)
			}
		})
	}
	if n == 0 {
		t.Error("there is no Go block in the README")
	}
}

// The README's program prints what the README says, and does so again on the same file.
func TestReadmeProgram(t *testing.T) {
	var program, output block
	for _, b := range blocks(t, "README.md") {
		switch {
		case b.language == "go" && program.code == "":
			program = b
		case b.language == "text" && output.code == "":
			output = b
		}
	}
	binary := filepath.Join(t.TempDir(), "program")
	if out, err := program.build(t, binary); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := t.TempDir()
	for range 2 {
		cmd := exec.CommandContext(t.Context(), binary)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != output.code {
			t.Errorf("it prints (%v)\n%s", err, out)
		}
	}
}

// build compiles the block, which is laid over the module as a package of its own, without touching the disk.
func (b block) build(t *testing.T, to string) (string, error) {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	code, overlay := filepath.Join(dir, "block.go"), filepath.Join(dir, "overlay.json")
	name := "readme_" + regexp.MustCompile(`\W`).ReplaceAllString(b.file, "_") + fmt.Sprint(b.number)
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, name, "block.go"): code}})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{code: b.code, overlay: string(text)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", to, "./"+name).CombinedOutput()
	return string(out), err
}
