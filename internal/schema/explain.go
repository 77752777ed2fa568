package schema

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool/misfit"
)

const maxFaults = 8

// notStrict returns the fault of a text that is no strict JSON.
func notStrict(err error) *misfit.Error {
	f := misfit.Fault{Rule: "json", Message: "it is no valid JSON: " + err.Error()}
	if s, ok := errors.AsType[*strictjson.SyntaxError](err); ok {
		f.Path = Pointer(s.Path)
	}
	return &misfit.Error{Faults: []misfit.Fault{f}}
}

// explainer collects faults.
type explainer struct {
	value  any // the whole value
	schema any // the whole schema
	faults []found

	// encoded are the places where a string stands and an array or an object is
	// wanted.
	encoded [][]string
}

// found is a fault that an error may show. Its path is written out only then:
// all faults below a long key have that key.
type found struct {
	at            []string
	rule, message string
}

func (x *explainer) add(at []string, rule, format string, args ...any) {
	x.faults = append(x.faults, found{at, rule, fmt.Sprintf(format, args...)})
}

// result returns the faults that were collected, in an order that does not
// depend on that of Go's maps. It looks up the values of those alone that it
// shows: a value may be large.
func (x *explainer) result() *misfit.Error {
	order := func(a, b found) int {
		return cmp.Or(slices.Compare(a.at, b.at), cmp.Compare(a.rule, b.rule),
			cmp.Compare(a.message, b.message))
	}
	slices.SortFunc(x.faults, order)
	faults := slices.CompactFunc(x.faults, func(a, b found) bool { return order(a, b) == 0 })
	told := faults[:min(len(faults), maxFaults)]
	e := &misfit.Error{More: len(faults) - len(told)}
	for _, f := range told {
		fault := misfit.Fault{Path: Pointer(f.at), Rule: f.rule, Message: f.message}
		if v, ok := lookup(x.value, f.at); ok && f.rule != "additionalProperties" {
			fault.Value = shown(v)
		}
		e.Faults = append(e.Faults, fault)
	}
	return e
}

func (x *explainer) wrongType(at []string, schemaURL string, want []string) {
	if schema, ok := x.at(schemaURL).(map[string]any); ok && schema["$comment"] == NilComment {
		want = slices.DeleteFunc(slices.Clone(want), func(w string) bool { return w == "null" })
	}
	names := make([]string, len(want))
	for i, w := range want {
		names[i] = article(w)
	}
	if v, _ := lookup(x.value, at); isString(v) &&
		(slices.Contains(want, "array") || slices.Contains(want, "object")) {
		x.encoded = append(x.encoded, at)
	}
	x.add(at, "type", "must be %s%s", strings.Join(names, " or "), x.unit(at, schemaURL))
}

// unit returns what a number counts, where that is a duration, and how a
// written duration is given as that number.
func (x *explainer) unit(at []string, schemaURL string) string {
	schema, _ := x.at(schemaURL).(map[string]any)
	if d, _ := schema["description"].(string); !strings.Contains(d, Nanoseconds) {
		return ""
	}
	hint := ", " + InNanoseconds
	v, _ := lookup(x.value, at)
	text, _ := v.(string)
	if d, err := time.ParseDuration(text); err == nil {
		hint += fmt.Sprintf(" (%d is %v)", int64(d), d)
	}
	return hint
}

func isString(v any) bool {
	_, ok := v.(string)
	return ok
}

func article(typ string) string {
	switch typ {
	case "null":
		return typ
	case "array", "object", "integer":
		return "an " + typ
	}
	return "a " + typ
}

// missing adds a fault for each property that is required and absent, with its
// description.
func (x *explainer) missing(at []string, schemaURL string, names []string) {
	for _, name := range names {
		x.add(append(at[:len(at):len(at)], name), "required", "is required%s",
			x.about(schemaURL, name))
	}
}

// about returns the description of a property by its schema: " (a string: City
// name)".
func (x *explainer) about(schemaURL, name string) string {
	p, _ := lookup(x.at(schemaURL), []string{"properties", name})
	schema, _ := p.(map[string]any)
	var parts []string
	if typ, ok := schema["type"].(string); ok {
		parts = append(parts, article(typ))
	}
	if d, ok := schema["description"].(string); ok {
		parts = append(parts, excerpt.Of(d))
	}
	if parts == nil {
		return ""
	}
	return " (" + strings.Join(parts, ": ") + ")"
}

// unknown adds a fault for each property that the schema does not have, with
// the name that was likely meant.
func (x *explainer) unknown(at []string, schemaURL string, names []string) {
	p, _ := lookup(x.at(schemaURL), []string{"properties"})
	properties, _ := p.(map[string]any)
	known := make([]string, 0, len(properties))
	for k := range properties {
		known = append(known, k)
	}
	slices.Sort(known)
	slices.Sort(names)
	for i, name := range names {
		message := fmt.Sprintf("there is no property %q", excerpt.Of(name))
		if near, ok := Nearest(name, known); ok {
			message += fmt.Sprintf("; did you mean %q?", excerpt.Of(near))
		}
		switch {
		case i > 0: // the list once is enough
		case len(known) == 0:
			message += "; there are no properties"
		default:
			message += "; the properties are " + quoted(known)
		}
		x.add(append(at[:len(at):len(at)], name), "additionalProperties", "%s", message)
	}
}

// at returns the part of the schema that a URL of the validator names.
func (x *explainer) at(schemaURL string) any {
	_, fragment, _ := strings.Cut(schemaURL, "#")
	fragment, err := url.PathUnescape(fragment)
	if err != nil || fragment == "" {
		return x.schema
	}
	found, _ := lookup(x.schema, steps(fragment))
	return found
}

// steps returns the steps of a JSON Pointer.
func steps(pointer string) []string {
	if pointer == "" {
		return nil
	}
	path := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, p := range path {
		path[i] = strings.ReplaceAll(strings.ReplaceAll(p, "~1", "/"), "~0", "~")
	}
	return path
}

// list returns values of a schema in words.
func (x *explainer) list(values []any) string {
	const most = 40
	texts := make([]string, 0, min(len(values), most+1))
	for i, v := range values {
		if i == most {
			texts = append(texts, "...")
			break
		}
		texts = append(texts, shown(v))
	}
	return strings.Join(texts, ", ")
}

func quoted(names []string) string {
	values := make([]any, len(names))
	for i, n := range names {
		values[i] = n
	}
	return (&explainer{}).list(values)
}

// lookup returns a part of a tree as encoding/json makes it.
func lookup(v any, path []string) (any, bool) {
	for _, p := range path {
		switch t := v.(type) {
		case map[string]any:
			next, ok := t[p]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(p)
			if err != nil || i < 0 || i >= len(t) {
				return nil, false
			}
			v = t[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// formatExample returns an example of a format.
func formatExample(format string) string {
	example := map[string]string{
		"date-time": "2006-01-02T15:04:05Z", "date": "2006-01-02", "time": "15:04:05Z",
		"duration": "P1DT2H", "email": "ada@example.com", "uri": "https://example.com/a",
		"ipv4": "192.0.2.1", "ipv6": "2001:db8::1",
		"uuid": "2f1b3c4d-0000-4000-8000-000000000000",
	}[format]
	if example == "" {
		return ""
	}
	return ", such as " + example
}
