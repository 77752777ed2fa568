package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/zip"
)

// files are those of a small repository, by their paths in it.
type files map[string]string

// with returns a copy in which some files differ.
func (f files) with(others files) files {
	all := maps.Clone(f)
	maps.Copy(all, others)
	return all
}

const corePath = "example.com/core"

// small is a repository that can be released: a core, a module that requires
// it, and one that isn't released.
var small = files{
	"go.work":      "go 1.26.0\n\nuse (\n\t.\n\t./examples/show\n\t./provider/a\n)\n",
	"go.mod":       "module " + corePath + "\n\ngo 1.26.0\n",
	"core.go":      "package core\n\nconst Name = \"core\"\n",
	"CHANGELOG.md": "# Changelog\n\n## Unreleased\n",
	"internal/consumer/main.go": "package main\n\nimport (\n\t\"fmt\"\n\n\t\"" +
		corePath + "\"\n)\n\n" +
		"func main() {\n\tif core.Name == \"core\" {\n\t\tfmt.Println(\"released\")\n\t}\n}\n",
	"provider/a/go.mod": "module " + corePath + "/provider/a\n\ngo 1.26.0\n\nreplace " + corePath +
		" => ../..\n\nrequire " + corePath + " v0.0.0\n",
	"provider/a/a.go": "package a\n\nimport \"" + corePath + "\"\n\nconst Name = core.Name\n",

	"examples/show/go.mod": "module " + corePath + "/examples/show\n\ngo 1.26.0\n\nreplace " +
		corePath + " => ../..\n\nrequire " + corePath + " v0.0.0\n",
	"examples/show/a.go": "package show\n\nimport \"" + corePath + "\"\n\nconst Name = core.Name\n",
}

// commit returns a new repository of them.
func (f files) commit(t *testing.T) *repo {
	t.Helper()
	dir := t.TempDir()
	for name, text := range f {
		to := filepath.Join(dir, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(to), 0o755))
		must(t, os.WriteFile(to, []byte(text), 0o600))
	}
	for _, args := range [][]string{
		{"init", "-q"}, {"add", "-A"},
		{"-c", "user.name=ada", "-c", "user.email=ada@example.com", "commit", "-q", "-m", "all"},
	} {
		_, err := output(t.Context(), dir, "git", args...)
		must(t, err)
	}
	r, err := openRepo(t.Context(), dir)
	must(t, err)
	return r
}

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		with files
		want string // in the error; empty: there is none
	}{
		"as it should be": {},
		"a name that isn't a file's everywhere": {
			files{"testdata/nul": ""}, `testdata/nul: malformed file path "testdata/nul"`,
		},
		"a package of a module that isn't released": {
			files{"provider/a/a.go": "package a\n\nimport \"" + corePath +
				"/examples/show\"\n\nconst Name = show.Name\n"}, "examples/show",
		},
		"a replacement that users don't have": {
			files{"go.mod": small["go.mod"] + "\nreplace example.com/b => ./b\n"},
			"it replaces example.com/b",
		},
		"a program that doesn't come to its end": {
			files{"core.go": "package core\n\nconst Name = \"other\"\n"},
			`not "released" at its end`,
		},
		"an internal package of the core in a user's program": {
			files{"internal/consumer/main.go": "package main\n\nimport _ \"" + corePath +
				"/internal/b\"\n\nfunc main() {}\n", "internal/b/b.go": "package b\n"},
			"internal",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			err := check(t.Context(), small.with(c.with).commit(t), "HEAD", &out)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("the check says %v, and not %q", err, c.want)
			case c.want == "" &&
				!strings.Contains(out.String(),
					corePath+"/provider/a: can be tagged as provider/a/VERSION"):
				t.Errorf("it says\n%s", &out)
			}
		})
	}
}

// The check does not see changes that aren't committed, and prints that.
func TestCheckTellsOfChanges(t *testing.T) {
	t.Parallel()
	r := small.commit(t)
	must(t, os.WriteFile(filepath.Join(r.root, "core.go"), []byte("package"), 0o600))
	var out strings.Builder
	must(t, check(t.Context(), r, "HEAD", &out))
	if !strings.Contains(out.String(), "1 files differ from HEAD") {
		t.Errorf("it says\n%s", &out)
	}
}

// The cache of modules is left as it was.
func TestCheckLeavesNothingBehind(t *testing.T) {
	r := small.commit(t)
	dir := t.TempDir()
	s, err := newStage(t.Context(), r, "HEAD", "v0.0.0-behind.1", dir)
	must(t, err)
	steps, err := r.released()
	must(t, err)
	all := slices.Concat(steps...)
	for _, m := range all {
		must(t, s.add(t.Context(), m))
	}
	_, err = s.consume(t.Context(), filepath.Join(dir, "consumer"), all)
	must(t, err)
	cache, err := output(t.Context(), "", "go", "env", "GOMODCACHE")
	must(t, err)
	unpacked := filepath.Join(cache, filepath.FromSlash(corePath)+"@"+s.version)
	if _, err := os.Stat(unpacked); err != nil {
		t.Fatalf("the program wasn't built by the cache: %v", err)
	}
	must(t, s.forget(t.Context(), all))
	own, err := filepath.Glob(filepath.Join(
		cache, "cache", "download", filepath.FromSlash(corePath), "@v", s.version+"*"))
	must(t, err)
	if _, err := os.Stat(unpacked); err == nil || len(own) > 0 {
		t.Errorf("it is unpacked: %v; still there are %q", err == nil, own)
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	r := small.commit(t)
	var out strings.Builder
	must(t, plan(t.Context(), r, "v0.1.0", &out))
	const want = `# This changes nothing. These commands release v0.1.0; each may be read before it is run.

# Before
# CHANGELOG.md has no section "## 0.1.0 (date)" yet: name what stands under Unreleased so, and commit.
.ci/run # which has the release check in it

# 1. example.com/core
git tag -a v0.1.0 -m "v0.1.0"
git push origin v0.1.0

# 2. example.com/core/provider/a
(cd provider/a && go mod edit -dropreplace=example.com/core -require=example.com/core@v0.1.0 && GOWORK=off GOPROXY=direct go mod tidy)
git commit -am "Modules that require v0.1.0"
git tag -a provider/a/v0.1.0 -m "provider/a/v0.1.0"
git push origin provider/a/v0.1.0

# 3. Development goes on with the core of the checkout: the edits of go.mod are taken back.
git revert --no-edit HEAD~1..HEAD
git push origin HEAD
`
	if out.String() != want {
		t.Errorf("it says\n%s", &out)
	}
	_, err := output(t.Context(), r.root, "git", "tag", "v0.1.0")
	must(t, err)
	for version, want := range map[string]string{
		"v0.1.0": "there already", "v0.0.9": "isn't older", "0.2.0": "no version",
		"v0.2": "no version", "v2.0.0": "/v2",
	} {
		if err := plan(t.Context(), r, version, &out); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: it says %v, and not %q", version, err, want)
		}
	}
	must(t, plan(t.Context(), r, "v0.2.0", &out))
}

// Every file of this repository may stand in a module's zip.
func TestEveryFileFitsIntoARelease(t *testing.T) {
	t.Parallel()
	r, err := openRepo(t.Context(), ".")
	must(t, err)
	list, err := output(t.Context(), r.root, "git", "ls-files", "-z", "--cached", "--others",
		"--exclude-standard")
	must(t, err)
	for _, m := range r.work {
		var inside []zip.File
		for _, name := range strings.Split(strings.TrimSuffix(list, "\x00"), "\x00") {
			within, ok := strings.CutPrefix(name, m.dir+"/")
			if m.dir == "." {
				within, ok = name, true
			}
			// A file that is not there is about to be removed.
			if _, err := os.Lstat(filepath.Join(r.root, name)); ok && err == nil {
				inside = append(inside,
					onDisk{within, filepath.Join(r.root, filepath.FromSlash(name))})
			}
		}
		checked, err := zip.CheckFiles(inside)
		must(t, err)
		if err := checked.Err(); err != nil || len(checked.Valid) == 0 {
			t.Errorf("%s has %d files that fit: %v", m.path, len(checked.Valid), err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
