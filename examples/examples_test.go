// Package examples has one program a feature. Each is one file that uses the
// public API alone, runs to its end by itself, and says in its comment what it
// prints. Beside that file one has a page, and robots in place of browsers.
package examples

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write what the programs print into their comments")

// The line in a program's comment after which its output stands.
const prints = "// It prints:\n//\n"

// Each program prints what its comment says, and no process or file of it is
// left behind.
func TestExamples(t *testing.T) {
	built := build(t, programs(t))
	for _, name := range programs(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tmp := t.TempDir()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, built[name])
			cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "TMP="+tmp, chosen+"="+name)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			// Run returns when all processes that share the output are gone.
			if err := cmd.Run(); err != nil || stderr.Len() > 0 {
				t.Fatalf("%v\n%s%s", err, stdout.String(), stderr.String())
			}
			if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v (%v)", left, err)
			}
			compare(t, filepath.Join(name, "main.go"), stdout.String())
		})
	}
}

// chosen is the variable that names the program which the common binary runs.
const chosen = "FERMATA_EXAMPLE"

// build returns the binary of each program. To link takes longer than to run, so
// all that have no flags are in one: laid over their files, each is a package
// with a function Main.
func build(t *testing.T, names []string) map[string]string {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replace, built := map[string]string{}, map[string]string{}
	write := func(to, code string) {
		file := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		replace[filepath.Join(here, to)] = file
		if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"build", "-ldflags=-s -w", "-overlay", filepath.Join(dir, "overlay.json"),
		"-o", dir + string(filepath.Separator), "./together"}
	var imports, entries string
	asPackage := strings.NewReplacer("package main\n", "package example\n",
		"\nfunc main() {", "\nfunc Main() {")
	for i, name := range names {
		files, err := filepath.Glob(filepath.Join(name, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		for _, file := range files {
			code, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all[file] = string(code)
		}
		if strings.Contains(all[filepath.Join(name, "main.go")], "flag.") {
			args, built[name] = append(args, "./"+name), filepath.Join(dir, name)
			continue
		}
		built[name] = filepath.Join(dir, "together")
		for file, code := range all {
			write(file, asPackage.Replace(code))
		}
		imports += fmt.Sprintf("p%d %q\n", i, "github.com/fermata-ai/fermata/examples/"+name)
		entries += fmt.Sprintf("%q: p%d.Main,\n", name, i)
	}
	write("together/main.go", fmt.Sprintf("package main\nimport (\n\"os\"\n%s)\n"+
		"func main() { map[string]func(){\n%s}[os.Getenv(%q)]() }\n", imports, entries, chosen))
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return built
}

// compare checks that the comment of a program says what the program prints.
func compare(t *testing.T, file, output string) {
	t.Helper()
	code, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(code), prints)
	_, after, hasMain := strings.Cut(rest, "package main\n")
	if !found || !hasMain {
		t.Fatalf("the comment of %s doesn't say what the program prints", file)
	}
	said := strings.TrimSuffix(rest, "package main\n"+after)
	if want := comment(output); said != want {
		if !*update {
			t.Errorf("%s says that it prints\n%s\nit prints\n%s", file, said, want)
			return
		}
		code := before + prints + want + "package main\n" + after
		if err := os.WriteFile(file, []byte(code), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// comment is a text as an indented block of a comment.
func comment(text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimLeft(text, "\n")) {
		b.WriteString(strings.TrimRight("//\t"+line, "\t\n") + "\n")
	}
	return b.String()
}

// Each program is short, in one file, and listed for readers.
func TestExamplesAreShortAndListed(t *testing.T) {
	const most = 140 // lines, without the comment at the top
	list, err := os.ReadFile("../docs/examples.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range programs(t) {
		if !strings.Contains(string(list), "[`"+name+"`](../examples/"+name+"/main.go)") {
			t.Errorf("docs/examples.md doesn't list %s", name)
		}
		code, err := os.ReadFile(filepath.Join(name, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		_, program, _ := bytes.Cut(code, []byte("\npackage main\n"))
		if n := bytes.Count(program, []byte("\n")); n > most {
			t.Errorf("%s has %d lines, and should have %d at most", name, n, most)
		}
		if strings.Contains(string(code), "/internal/") {
			t.Errorf("%s imports what a user can't", name)
		}
	}
}

// programs lists the examples: the folders here, but for the chat, which is a
// module of its own.
func programs(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		names = append(names, filepath.Dir(file))
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "chat" || name == "cluster" })
	if len(names) < 10 {
		t.Fatalf("only %d examples are found: %v", len(names), names)
	}
	return names
}
