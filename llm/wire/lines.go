package wire

import (
	"bytes"
	"io"
)

// newLines returns a stream of server-sent events as the decoders of the SDKs
// read it: each line ends with one line feed, and there is no byte order mark.
// The standard has lines end with a carriage return, too, alone or before the
// line feed, and lets a mark begin the stream
// (https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream).
//
// A carriage return counts as soon as it comes: the event that it ends doesn't
// wait for what may follow. JSON stays what it is, since there both are white
// space.
func newLines(r io.Reader) io.Reader { return &lines{r: r} }

type lines struct {
	r io.Reader
	// How many bytes of the mark have come; all of them, or more, once
	// something else has.
	marked int
	cr     bool // the byte before was a carriage return
}

const byteOrderMark = "\uFEFF"

func (l *lines) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		n, err := l.r.Read(p)
		if n = l.convert(p[:n]); n > 0 || err != nil {
			return n, err
		}
	}
}

// convert changes what was read in its place, and returns its new length.
func (l *lines) convert(p []byte) int {
	if l.marked >= len(byteOrderMark) && !l.cr && bytes.IndexByte(p, '\r') < 0 {
		return len(p) // as nearly always
	}
	n := 0
	for _, c := range p {
		if l.marked < len(byteOrderMark) {
			if c == byteOrderMark[l.marked] {
				l.marked++
				continue
			}
			l.marked = len(byteOrderMark)
		}
		after := l.cr
		if l.cr = c == '\r'; l.cr {
			c = '\n'
		} else if after && c == '\n' {
			continue
		}
		p[n] = c
		n++
	}
	return n
}
