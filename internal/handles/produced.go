package handles

import (
	"strconv"
	"unicode/utf8"
)

// Produced is what a handle has produced, as far as it is kept.
type Produced struct {
	Text string
	// From is the offset of Text in all that was produced, in bytes.
	From int64
	// Ended is whether there will be no more. Until then a character that is
	// not there whole is held back.
	Ended bool
}

// Since returns what was produced from an offset on, and the offset of what
// comes after it. The text is cut to so many bytes as [Cut] counts them; zero:
// it is whole. What was produced and isn't kept is told by a line of its own.
func (p Produced) Since(offset int64, most int) (text string, next int64) {
	end := len(p.Text)
	if !p.Ended {
		end = whole(p.Text)
	}
	next = max(p.From+int64(end), offset)
	lost := max(p.From-offset, 0)
	from := min(max(offset-p.From, 0), int64(end))
	text = p.Text[from:end]
	if lost > 0 {
		notice := "[" + strconv.FormatInt(lost, 10) + " bytes before this are not kept]\n"
		text = notice + text
	}
	if most <= 0 {
		most = len(text)*6 + 1 // as wide as it can be
	}
	return Cut(text, most, LeftOut), next
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
