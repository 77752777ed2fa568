package schema

import "strings"

// Nearest returns the name that was most likely meant: the same in another
// case, or a few letters away.
func Nearest(name string, names []string) (string, bool) {
	const longest = 64
	best, distance := "", max(1, min(len(name), longest)/3)+1
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return n, true
		}
		if len(name) > longest || len(n) > longest {
			continue
		}
		if d := edits(strings.ToLower(name), strings.ToLower(n)); d < distance {
			best, distance = n, d
		}
	}
	return best, best != ""
}

// edits returns how many bytes to insert, delete or replace to get from a to b
// (Levenshtein).
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d++
			}
			diagonal = row[j+1]
			row[j+1] = min(d, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
