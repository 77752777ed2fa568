package handles

import (
	"math"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/tool"
)

// Since returns what a handle has produced after the first bytes, which were
// shown, and how many have been shown then. The text is cut to so many bytes as
// [Cut] counts them; zero: all of it that is kept. A screen is shown as it is
// now. Until it has ended, a character that is not there whole is held back.
func Since(c *tool.Content, ended bool, shown, most int) (text string, next int) {
	if most <= 0 {
		most = math.MaxInt
	}
	if c.Screen {
		return Cut(c.Tail, most, LeftOut), c.Total
	}
	head, tail, from := c.Head, c.Tail, c.Total-len(c.Tail)
	if gap := from - len(head); gap > 0 { // both of its ends may cut a character in two
		head = head[:whole(head)]
		n := continued(tail)
		tail, from = tail[n:], from+n
	} else {
		head, tail, from = "", head+tail[-gap:], 0
	}
	if !ended {
		tail = tail[:whole(tail)]
	}
	next = max(from+len(tail), shown)
	if shown >= from {
		return Cut(tail[min(shown-from, len(tail)):], most, LeftOut), next
	}
	gap := from - max(shown, len(head))
	return cut(head[min(shown, len(head)):], gap, tail, most, LeftOut), next
}

// whole returns how many bytes of a text are before a character that its end
// cuts in two.
func whole(s string) int {
	for i := len(s) - 1; i >= 0 && i > len(s)-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			if !utf8.FullRuneInString(s[i:]) {
				return i
			}
			break
		}
	}
	return len(s)
}

// continued returns how many bytes at the beginning of a text are the rest of a
// character.
func continued(s string) int {
	for i := range min(len(s), utf8.UTFMax-1) {
		if utf8.RuneStart(s[i]) {
			return i
		}
	}
	return min(len(s), utf8.UTFMax-1)
}
