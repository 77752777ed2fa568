package fermata_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The glossary stands in the package's comment, for those who read code, and in
// a page, for those who read docs. Both have the same words.
func TestWordsInPages(t *testing.T) {
	comment, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("docs/words.md")
	if err != nil {
		t.Fatal(err)
	}
	_, glossary, found := strings.Cut(string(comment), "// # Words\n")
	glossary, _, end := strings.Cut(glossary, "package fermata\n")
	if !found || !end {
		t.Fatal("doc.go has no glossary")
	}
	want := words(strings.ReplaceAll(glossary, "//", ""))
	got := words(strings.TrimPrefix(string(page), "# Words\n"))
	if len(want) < 200 {
		t.Errorf("the glossary has %d words", len(want))
	}
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			t.Fatalf("doc.go has %q where docs/words.md has %q", want[i:min(i+8, len(want))],
				got[i:min(i+8, len(got))])
		}
	}
	if len(want) != len(got) {
		t.Errorf("doc.go has %d words, docs/words.md has %d", len(want), len(got))
	}
}

// words returns a text's words without what sets it as a list or a heading.
func words(text string) (all []string) {
	for _, word := range strings.Fields(text) {
		if word = strings.TrimSuffix(word, ":"); word != "-" && word != "##" {
			all = append(all, word)
		}
	}
	return all
}

// Each exported name that a page gives with one of our packages is there, and so
// is each method of a runner, called rn.
func TestNamesInPages(t *testing.T) {
	public, all := exported(t)
	code := regexp.MustCompile("(?ms)^```.*?^```$")
	span := regexp.MustCompile("`[^`\n]+`")
	name := regexp.MustCompile(`\b([a-z]+)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)
	seen := 0
	for _, page := range append(pages(t), "CHANGELOG.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		known := public
		if page == "docs/design.md" || page == "docs/developing.md" {
			known = all // these are about what is internal, too
		}
		for _, s := range span.FindAllString(code.ReplaceAllString(string(text), ""), -1) {
			for _, m := range name.FindAllStringSubmatch(s, -1) {
				if m[1] == "rn" {
					m = []string{m[0], "runner", "Runner", m[2]}
				}
				if known[m[1]] == nil {
					continue // a package of others, or a variable
				}
				seen++
				// A type's fields may stand with the internal one that it is.
				members := all[m[1]][m[2]]
				if known[m[1]][m[2]] == nil ||
					m[3] != "" && len(members) > 0 && !members[m[3]] {
					t.Errorf("%s names %s, which isn't there", page, m[0])
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d names were found", seen)
	}
}

// names are, by package, its exported names, each with the fields and methods of
// a type.
type names map[string]map[string]map[string]bool

// exported returns the names of the packages that a user may import, and those
// of all.
func exported(t *testing.T) (public, all names) {
	t.Helper()
	public, all = names{}, names{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all.add(file)
		if !strings.Contains("/"+path, "/internal/") {
			public.add(file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return public, all
}

func (n names) add(file *ast.File) {
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				n.members(file.Name.Name, decl.Name.Name)
				continue
			}
			n.members(file.Name.Name, receiver(decl.Recv.List[0].Type))[decl.Name.Name] = true
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				n.addSpec(file.Name.Name, spec)
			}
		}
	}
}

func (n names) addSpec(pkg string, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			n.members(pkg, name.Name)
		}
	case *ast.TypeSpec:
		members := n.members(pkg, spec.Name.Name)
		var fields *ast.FieldList
		switch typ := spec.Type.(type) {
		case *ast.StructType:
			fields = typ.Fields
		case *ast.InterfaceType:
			fields = typ.Methods
		default:
			return
		}
		for _, field := range fields.List {
			for _, name := range field.Names {
				members[name.Name] = true
			}
		}
	}
}

// members returns the set of a name's fields and methods, which is empty at
// first.
func (n names) members(pkg, name string) map[string]bool {
	if n[pkg] == nil {
		n[pkg] = map[string]map[string]bool{}
	}
	if n[pkg][name] == nil {
		n[pkg][name] = map[string]bool{}
	}
	return n[pkg][name]
}

// receiver returns the name of a receiver's type.
func receiver(typ ast.Expr) string {
	switch typ := typ.(type) {
	case *ast.StarExpr:
		return receiver(typ.X)
	case *ast.IndexExpr:
		return receiver(typ.X)
	case *ast.IndexListExpr:
		return receiver(typ.X)
	case *ast.Ident:
		return typ.Name
	}
	return ""
}
