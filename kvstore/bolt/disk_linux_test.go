package bolt_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/bolt"
)

// inSandbox runs f in a process of its own, as the user uid of a namespace
// where it may mount what it likes if uid is zero, and has no privileges at all
// otherwise. Where that isn't allowed, the test is skipped.
func inSandbox(t *testing.T, uid int, f func(*testing.T)) {
	const inside = "BOLT_TEST_SANDBOX"
	if os.Getenv(inside) == t.Name() {
		f(t)
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe, "-test.run=^"+t.Name()+"$", "-test.v")
	c.Env = append(os.Environ(), inside+"="+t.Name())
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Getgid(), Size: 1}},
	}
	out, err := c.CombinedOutput()
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		t.Skipf("no namespaces here: %v", err)
	} else if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// mount returns a directory of a small file system of its own.
func mount(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, 0) })
	return dir
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	inSandbox(t, 0, func(t *testing.T) {
		dir := mount(t, "4m")
		path, ballast := filepath.Join(dir, "store.db"), filepath.Join(dir, "ballast")
		if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, path)
		value := strings.Repeat("v", kvstore.MaxValue)
		kept := map[string]kvstore.Revision{}
		write := func(key string) error {
			r, err := s.Apply(t.Context(), put(key, value))
			if err == nil {
				kept[key] = r
			}
			return err
		}
		var err error
		for i := 0; err == nil; i++ {
			err = write(fmt.Sprint("k", i))
		}
		if errors.Is(err, kvstore.ErrUncertain) || errors.Is(err, kvstore.ErrCorrupt) || !strings.Contains(err.Error(), path) {
			t.Errorf("on a full disk: %v", err)
		}
		t.Logf("%d writes of 64 KiB on 3 MiB, then: %v", len(kept), err)

		var many sync.WaitGroup
		for i := range 16 {
			many.Go(func() {
				if _, err := s.Apply(t.Context(), put(fmt.Sprint("many", i), value)); err == nil || errors.Is(err, kvstore.ErrUncertain) {
					t.Errorf("on a full disk, with others: %v", err)
				}
			})
		}
		many.Wait()
		same := func() {
			t.Helper()
			got := all(t, s)
			for key, r := range kept {
				if e := got[key]; string(e.Value) != value || e.Revision != r {
					t.Errorf("%s is at %d, was at %d", key, e.Revision, r)
				}
			}
			if len(got) != len(kept) {
				t.Errorf("%d entries, were %d", len(got), len(kept))
			}
		}
		same()

		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		if err := write("after"); err != nil {
			t.Errorf("with room again: %v", err)
		}
		same()
		s.Close()
		sound(t, path)
		s = open(t, path)
		same()
		s.Close()
	})
}

// TestFullDiskAtOpen: no part of a new store is left behind.
func TestFullDiskAtOpen(t *testing.T) {
	t.Parallel()
	inSandbox(t, 0, func(t *testing.T) {
		dir := mount(t, "64k")
		path, ballast := filepath.Join(dir, "store.db"), filepath.Join(dir, "ballast")
		for _, room := range []int{0, 1, 2, 3, 4, 5} {
			if err := os.WriteFile(ballast, make([]byte, (16-room)*4096), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := bolt.Open(path, nil); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
				t.Errorf("with room for %d pages: %v", room, err)
			}
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("with room for %d pages: there is a file", room)
			}
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
		}
		open(t, path).Close()
	})
}

func TestReadOnlyFileSystem(t *testing.T) {
	t.Parallel()
	inSandbox(t, 0, func(t *testing.T) {
		dir := mount(t, "1m")
		path := filepath.Join(dir, "store.db")
		s := open(t, path)
		apply(t, s, put("a", "1"))
		s.Close()
		if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{path, filepath.Join(dir, "new.db")} {
			if _, err := bolt.Open(path, nil); !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), path) {
				t.Errorf("Open: %v", err)
			}
		}
		if err := bolt.Check(path); err != nil {
			t.Errorf("Check: %v", err) // it only reads
		}
	})
}

func TestReadOnlyFile(t *testing.T) {
	t.Parallel()
	inSandbox(t, 1000, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "store.db")
		s := open(t, path)
		apply(t, s, put("a", "1"))
		s.Close()
		if err := os.Chmod(path, 0o444); err != nil {
			t.Fatal(err)
		}
		if _, err := bolt.Open(path, nil); !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), path) {
			t.Errorf("Open: %v", err)
		}
		if err := bolt.Check(path); err != nil {
			t.Errorf("Check: %v", err)
		}
	})
}
