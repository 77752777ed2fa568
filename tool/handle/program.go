package handle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/fermata-ai/fermata/internal/process"
)

// Program is what a command runs.
type Program struct {
	// Path is the program's file. A name without a slash is looked for in PATH;
	// another relative one begins at Dir.
	Path string
	Args []string // without the program's name
	// Dir is the folder in which the program runs; empty: that of this process.
	Dir string
	// Env is its environment, as NAME=value; nil: that of this process.
	Env []string
}

// resolve returns the program as it is started. The error tells a model what is
// wrong with it.
func (p Program) resolve() (process.Program, error) {
	out := process.Program{Args: p.Args, Dir: p.Dir, Env: p.Env}
	if p.Path == "" {
		return out, errors.New("the command names no program")
	}
	if p.Dir != "" {
		dir, err := filepath.Abs(p.Dir)
		if err != nil {
			return out, err
		}
		switch s, err := os.Stat(dir); {
		case errors.Is(err, fs.ErrNotExist):
			return out, fmt.Errorf("the folder %s, in which %s is to run, does not exist", p.Dir, p.Path)
		case err != nil:
			return out, fmt.Errorf("the folder in which %s is to run: %w", p.Path, err)
		case !s.IsDir():
			return out, fmt.Errorf("%s, in which %s is to run, is not a folder", p.Dir, p.Path)
		}
		out.Dir = dir
	}
	path := p.Path
	if filepath.Base(path) != path && !filepath.IsAbs(path) {
		path = filepath.Join(out.Dir, path)
		if !strings.ContainsRune(path, filepath.Separator) {
			path = "." + string(filepath.Separator) + path
		}
	}
	found, err := exec.LookPath(path)
	if err == nil {
		out.Path, err = filepath.Abs(found)
	}
	if err != nil {
		return out, startError(p.Path, err)
	}
	return out, nil
}

// startError returns why a program can't be started, for a model.
func startError(path string, err error) error {
	switch {
	case errors.Is(err, exec.ErrDot):
		return fmt.Errorf("the program %q is found only in the folder itself: write ./%s to run it",
			path, path)
	case errors.Is(err, exec.ErrNotFound) && filepath.Base(path) == path:
		return fmt.Errorf("the program %q was not found in PATH", path)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the program %q does not exist, or what its first line names does not", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the program %q is not executable, or may not be run", path)
	}
	return fmt.Errorf("the program %q could not be started: %w", path, err)
}
