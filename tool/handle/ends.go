package handle

import (
	"strings"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/internal/handles"
)

// ends keeps the head and the tail of what is written to it, in as many bytes
// as it may have.
type ends struct {
	most int // at least 2
	head []byte
	tail []byte // behind the head; at most twice what is shown of it
	left int    // bytes between them that are gone
}

func (e *ends) Write(p []byte) (int, error) {
	n := len(p)
	if e.left == 0 && len(e.tail) == 0 {
		take := min(len(p), e.most-e.most/2-len(e.head))
		e.head = append(e.head, p[:take]...)
		p = p[take:]
	}
	half := e.most / 2
	if over := len(p) - half; over > 0 { // the rest of the tail goes, too
		e.left += len(e.tail) + over
		e.tail = append(e.tail[:0], p[over:]...)
		return n, nil
	}
	e.tail = append(e.tail, p...)
	if over := len(e.tail) - half; over > half {
		e.left += over
		e.tail = append(e.tail[:0], e.tail[over:]...)
	}
	return n, nil
}

// empty reports whether nothing is there.
func (e *ends) empty() bool { return len(e.head) == 0 && len(e.tail) == 0 }

// text returns what is there as UTF-8, with a line where something is left out,
// and how many bytes those are.
func (e *ends) text() (text string, left int) {
	head, tail, left := e.head, e.tail, e.left
	if over := len(tail) - e.most/2; over > 0 {
		tail, left = tail[over:], left+over
	}
	if left == 0 {
		return strings.ToValidUTF8(string(head)+string(tail), "\ufffd"), 0
	}
	cut := len(head) - unfinished(head)
	begin := 0
	for begin < len(tail) && begin < utf8.UTFMax-1 && !utf8.RuneStart(tail[begin]) {
		begin++
	}
	left += len(head) - cut + begin
	return strings.ToValidUTF8(string(head[:cut]), "\ufffd") + leftOut(left) +
		strings.ToValidUTF8(string(tail[begin:]), "\ufffd"), left
}

// leftOut returns the line that stands in a text where bytes are left out.
func leftOut(bytes int) string { return "\n" + handles.LeftOut(bytes) + "\n" }

// take returns what text returns, and keeps nothing of it but a character that
// isn't complete, if more is to come.
func (e *ends) take(more bool) string {
	var rest []byte
	if more {
		last := &e.head
		if len(e.tail) > 0 {
			last = &e.tail
		}
		cut := len(*last) - unfinished(*last)
		rest = append(rest, (*last)[cut:]...)
		*last = (*last)[:cut]
	}
	text, _ := e.text()
	*e = ends{most: e.most, head: append(e.head[:0], rest...), tail: e.tail[:0]}
	return text
}

// unfinished returns how many bytes at the end are the beginning of a character.
func unfinished(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if last := b[len(b)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}
