package handles

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/tool/misfit"
)

// faults are what is wrong with a call.
type faults []misfit.Fault

// add adds a fault of what stands at a path; got is nil where nothing does.
func (f *faults) add(path []string, rule string, got json.RawMessage, format string, args ...any) {
	fault := misfit.Fault{Path: schema.Pointer(path), Rule: rule,
		Message: fmt.Sprintf(format, args...)}
	if got != nil {
		fault.Value = excerpt.Of(string(got))
	}
	*f = append(*f, fault)
}

// unknown adds the fault of a property of an unknown name.
func (f *faults) unknown(name string, known []string) {
	words := fmt.Sprintf("there is no property %q", excerpt.Of(name))
	if near, ok := schema.Nearest(name, known); ok {
		words += fmt.Sprintf("; did you mean %q?", near)
	}
	f.add([]string{name}, "additionalProperties", nil, "%s; the properties are %s", words,
		strings.Join(known, ", "))
}

// err returns the faults as a *misfit.Error; nil: there are none.
func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	slices.SortStableFunc(f, func(a, b misfit.Fault) int { return cmp.Compare(a.Path, b.Path) })
	const most = 8
	told := f[:min(len(f), most)]
	return &misfit.Error{Faults: told, More: len(f) - len(told)}
}
