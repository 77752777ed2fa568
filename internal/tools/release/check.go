package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// program is a folder of the core with a program that uses the library as a
// user does.
const program = "internal/consumer"

// said is the last line of the program's output.
const said = "released"

// check stages the modules of a commit, and builds and runs a program outside
// of the tree against them.
func check(ctx context.Context, r *repo, commit string, out io.Writer) (err error) {
	steps, err := r.released()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	version := "v0.0.0-check." + strings.ToLower(rand.Text())
	s, err := newStage(ctx, r, commit, version, dir)
	if err != nil {
		return err
	}
	defer func() {
		if e := s.forget(context.WithoutCancel(ctx), slices.Concat(steps...)); err == nil {
			err = e
		}
	}()
	for _, step := range steps {
		for _, m := range step {
			if err := s.add(ctx, m); err != nil {
				return err
			}
			fmt.Fprintf(out, "%s: can be tagged as %s\n", m.path, m.tag("VERSION"))
		}
	}
	packages, err := s.consume(ctx, filepath.Join(dir, "consumer"), slices.Concat(steps...))
	if err != nil {
		return err
	}
	fmt.Fprintf(out,
		"a program outside the tree builds with all %d packages, pauses a call and resumes it\n",
		packages)
	return warn(ctx, r, commit, out)
}

// consume writes the program of a user who has every released module, with all
// packages that a user may import. It returns how many these are.
func (s *stage) consume(
	ctx context.Context, dir string, modules []module,
) (packages int, err error) {
	code, err := filepath.Glob(filepath.Join(s.tree, filepath.FromSlash(program), "*.go"))
	if err != nil || len(code) == 0 {
		return 0, fmt.Errorf("no program in %s: %w", program, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	for _, name := range code {
		text, err := os.ReadFile(name)
		if err != nil {
			return 0, err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o600); err != nil {
			return 0, err
		}
	}
	goMod, imports := "module example.com/consumer\n\ngo 1.26.0\n\n", "package main\n\nimport (\n"
	for _, m := range modules {
		goMod += fmt.Sprintf("require %s %s\n", m.path, s.version)
		public, err := s.publicPackages(ctx, m)
		if err != nil {
			return 0, err
		}
		for _, p := range public {
			imports += fmt.Sprintf("\t_ %q\n", p)
		}
		packages += len(public)
	}
	for name, text := range map[string]string{"go.mod": goMod, "imports.go": imports + ")\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return 0, err
		}
	}
	for _, args := range [][]string{{"mod", "tidy"}, {"vet", "./..."}} {
		if _, err := outputWith(ctx, dir, s.env, "go", args...); err != nil {
			return 0, err
		}
	}
	printed, err := outputWith(ctx, dir, s.env, "go", "run", ".")
	if err != nil {
		return 0, err
	}
	if !strings.HasSuffix(printed, said) {
		return 0, fmt.Errorf("the program prints\n%s\nand not %q at its end", printed, said)
	}
	return packages, s.isUsed(ctx, dir, modules)
}

// publicPackages lists the packages of a staged module that a user may import.
func (s *stage) publicPackages(ctx context.Context, m module) ([]string, error) {
	dir := filepath.Join(s.tree, filepath.FromSlash(m.dir))
	list, err := outputWith(ctx, dir, s.env, "go", "list", "-f",
		`{{if and .GoFiles (ne .Name "main")}}{{.ImportPath}}{{end}}`, "./...")
	if err != nil {
		return nil, err
	}
	public := slices.DeleteFunc(strings.Fields(list), func(p string) bool {
		return slices.Contains(strings.Split(p, "/"), "internal")
	})
	if len(public) == 0 {
		return nil, fmt.Errorf("%s has no package for users", m.path)
	}
	return public, nil
}

// isUsed returns an error unless the program was built with the staged version
// of each module, and with none of the work tree.
func (s *stage) isUsed(ctx context.Context, dir string, modules []module) error {
	list, err := outputWith(ctx, dir, s.env, "go", "list", "-m", "all")
	if err != nil {
		return err
	}
	lines := strings.Split(list, "\n")
	for _, m := range modules {
		if want := m.path + " " + s.version; !slices.Contains(lines, want) {
			return fmt.Errorf("the program is not built with %s, but with\n%s", want, list)
		}
	}
	return nil
}

// warn prints what the check has not seen.
func warn(ctx context.Context, r *repo, commit string, out io.Writer) error {
	changed, err := output(ctx, r.root, "git", "status", "--porcelain")
	if err == nil && changed != "" {
		fmt.Fprintf(out, "%d files differ from %s: they were not checked\n",
			1+strings.Count(changed, "\n"), commit)
	}
	return err
}
