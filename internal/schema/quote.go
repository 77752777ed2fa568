package schema

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/modeltext"
)

// The quoted part of a path is bounded, in bytes, as that of a value is.
const (
	maxStep = 64  // of a step of a path: as long as providers let names of properties be
	maxPath = 512 // of a path
)

// Pointer returns a path as a JSON Pointer (RFC 6901). Long steps are cut
// short, and of a long path the middle is left out.
func Pointer(path []string) string {
	var b strings.Builder
	for _, step := range path {
		b.WriteString("/" + escapePointer(excerpt.To(step, maxStep)))
	}
	all := b.String()
	if len(all) <= maxPath {
		return all
	}
	const gap = "/..."
	const half = (maxPath - len(gap)) / 2 // more than the longest step
	end := all[len(all)-half:]
	return all[:strings.LastIndexByte(all[:half], '/')] + gap + end[strings.IndexByte(end, '/'):]
}

// shown returns a value of a tree as JSON, cut short. The part that is cut off
// costs nothing.
func shown(v any) string { return excerpt.Of(string(appendShort(nil, v))) }

// appendShort writes v until it is longer than an excerpt.
func appendShort(b []byte, v any) []byte {
	if len(b) > excerpt.Most {
		return b
	}
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case json.Number:
		return append(b, v...)
	case string:
		if len(v) > 2*excerpt.Most {
			v = v[:2*excerpt.Most]
		}
		text, err := jsontree.Encode(modeltext.CleanString(v))
		if err != nil { // a string always encodes
			return b
		}
		return append(b, text...)
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			if b = appendShort(b, e); len(b) > excerpt.Most {
				return b
			}
		}
		return append(b, ']')
	case map[string]any:
		return appendShortObject(b, v)
	}
	return b
}

func appendShortObject(b []byte, v map[string]any) []byte {
	b = append(b, '{')
	for i, k := range firstNames(v) { // an error has the same words each time
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendShort(b, k), ':')
		if b = appendShort(b, v[k]); len(b) > excerpt.Most {
			return b
		}
	}
	return append(b, '}')
}

// firstNames returns the first names of an object, in order: as many as an
// excerpt has room for.
func firstNames(v map[string]any) []string {
	const most = excerpt.Most / 4
	names := make([]string, 0, most+1)
	for k := range v {
		if len(names) == most && k > names[most-1] {
			continue
		}
		at, _ := slices.BinarySearch(names, k)
		names = slices.Insert(names, at, k)[:min(len(names)+1, most)]
	}
	return names
}

func escapePointer(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}
