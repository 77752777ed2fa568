package schema

import (
	"fmt"
	"strings"
	"sync"
)

// KeyPattern returns the pattern of the integers that a map's keys may be: of
// all integers, or, if exact, of those of that size.
func KeyPattern(signed bool, bits int, exact bool) string {
	switch {
	case exact:
		return exactKeys(signed, bits)
	case signed:
		return "^(0|-?[1-9][0-9]*)$"
	}
	return "^(0|[1-9][0-9]*)$"
}

func exactKeys(signed bool, bits int) string {
	least, most := IntegerBounds(signed, bits)
	pattern := "^(0|" + upTo(most) + ")$"
	if signed {
		pattern = "^(0|" + upTo(most) + "|-(" + upTo(least[1:]) + "))$"
	}
	return pattern
}

// upTo returns a pattern of the whole numbers from 1 to most, which has several
// digits.
func upTo(most string) string {
	n := len(most)
	alternatives := []string{fmt.Sprintf("[1-9][0-9]{0,%d}", n-2), most} // shorter ones, and itself
	// Those that are less by the digit at i.
	for i := range n {
		from := byte('0')
		if i == 0 {
			from = '1'
		}
		if most[i] > from {
			alternatives = append(alternatives,
				fmt.Sprintf("%s[%c-%c][0-9]{%d}", most[:i], from, most[i]-1, n-i-1))
		}
	}
	return strings.Join(alternatives, "|")
}

// keyWords returns the keys of an exact pattern in words.
func keyWords(pattern string) (words string, ok bool) {
	words, ok = exactPatterns()[pattern]
	return words, ok
}

var exactPatterns = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for _, bits := range []int{8, 16, 32, 64} {
		for _, signed := range []bool{true, false} {
			least, most := IntegerBounds(signed, bits)
			all[exactKeys(signed, bits)] = fmt.Sprintf("must be a whole number from %s to %s",
				least, most)
		}
	}
	return all
})
