package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/internal/etcdserver"
)

// binary is the program.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "cluster")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "cluster")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v\n%s", err, out))
	}
	return m.Run()
}

// The program prints what its comment says, on the store that it starts, and on
// an etcd that is given to it.
func TestPrintsWhatItsCommentSays(t *testing.T) {
	want := comment(t, "main.go")
	t.Run("its own store", func(t *testing.T) {
		t.Parallel()
		prints(t, want, binary)
	})
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		server, err := etcdserver.Start(etcdserver.Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		prints(t, want, binary, "-store", "etcd://"+server.Addr())
	})
}

// A store that can't be opened, or that processes can't share, is an error at once.
func TestStoresThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://127.0.0.1:1/none", "etcd://127.0.0.1:1", "bolt://x.db", "x"} {
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			out, err := exec.CommandContext(ctx, binary, "-store", url).CombinedOutput()
			if err == nil || ctx.Err() != nil || len(out) == 0 {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
