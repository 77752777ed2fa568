package tool

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// What an error quotes of what was sent is bounded, in bytes: otherwise each of
// its faults would tell as much as was sent.
const (
	maxExcerpt = 60  // of a value
	maxStep    = 64  // of a step of a path: as long as providers let names of properties be
	maxPath    = 512 // of a path
	maxWords   = 800 // of what code of others says about a value
)

// clip cuts a text short for an error. What is cut off is marked.
func clip(s string) string { return clipTo(s, maxExcerpt) }

func clipTo(s string, most int) string {
	if len(s) <= most {
		return strings.ToValidUTF8(s, "\ufffd")
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// inBrief takes the middle out of a text of others that is long: they may quote
// all that was sent, before they say what is wrong with it.
func inBrief(s string) string {
	if len(s) <= maxWords {
		return strings.ToValidUTF8(s, "\ufffd")
	}
	const half = maxWords / 2
	return strings.ToValidUTF8(s[:half], "") + " ... " + strings.ToValidUTF8(s[len(s)-half:], "")
}

// pointer is a path as a JSON Pointer. Long steps are cut short, and of a long
// path the middle is left out.
func pointer(path []string) string {
	var b strings.Builder
	for _, step := range path {
		b.WriteString("/" + escapePointer(clipTo(step, maxStep)))
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

// inward is a path that was noted from the inside out.
func inward(path []string) []string {
	path = slices.Clone(path)
	slices.Reverse(path)
	return path
}

// excerpt quotes the beginning of a text.
func excerpt(s string) string { return strconv.Quote(clip(s)) }

// shown is a value of a tree as JSON, cut short. What is cut off costs nothing.
func shown(v any) string { return clip(string(appendShort(nil, v))) }

// appendShort writes v until it is longer than an excerpt.
func appendShort(b []byte, v any) []byte {
	if len(b) > maxExcerpt {
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
		if len(v) > 2*maxExcerpt {
			v = v[:2*maxExcerpt]
		}
		return append(b, Text(v)...)
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			if b = appendShort(b, e); len(b) > maxExcerpt {
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
		if b = appendShort(b, v[k]); len(b) > maxExcerpt {
			return b
		}
	}
	return append(b, '}')
}

// firstNames are the first names of an object, in order: as many as an excerpt
// has room for.
func firstNames(v map[string]any) []string {
	const most = maxExcerpt / 4
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
