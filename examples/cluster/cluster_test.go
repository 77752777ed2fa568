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
)

// The program prints what its comment says, on the store that it starts, and on
// an etcd that is given to it.
func TestPrintsWhatItsCommentSays(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "cluster")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	code, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, said, _ := strings.Cut(string(code), "// It prints:\n//\n")
	said, _, _ = strings.Cut(said, "package main\n")
	prints := func(t *testing.T, args ...string) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, binary, args...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil || stderr.Len() > 0 {
			t.Fatalf("%v\n%s%s", err, stdout.String(), stderr.String())
		}
		var comment strings.Builder
		for l := range strings.SplitSeq(strings.TrimSpace(stdout.String()), "\n") {
			comment.WriteString(strings.TrimRight("//	"+l, "\t") + "\n")
		}
		if comment.String() != said {
			t.Errorf("it prints\n%s\nand not\n%s", comment.String(), said)
		}
	}
	t.Run("its own store", func(t *testing.T) { prints(t) })
	t.Run("etcd", func(t *testing.T) {
		server, err := etcdserver.Start(etcdserver.Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		prints(t, "-store", "etcd://"+server.Addr())
	})
}
