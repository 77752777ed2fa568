package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// repo is a repository of several modules.
type repo struct {
	root string // of the work tree
	core string // the path of the module at the root
	work []module
}

// module is one that go.work names.
type module struct {
	path     string
	dir      string   // relative to the root, with slashes; "." is the core
	requires []string // paths of other modules of the repository
}

// openRepo reads the go.work of the repository that dir is in, and the go.mod
// of each module that it names.
func openRepo(ctx context.Context, dir string) (*repo, error) {
	root, err := output(ctx, dir, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	r := &repo{root: root}
	name := filepath.Join(root, "go.work")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork(name, text, nil)
	if err != nil {
		return nil, err
	}
	for _, use := range work.Use {
		file, err := readGoMod(filepath.Join(root, use.Path))
		if err != nil {
			return nil, err
		}
		m := module{path: file.Module.Mod.Path, dir: path.Clean(filepath.ToSlash(use.Path))}
		for _, q := range file.Require {
			m.requires = append(m.requires, q.Mod.Path)
		}
		if m.dir == "." {
			r.core = m.path
		}
		r.work = append(r.work, m)
	}
	if r.core == "" {
		return nil, errors.New("go.work names no module at the root")
	}
	for i := range r.work {
		r.work[i].requires = slices.DeleteFunc(r.work[i].requires, func(p string) bool {
			return !r.has(p)
		})
	}
	return r, nil
}

// has reports whether a module of this path is in the repository.
func (r *repo) has(path string) bool {
	return path == r.core || strings.HasPrefix(path, r.core+"/")
}

// isReleased reports whether users may depend on the module. Examples,
// benchmarks, and modules for maintainers, get no tags.
func (m module) isReleased() bool {
	for _, folder := range strings.Split(m.dir, "/") {
		if folder == "internal" || folder == "examples" || folder == "bench" {
			return false
		}
	}
	return true
}

// tag returns the name of the tag that releases this version of the module.
func (m module) tag(version string) string {
	if m.dir == "." {
		return version
	}
	return m.dir + "/" + version
}

// released returns the released modules in steps. The modules of one step
// require only modules of earlier ones.
func (r *repo) released() (steps [][]module, err error) {
	var left []module
	for _, m := range r.work {
		if m.isReleased() {
			left = append(left, m)
		}
	}
	done := map[string]bool{}
	for len(left) > 0 {
		var step, later []module
		for _, m := range left {
			if slices.ContainsFunc(m.requires, func(p string) bool { return !done[p] }) {
				later = append(later, m)
			} else {
				step = append(step, m)
			}
		}
		if len(step) == 0 {
			return nil, fmt.Errorf("%s requires a module that isn't released, or that requires it",
				later[0].path)
		}
		for _, m := range step {
			done[m.path] = true
		}
		steps, left = append(steps, step), later
	}
	return steps, nil
}

func readGoMod(dir string) (*modfile.File, error) {
	name := filepath.Join(dir, "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(name, text, nil)
}

// output runs a command and returns what it prints, without the last newline.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	return outputWith(ctx, dir, nil, name, args...)
}

// outputWith runs a command with more in its environment.
func outputWith(
	ctx context.Context, dir string, env []string, name string, args ...string,
) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s in %s: %w\n%s%s",
			strings.Join(cmd.Args, " "), cmd.Dir, err, &out, &complaint)
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}
