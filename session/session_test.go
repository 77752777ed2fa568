package session_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// unseen are the errors of the core that no caller meets, and why.
var unseen = map[string]string{
	"ErrGoesOn":  "the driver takes it, and waits for the commit",
	"ErrUsedUp":  "it is the result of the call that asked for a child",
	"ErrTooDeep": "so is this",
	"ErrNotNow":  "Send tells why not: calls wait, or a drive is at work",

	"UndeliveredError": "the courier takes it, and tries again",
}

// TestEachErrorOfTheCoreIsShown: a refusal that a caller can't name is one
// that nothing tells apart from a failure.
func TestEachErrorOfTheCoreIsShown(t *testing.T) {
	core, public := errorsOf(t, "../internal/session"), errorsOf(t, ".")
	if len(core) < 30 {
		t.Fatalf("only %d errors found in the core", len(core))
	}
	for name := range core {
		if _, hidden := unseen[name]; !public[name] && !hidden {
			t.Errorf("session.%s is missing", name)
		}
	}
	for name := range public {
		if !core[name] {
			t.Errorf("session.%s is none of the core's", name)
		}
	}
}

// errorsOf is the exported errors of the package in a folder: sentinels, and
// types with facts.
func errorsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for name, o := range f.Scope.Objects {
			is := o.Kind == ast.Var && strings.HasPrefix(name, "Err") ||
				o.Kind == ast.Typ && strings.HasSuffix(name, "Error")
			if is && ast.IsExported(name) {
				found[name] = true
			}
		}
	}
	return found
}

// TestAStoreIsChecked: what a user holds is enough to look after a store.
func TestAStoreIsChecked(t *testing.T) {
	store := session.NewStore(kvstore.NewMemory(), nil)
	ag, err := agent.New(agent.Config{Model: fakellm.New(fakellm.Says("Hello."))})
	if err != nil {
		t.Fatal(err)
	}
	rn, err := runner.New(ag, store, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range rn.Run(t.Context(), "ada", "chat-1", llm.UserText("Hi."), nil) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for p, err := range store.Check(t.Context()) {
		t.Errorf("Check: %v, %v", p, err)
	}
	if _, err := store.Sweep(t.Context(), nil); err != nil {
		t.Errorf("Sweep: %v", err)
	}
	if keys, err := store.TokenKeys(t.Context()); err != nil || len(keys) != 1 {
		t.Errorf("TokenKeys: %v, %v", keys, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.Sweep(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a sweep that is cut off: %v", err)
	}
}
