package session_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCommentsNameTheFields: go doc shows no fields of an alias, so its comment
// is where a reader finds them.
func TestCommentsNameTheFields(t *testing.T) {
	core, aliases := typesOf(t, "../internal/session"), typesOf(t, ".")
	checked := 0
	for name, alias := range aliases {
		from, ok := alias.spec.Type.(*ast.SelectorExpr)
		if !ok {
			continue
		}
		s, ok := core[from.Sel.Name].spec.Type.(*ast.StructType)
		if !ok {
			continue // a string, say
		}
		checked++
		for _, f := range s.Fields.List {
			for _, field := range f.Names {
				word := regexp.MustCompile(`\b` + field.Name + `\b`)
				if field.IsExported() && !word.MatchString(alias.comment) {
					t.Errorf("the comment of session.%s does not name its field %s", name, field.Name)
				}
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d aliases of structs are found", checked)
	}
}

// declared is a type, and the comment before it.
type declared struct {
	spec    *ast.TypeSpec
	comment string
}

// typesOf returns the exported types of the package in a folder.
func typesOf(t *testing.T, dir string) map[string]declared {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]declared{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(all, typesIn(file))
	}
	return all
}

func typesIn(file *ast.File) map[string]declared {
	all := map[string]declared{}
	for _, d := range file.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.TYPE {
			continue
		}
		for _, s := range group.Specs {
			spec := s.(*ast.TypeSpec)
			comment := spec.Doc.Text()
			if !group.Lparen.IsValid() {
				comment = group.Doc.Text()
			}
			if spec.Name.IsExported() {
				all[spec.Name.Name] = declared{spec, comment}
			}
		}
	}
	return all
}
