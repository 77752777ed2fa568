package fermata_test

import (
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/fermata-ai/fermata"

// mayImport is the direction of imports: which packages of the module each
// package may import. Tests are free.
var mayImport = map[string][]string{
	"llm":                 {"internal/modeltext", "internal/strictjson"},
	"internal/jsontree":   {"internal/strictjson"},
	"internal/modeltext":  {"internal/excerpt", "internal/strictjson"},
	"internal/recent":     {},
	"internal/zoned":      {"internal/excerpt"},
	"internal/scribble":   {}, // of tests
	"internal/usererr":    {},
	"internal/excerpt":    {},
	"internal/strictjson": {"internal/excerpt"},
	"llm/wire": {"internal/excerpt", "internal/jsontree", "internal/modeltext",
		"internal/strictjson", "llm"},
	"tool": {"internal/excerpt", "internal/gotype", "internal/hold",
		"internal/modeltext", "internal/schema", "internal/strictjson", "internal/usererr", "llm"},
	"event":       {"internal/strictjson", "tool", "llm"},
	"interceptor": {"event", "tool", "llm"},
	"agent": {"internal/agentcore", "internal/handles", "internal/hold", "internal/modeltext",
		"internal/toolbox", "interceptor", "tool", "llm"},
	"schedule": {"internal/excerpt", "internal/schema", "internal/strictjson", "internal/zoned",
		"runner", "session", "agent", "event", "tool", "llm"},
	"tool/agenttool": {"agent", "internal/modeltext", "llm", "tool"},
	"tool/retry":     {"internal/excerpt", "tool"},
	"tool/ask":       {"internal/excerpt", "internal/jsontree", "internal/schema", "tool"},
	"tool/handle": {"internal/excerpt", "internal/handles", "internal/process", "internal/schema",
		"internal/usererr", "tool"},
	"tool/wait": {"agent", "internal/excerpt", "internal/waits", "internal/zoned", "llm",
		"tool", "workflow"},
	"internal/waits": {"internal/excerpt", "internal/handles", "internal/jsontree",
		"internal/schema", "internal/strictjson", "llm", "tool"},
	"internal/process": {"internal/strictjson"},
	"kvstore":          {},
	"kvstore/bolt":     {"kvstore"},
	"kvstore/faultkv":  {"kvstore"},
	"kvstore/kvtest":   {"kvstore", "kvstore/faultkv"},
	"internal/hold":    {},
	"internal/session": {"internal/excerpt", "internal/recent", "internal/schema",
		"internal/strictjson", "internal/toolbox", "kvstore", "event", "tool", "llm"},
	"session": {"internal/hold", "internal/session", "kvstore"},
	"runner": {"internal/agentcore", "internal/batch", "internal/handles", "internal/hold",
		"internal/modeltext", "internal/schema", "internal/session", "internal/strictjson",
		"internal/toolbox", "internal/usererr", "internal/waits", "internal/wide", "session",
		"agent", "interceptor",
		"kvstore", "event", "tool", "llm"},
	"internal/wide": {"internal/session", "internal/strictjson", "internal/usererr", "kvstore",
		"tool"},
	"fakellm":         {"internal/excerpt", "internal/modeltext", "llm"},
	"internal/form":   {"internal/jsontree", "internal/strictjson", "tool/misfit"},
	"internal/httpin": {},
	"httpapi": {"httpapi/internal/agui", "internal/gotype", "internal/httpin", "internal/schema",
		"internal/strictjson", "webhook", "runner", "session", "event", "tool", "llm"},
	"webhook": {"internal/form", "internal/httpin", "internal/schema", "runner", "session",
		"kvstore", "event", "tool", "tool/misfit", "llm"},
	"notify": {"internal/hold", "internal/session", "internal/usererr", "session", "webhook",
		"event", "tool"},
	"tool/misfit": {},
	"internal/schema": {"internal/excerpt", "internal/jsontree", "internal/modeltext",
		"internal/recent", "internal/strictjson", "tool/misfit"},
	"internal/gotype": {"internal/excerpt", "internal/jsontree", "internal/schema",
		"internal/strictjson", "tool/misfit"},
	"internal/toolbox": {"internal/excerpt", "internal/gotype", "internal/hold",
		"internal/jsontree", "internal/modeltext", "tool", "llm"},
	"internal/handles": {"internal/excerpt", "internal/jsontree", "internal/schema",
		"internal/strictjson", "llm", "tool", "tool/misfit"},
	"httpapi/internal/agui": {"internal/strictjson", "event", "tool", "llm"},
	"internal/batch":        {},
	"workflow": {"agent", "internal/excerpt", "internal/jsontree", "internal/schema",
		"internal/strictjson", "interceptor", "llm", "tool"},
	"internal/agentcore": {"internal/toolbox", "interceptor", "event", "tool", "llm"},
}

// ends are folders of packages that nothing else imports, and that may import
// everything.
var ends = []string{
	"bench", "examples", "fermatatest", "llm/llmtest",
	"internal/benchtable", "internal/consumer", "internal/fleet", "internal/histories",
	"internal/lives", "internal/prove",
	"internal/property", "internal/testlength", // of tests
}

// homes has the libraries that could be replaced, each with the one package, or
// the files, that import it.
var homes = map[string][]string{
	"go.etcd.io/bbolt":                   {"kvstore/bolt"},
	"github.com/go-json-experiment/json": {"internal/strictjson"},
	"github.com/invopop/jsonschema":      {"internal/gotype/schema.go"},
	"github.com/santhosh-tekuri/jsonschema": {"internal/schema/validate.go",
		"internal/schema/work.go"},
	"github.com/standard-webhooks/standard-webhooks": {"webhook/standard.go"},
	"github.com/cenkalti/backoff":                    {"tool/retry/retry.go"},
	"github.com/hashicorp/golang-lru":                {"internal/httpin/rates.go"},
	"github.com/robfig/cron":                         {"schedule/cron.go"},
}

func TestImportsPointOneWay(t *testing.T) {
	for _, p := range packages(t) {
		allowed, listed := mayImport[p.name]
		switch {
		case isEnd(p.name):
			continue
		case !listed:
			t.Errorf("package %s is not in the table: say what it may import", p.name)
		}
		for _, i := range p.Imports {
			if within, ours := strings.CutPrefix(i, module+"/"); ours &&
				!slices.Contains(allowed, within) {
				t.Errorf("%s imports %s, and must not", p.name, within)
			}
		}
	}
}

// Sets of tools reach the runner through tool.Host alone.
func TestNothingUnderToolKnowsTheRunner(t *testing.T) {
	for name, allowed := range mayImport {
		if name != "tool" && !strings.HasPrefix(name, "tool/") {
			continue
		}
		if slices.Contains(allowed, "runner") || slices.Contains(allowed, "session") {
			t.Errorf("the table lets %s import the runner, or sessions", name)
		}
	}
}

func TestLibrariesStandInOnePlace(t *testing.T) {
	found := map[string]bool{}
	for _, p := range packages(t) {
		for _, file := range p.GoFiles {
			for _, i := range imports(t, filepath.Join(p.Dir, file)) {
				for library, home := range homes {
					if i != library && !strings.HasPrefix(i, library+"/") {
						continue
					}
					found[library] = true
					if !slices.Contains(home, p.name) && !slices.Contains(home, p.name+"/"+file) {
						t.Errorf("%s/%s imports %s: only %s does", p.name, file, i, home)
					}
				}
			}
		}
	}
	for library, home := range homes {
		if !found[library] {
			t.Errorf("%s does not import %s any more: the table is out of date", home, library)
		}
	}
}

// A core that is cheap to depend on: adapters for providers, other engines and
// protocols are modules of their own.
func TestTheCoreDependsOnLittle(t *testing.T) {
	allowed := []string{
		"github.com/invopop/jsonschema", "github.com/santhosh-tekuri/jsonschema/v6",
		"go.etcd.io/bbolt", "github.com/rs/xid",
		"github.com/go-json-experiment/json", "github.com/tidwall/btree",
		"github.com/standard-webhooks/standard-webhooks/libraries", "golang.org/x/time",
		"github.com/hashicorp/golang-lru/v2", "github.com/cenkalti/backoff/v5",
		"github.com/robfig/cron/v3",
		"github.com/anishathalye/porcupine",
		"github.com/google/go-cmp", "pgregory.net/rapid", // in suites of tests
	}
	for _, p := range packages(t) {
		for _, i := range p.Imports {
			first, _, _ := strings.Cut(i, "/")
			outside := strings.Contains(first, ".") && !strings.HasPrefix(i, module)
			if outside && !slices.ContainsFunc(allowed, func(a string) bool {
				return i == a || strings.HasPrefix(i, a+"/")
			}) {
				t.Errorf("%s imports %s: a new dependency needs its reason in docs/design.md, "+
					"and a line here", p.name, i)
			}
		}
	}
}

// pkg is a package as go list sees it.
type pkg struct {
	ImportPath, Dir string
	Imports         []string
	GoFiles         []string

	name string // its path in the module
}

// packages lists those of the core module, but for the root, which has no code.
func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if name, inside := strings.CutPrefix(p.ImportPath, module+"/"); inside {
			p.name = name
			all = append(all, p)
		}
	}
}

func isEnd(name string) bool {
	return slices.ContainsFunc(ends, func(end string) bool {
		return name == end || strings.HasPrefix(name, end+"/")
	})
}

func imports(t *testing.T, file string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, i := range f.Imports {
		paths = append(paths, strings.Trim(i.Path.Value, `"`))
	}
	return paths
}

// Modules of their own are released by themselves: a package that the core
// keeps internal may be another one, or gone, in the version of the core that
// they get.
func TestNestedModulesImportNothingInternal(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "go.mod" || path == "go.mod" {
			return err
		}
		seen++
		own := filepath.ToSlash(filepath.Dir(path))
		if strings.HasPrefix(own, "internal/") {
			return nil // it is never released
		}
		isExample := strings.HasPrefix(own, "examples/")
		return filepath.WalkDir(filepath.Dir(path),
			func(path string, e fs.DirEntry, err error) error {
				if err != nil || e.IsDir() || filepath.Ext(path) != ".go" {
					return err
				}
				for _, i := range imports(t, path) {
					// An example isn't released, nor is the server within a test.
					rig := i == module+"/"+own || isExample && i == module+"/internal/etcdserver"
					if strings.HasPrefix(i, module+"/internal/") && !rig {
						t.Errorf("%s imports %s", path, i)
					}
				}
				return nil
			})
	})
	if err != nil || seen < 3 {
		t.Errorf("%d modules, %v", seen, err)
	}
}
