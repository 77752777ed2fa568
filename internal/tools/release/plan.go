package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// plan prints how to release a version: one tag for each module, all with the
// same number, the core first.
func plan(ctx context.Context, r *repo, version string, out io.Writer) error {
	if err := r.sound(ctx, version); err != nil {
		return err
	}
	steps, err := r.released()
	if err != nil {
		return err
	}
	fmt.Fprintf(out,
		"# This changes nothing. These commands release %s; each may be read before it is run.\n",
		version)
	if err := r.before(ctx, version, out); err != nil {
		return err
	}
	for i, step := range steps {
		fmt.Fprintf(out, "\n# %d. %s\n", i+1, names(step))
		if i > 0 {
			for _, m := range step {
				fmt.Fprintf(out, "(cd %s && %s && GOWORK=off GOPROXY=direct go mod tidy)\n", m.dir,
					r.edit(m, version))
			}
			fmt.Fprintf(out, "git commit -am %q\n", fmt.Sprintf("Modules that require %s", version))
		}
		for _, m := range step {
			fmt.Fprintf(out, "git tag -a %s -m %q\n", m.tag(version), m.tag(version))
		}
		var tags []string
		for _, m := range step {
			tags = append(tags, m.tag(version))
		}
		fmt.Fprintf(out, "git push origin %s\n", strings.Join(tags, " "))
	}
	fmt.Fprintf(out,
		"\n# %d. Development goes on with the core of the checkout: the edits of go.mod are "+
			"taken back.\n", len(steps)+1)
	if n := len(steps) - 1; n > 0 {
		fmt.Fprintf(out, "git revert --no-edit HEAD~%d..HEAD\n", n)
	}
	fmt.Fprintln(out, "git push origin HEAD")
	return nil
}

// edit returns the command that makes a module require a version of the others.
func (r *repo) edit(m module, version string) string {
	edit := "go mod edit"
	for _, p := range m.requires {
		edit += fmt.Sprintf(" -dropreplace=%s -require=%s@%s", p, p, version)
	}
	return edit
}

// sound returns the error of a version that can't be released.
func (r *repo) sound(ctx context.Context, version string) error {
	switch {
	case !semver.IsValid(version) || semver.Canonical(version) != version:
		return fmt.Errorf("%q is no version such as v0.3.0 or v1.0.0-rc.1", version)
	case semver.Compare(semver.Major(version), "v1") > 0:
		return fmt.Errorf("%s needs module paths that end in /%s, and the paths of today don't",
			version, semver.Major(version))
	}
	tags, err := output(ctx, r.root, "git", "tag", "--list", "v*")
	if err != nil {
		return err
	}
	for _, tag := range strings.Fields(tags) {
		if semver.IsValid(tag) && semver.Compare(tag, version) >= 0 {
			return fmt.Errorf("%s is there already, and isn't older than %s", tag, version)
		}
	}
	return nil
}

// before prints the steps before the first tag.
func (r *repo) before(ctx context.Context, version string, out io.Writer) error {
	log, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	changed, err := output(ctx, r.root, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "\n# Before")
	if !slices.ContainsFunc(strings.Split(string(log), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "## "+strings.TrimPrefix(version, "v")+" ")
	}) {
		fmt.Fprintf(out,
			"# CHANGELOG.md has no section \"## %s (date)\" yet: name what stands under "+
				"Unreleased so, and commit.\n",
			strings.TrimPrefix(version, "v"))
	}
	if changed != "" {
		fmt.Fprintln(out, "# The work tree has changes: commit them, or put them away.")
	}
	fmt.Fprintln(out, ".ci/run # which has the release check in it")
	return nil
}

func names(modules []module) string {
	var all []string
	for _, m := range modules {
		all = append(all, m.path)
	}
	return strings.Join(all, ", ")
}
