package tool

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// keys finds keys of one object that are equal, or, unless exact, differ only by case.
type keys struct {
	exact  bool
	few    [fewKeys]string
	n      int
	folded map[string]string // from fewKeys on: a folded key to the key
}

// alike returns an earlier key that equals k, or that encoding/json would take for it, and otherwise remembers k.
func (ks *keys) alike(k string) (string, bool) {
	if ks.folded == nil && ks.n < fewKeys {
		for _, other := range ks.few[:ks.n] {
			if other == k || !ks.exact && strings.EqualFold(other, k) {
				return other, true
			}
		}
		ks.few[ks.n] = k
		ks.n++
		return "", false
	}
	if ks.folded == nil {
		ks.folded = make(map[string]string, 4*fewKeys)
		for _, other := range ks.few {
			ks.folded[ks.fold(other)] = other
		}
	}
	f := ks.fold(k)
	if other, ok := ks.folded[f]; ok {
		return other, true
	}
	ks.folded[f] = k
	return "", false
}

func (ks *keys) fold(k string) string {
	if ks.exact {
		return k
	}
	return fold(k)
}

// fold maps two strings to one exactly if strings.EqualFold holds of them, as encoding/json compares field names: by simple
// folding, by which U+212A, the Kelvin sign, is a k.
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
