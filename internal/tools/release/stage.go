package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/mod/modfile"
	xmodule "golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// stage holds the modules of one commit as they would be tagged, and serves
// them to the go command as a proxy on the disk does.
type stage struct {
	repo    *repo
	version string // of all modules
	tree    string // a copy of the commit, in which go.mod files are edited
	proxy   string // the proxy's folder
	env     []string
}

// newStage unpacks a commit below dir. The version must be new: the go command
// never asks twice for one.
func newStage(ctx context.Context, r *repo, commit, version, dir string) (*stage, error) {
	s := &stage{repo: r, version: version, tree: filepath.Join(dir, "tree"),
		proxy: filepath.Join(dir, "proxy")}
	behind, err := output(ctx, r.root, "go", "env", "GOPROXY")
	if err != nil {
		return nil, err
	}
	s.env = []string{
		"GOWORK=off", "GOFLAGS=-mod=mod",
		"GOPROXY=file://" + filepath.ToSlash(s.proxy) + "," + behind,
		"GONOSUMDB=" + r.core + "," + r.core + "/*", "GONOPROXY=none", "GOPRIVATE=",
	}
	archive, err := exec.CommandContext(ctx, "git", "-C", r.root, "archive", "--format=tar",
		commit).Output()
	if err != nil {
		return nil, fmt.Errorf("git archive %s: %w", commit, err)
	}
	return s, untar(s.tree, archive)
}

// add gives a module the form that it will have when it is tagged, and has the
// proxy serve it. The modules that it requires are added before it.
func (s *stage) add(ctx context.Context, m module) error {
	dir := filepath.Join(s.tree, filepath.FromSlash(m.dir))
	if err := s.editGoMod(dir); err != nil {
		return fmt.Errorf("%s: %w", m.path, err)
	}
	if m.dir != "." { // the core needs no edit, so nothing is tidied that isn't
		if _, err := outputWith(ctx, dir, s.env, "go", "mod", "tidy"); err != nil {
			return err
		}
	}
	return s.serve(m, dir)
}

// editGoMod takes the replacements of the repository's own modules out, and
// requires the staged version of them.
func (s *stage) editGoMod(dir string) error {
	file, err := readGoMod(dir)
	if err != nil {
		return err
	}
	for _, old := range append([]*modfile.Replace(nil), file.Replace...) {
		if !s.repo.has(old.Old.Path) {
			return fmt.Errorf("it replaces %s, which users of it would not", old.Old.Path)
		}
		if err := file.DropReplace(old.Old.Path, old.Old.Version); err != nil {
			return err
		}
	}
	for _, q := range append([]*modfile.Require(nil), file.Require...) {
		if s.repo.has(q.Mod.Path) {
			if err := file.AddRequire(q.Mod.Path, s.version); err != nil {
				return err
			}
		}
	}
	file.Cleanup()
	text, err := file.Format()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "go.mod"), text, 0o600)
}

// serve writes a module's three files of the proxy protocol. The zip leaves
// nested modules out.
func (s *stage) serve(m module, dir string) error {
	escaped, err := xmodule.EscapePath(m.path)
	if err != nil {
		return err
	}
	at := filepath.Join(s.proxy, filepath.FromSlash(escaped), "@v")
	goMod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	var zipped bytes.Buffer
	if err := zip.CreateFromDir(&zipped, xmodule.Version{Path: m.path, Version: s.version},
		dir); err != nil {
		return fmt.Errorf("no version of %s can be made: %w", m.path, err)
	}
	info := fmt.Sprintf(`{"Version":%q,"Time":%q}`,
		s.version, time.Now().UTC().Format(time.RFC3339))
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	for ending, content := range map[string][]byte{".info": []byte(info), ".mod": goMod,
		".zip": zipped.Bytes()} {
		if err := os.WriteFile(filepath.Join(at, s.version+ending), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// forget takes the staged version out of the machine's module cache. The cache
// is shared, so that the vendors' clients are not compiled anew, and a version
// of one check alone makes it a fresh one for the modules under test.
func (s *stage) forget(ctx context.Context, modules []module) error {
	cache, err := output(ctx, "", "go", "env", "GOMODCACHE")
	if err != nil {
		return err
	}
	for _, m := range modules {
		escaped, err := xmodule.EscapePath(m.path)
		if err != nil {
			return err
		}
		unpacked := filepath.Join(cache, filepath.FromSlash(escaped)+"@"+s.version)
		if err := removeReadOnly(unpacked); err != nil {
			return err
		}
		served := filepath.Join(cache, "cache", "download", filepath.FromSlash(escaped), "@v")
		files, err := filepath.Glob(filepath.Join(served, s.version+".*"))
		if err != nil {
			return err
		}
		for _, name := range files {
			if err := os.Remove(name); err != nil {
				return err
			}
		}
		if rest, err := os.ReadDir(served); err == nil && len(rest) == 1 &&
			rest[0].Name() == "list" {
			_ = os.RemoveAll(served) // a list of nothing
		}
	}
	return nil
}

// removeReadOnly removes a folder as the go command unpacks it.
func removeReadOnly(dir string) error {
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(name, 0o755)
		}
		return err
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// untar unpacks plain files and folders.
func untar(dir string, archive []byte) error {
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case h.Typeflag != tar.TypeReg:
			continue
		}
		name, err := filepath.Localize(h.Name)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, name)
		content, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, content, 0o600); err != nil {
			return err
		}
	}
}
