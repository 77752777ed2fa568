package strictjson

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// few is how many names are compared each with each.
const few = 8

// names finds names of one object that are equal, or, unless exact, differ only
// by case.
type names struct {
	exact  bool
	first  [few]string
	n      int
	folded map[string]string // from few on: a folded name to the name
}

// alike returns an earlier name that equals s, or that encoding/json would take
// for it, and otherwise remembers s.
func (ns *names) alike(s string) (string, bool) {
	if ns.folded == nil && ns.n < few {
		for _, other := range ns.first[:ns.n] {
			if other == s || !ns.exact && strings.EqualFold(other, s) {
				return other, true
			}
		}
		ns.first[ns.n] = s
		ns.n++
		return "", false
	}
	if ns.folded == nil {
		ns.folded = make(map[string]string, 4*few)
		for _, other := range ns.first {
			ns.folded[ns.fold(other)] = other
		}
	}
	f := ns.fold(s)
	if other, ok := ns.folded[f]; ok {
		return other, true
	}
	ns.folded[f] = s
	return "", false
}

func (ns *names) fold(s string) string {
	if ns.exact {
		return s
	}
	return fold(s)
}

// fold maps two strings to one exactly if strings.EqualFold holds of them, as
// encoding/json compares field names: by simple folding, by which U+212A, the
// Kelvin sign, is a k.
func fold(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if 'a' <= c && c <= 'z' {
				c -= 'a' - 'A'
			}
			b = append(b, c)
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		b = utf8.AppendRune(b, foldRune(r))
		i += n
	}
	return string(b)
}

// foldRune returns the smallest rune that r folds to.
func foldRune(r rune) rune {
	for {
		next := unicode.SimpleFold(r)
		if next <= r {
			return next
		}
		r = next
	}
}

// Names finds names that encoding/json would take for one, since they are equal
// or differ only by case.
type Names struct{ seen names }

// Alike returns an earlier name that is like s, and otherwise remembers s.
func (ns *Names) Alike(s string) (other string, alike bool) { return ns.seen.alike(s) }
