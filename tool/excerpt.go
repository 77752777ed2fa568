package tool

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

const maxExcerpt = 60 // bytes of a value that an error quotes

// clip cuts a text short for an error. What is cut off is marked.
func clip(s string) string {
	if len(s) <= maxExcerpt {
		return strings.ToValidUTF8(s, "\ufffd")
	}
	return strings.ToValidUTF8(s[:maxExcerpt], "") + "..."
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
