package gotype

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// field is a field of a struct as encoding/json sees it.
type field struct {
	name   string // in JSON
	goName string // the path in Go, for errors
	typ    reflect.Type
	tag    reflect.StructTag
	index  []int
	tagged bool // the name is from the tag
	omit   bool // omitempty or omitzero
	quoted bool // the option "string" is given and applies
	// loose: it is promoted from an embedded pointer, so that the whole may be
	// absent.
	loose bool
	// stuck: that pointer is to an unexported struct. encoding/json can't set
	// it.
	stuck bool
}

// jsonFields lists the fields that encoding/json reads and writes, in the order
// of the struct: by its rules, those of package documentation "encoding/json"
// for Marshal, on tags, embedding and conflicts of names.
func jsonFields(t reflect.Type) []field {
	var found []field
	level := []field{{typ: t}}
	visited := map[reflect.Type]bool{}
	times := map[reflect.Type]int{} // how often a struct is embedded on this level
	for len(level) > 0 {
		var next []field
		nextTimes := map[reflect.Type]int{}
		for _, outer := range level {
			if visited[outer.typ] {
				continue
			}
			visited[outer.typ] = true
			for i := range outer.typ.NumField() {
				f, embedded, ok := readField(outer, i)
				switch {
				case !ok:
				case embedded:
					if nextTimes[f.typ]++; nextTimes[f.typ] == 1 {
						next = append(next, f)
					}
				default:
					found = append(found, f)
					if times[outer.typ] > 1 {
						found = append(found, f) // twice at one depth: they cancel each other out
					}
				}
			}
		}
		level, times = next, nextTimes
	}
	return dominant(found)
}

// readField returns the i-th field of a struct. Embedded is true if its own
// fields are promoted; f.typ is then the struct.
func readField(outer field, i int) (f field, embedded, ok bool) {
	sf := outer.typ.Field(i)
	base := sf.Type
	if base.Name() == "" && base.Kind() == reflect.Pointer {
		base = base.Elem()
	}
	isStruct := base.Kind() == reflect.Struct
	if !sf.IsExported() && (!sf.Anonymous || !isStruct) {
		return field{}, false, false
	}
	tag := sf.Tag.Get("json")
	if tag == "-" {
		return field{}, false, false
	}
	name, options, _ := strings.Cut(tag, ",")
	if !validName(name) {
		name = ""
	}
	f = field{
		name: name, goName: sf.Name, typ: sf.Type, tag: sf.Tag, tagged: name != "",
		index: append(slices.Clone(outer.index), i), loose: outer.loose, stuck: outer.stuck,
	}
	if outer.goName != "" {
		f.goName = outer.goName + "." + sf.Name
	}
	for o := range strings.SplitSeq(options, ",") {
		f.omit = f.omit || o == "omitempty" || o == "omitzero"
		f.quoted = f.quoted || o == "string" && isScalar(base.Kind())
	}
	if name == "" && sf.Anonymous && isStruct {
		if sf.Type.Kind() == reflect.Pointer {
			f.loose, f.stuck = true, f.stuck || !sf.IsExported()
		}
		f.typ = base
		return f, true, true
	}
	if name == "" {
		f.name = sf.Name
	}
	return f, false, true
}

func isScalar(k reflect.Kind) bool {
	return reflect.Bool <= k && k <= reflect.Float64 || k == reflect.String
}

// validName reports whether encoding/json takes a name from a tag.
func validName(s string) bool {
	for _, c := range s {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", c) && !unicode.IsLetter(c) &&
			!unicode.IsDigit(c) {
			return false
		}
	}
	return s != ""
}

// dominant returns, of the fields of one name, the one that Go's embedding and
// the tags prefer, if there is one.
func dominant(all []field) []field {
	byName := map[string][]field{}
	for _, f := range all {
		byName[f.name] = append(byName[f.name], f)
	}
	var kept []field
	for _, same := range byName {
		slices.SortStableFunc(same, func(a, b field) int {
			return cmp.Or(cmp.Compare(len(a.index), len(b.index)), -compareBool(a.tagged, b.tagged))
		})
		if len(same) == 1 || len(same[0].index) != len(same[1].index) ||
			same[0].tagged != same[1].tagged {
			kept = append(kept, same[0])
		}
	}
	slices.SortFunc(kept, func(a, b field) int { return slices.Compare(a.index, b.index) })
	return kept
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
