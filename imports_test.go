package fermata_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/fermata-ai/fermata"

// mayImport is which packages of the module a package may import. What isn't listed here may import anything.
var mayImport = map[string][]string{
	"llm":             {},
	"kvstore":         {},
	"tool":            {"llm"},
	"event":           {"tool", "llm"},
	"interceptor":     {"event", "tool", "llm"},
	"agent":           {"interceptor", "event", "tool", "llm"},
	"session":         {"kvstore", "event", "tool", "llm"},
	"runner":          {"session", "agent", "interceptor", "kvstore", "event", "tool", "llm"},
	"fakellm":         {"llm"},
	"webhook":         {"runner", "session", "kvstore", "tool"},
	"kvstore/bolt":    {"kvstore"},
	"kvstore/faultkv": {"kvstore"},
	"kvstore/kvtest":  {"kvstore", "kvstore/faultkv"},
}

// onlyIn is the one file, or package, that may import a library.
var onlyIn = map[string]string{
	"go.etcd.io/bbolt":                         "kvstore/bolt",
	"github.com/invopop/jsonschema":            "tool/schema.go",
	"github.com/santhosh-tekuri/jsonschema/v6": "tool/validate.go",
}

type pkg struct {
	ImportPath, Dir string
	Imports         []string
	GoFiles         []string
}

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
		all = append(all, p)
	}
}

func short(importPath string) string { return strings.TrimPrefix(importPath, module+"/") }

func TestImportsPointOneWay(t *testing.T) {
	for _, p := range packages(t) {
		allowed, listed := mayImport[short(p.ImportPath)]
		for _, i := range p.Imports {
			if listed && strings.HasPrefix(i, module+"/") && !slices.Contains(allowed, short(i)) {
				t.Errorf("%s must not import %s", short(p.ImportPath), short(i))
			}
			if home, ok := onlyIn[i]; ok && !strings.HasPrefix(home+"/", short(p.ImportPath)+"/") && short(p.ImportPath) != "bench" {
				t.Errorf("%s must not import %s: only %s does", short(p.ImportPath), i, home)
			}
		}
		if strings.HasPrefix(short(p.ImportPath), "tool") && (slices.Contains(p.Imports, module+"/runner") || slices.Contains(p.Imports, module+"/session")) {
			t.Errorf("%s must not know the runner nor sessions", p.ImportPath)
		}
	}
}

func TestLibrariesStandBehindOneFile(t *testing.T) {
	for lib, home := range onlyIn {
		if path.Ext(home) != ".go" {
			continue
		}
		out, err := exec.Command("grep", "-rlF", "--include=*.go", `"`+lib+`"`, "tool").Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range strings.Fields(string(out)) {
			if file != home && !strings.HasSuffix(file, "_test.go") {
				t.Errorf("%s imports %s: only %s does", file, lib, home)
			}
		}
	}
}
