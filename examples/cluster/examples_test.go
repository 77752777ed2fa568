package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/internal/etcdserver"
	"github.com/fermata-ai/fermata/kvstore/postgres/postgrestest"
)

// comment is what a program prints by its own comment.
func comment(t *testing.T, file string) string {
	t.Helper()
	code, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, said, _ := strings.Cut(string(code), "// It prints:\n//\n")
	said, _, _ = strings.Cut(said, "package main\n")
	return said
}

// prints makes sure that a program prints that.
func prints(t *testing.T, want, binary string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil || stderr.Len() > 0 {
		t.Fatalf("%v\n%s%s", err, stdout.String(), stderr.String())
	}
	var printed strings.Builder
	for l := range strings.SplitSeq(strings.TrimSpace(stdout.String()), "\n") {
		printed.WriteString(strings.TrimRight("//	"+l, "\t") + "\n")
	}
	if printed.String() != want {
		t.Errorf("it prints\n%s\nand not\n%s", printed.String(), want)
	}
}

// The examples print the same on every engine: one of one process, and one of
// several; with FERMATA_TESTS=full, all.
func TestExamplesOnEveryEngine(t *testing.T) {
	t.Parallel()
	names := []string{"approval", "deploy"}
	if os.Getenv("FERMATA_TESTS") == "full" {
		files, err := filepath.Glob("../*/main.go")
		if err != nil {
			t.Fatal(err)
		}
		names = nil
		for _, file := range files {
			if name := filepath.Base(filepath.Dir(file)); name != "chat" && name != "cluster" {
				names = append(names, name)
			}
		}
	}
	binaries := t.TempDir()
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", binaries+string(filepath.Separator))
	for _, name := range names {
		build.Args = append(build.Args, "github.com/fermata-ai/fermata/examples/"+name)
	}
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	urls := map[string]func(t *testing.T) string{
		"bolt": func(t *testing.T) string { return "bolt://" + filepath.Join(t.TempDir(), "store.db") },
		"etcd": func(t *testing.T) string {
			server, err := etcdserver.Start(etcdserver.Config{Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Close)
			return "etcd://" + server.Addr()
		},
		"postgres": func(t *testing.T) string {
			server, err := postgrestest.Start(nil)
			postgrestest.Need(t, err)
			t.Cleanup(func() { server.Close() })
			return server.URL()
		},
	}
	for engine, url := range urls {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			at := url(t)
			for _, name := range names {
				t.Run(name, func(t *testing.T) {
					where := at
					if engine == "bolt" { // a file is one example's
						where = url(t)
					}
					prints(t, comment(t, filepath.Join("..", name, "main.go")),
						filepath.Join(binaries, name), "-store", where)
				})
			}
		})
	}
}
