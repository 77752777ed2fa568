package llm

// joined is text that comes in pieces. One piece alone, the usual case where a
// provider sends a part at once, isn't copied.
type joined struct {
	one  string
	more []byte // all of it, from the second piece on
}

func (j *joined) add(s string) {
	switch {
	case s == "":
	case len(j.more) > 0:
		j.more = append(j.more, s...)
	case j.one == "":
		j.one = s
	default:
		const room = 256 // so that the usual call or sentence grows once
		if cap(j.more) == 0 {
			j.more = make([]byte, 0, max(room, 2*(len(j.one)+len(s))))
		}
		j.more = append(append(j.more, j.one...), s...)
	}
}

func (j *joined) empty() bool { return j.one == "" && len(j.more) == 0 }

func (j *joined) string() string {
	if len(j.more) > 0 {
		return string(j.more)
	}
	return j.one
}

// reset keeps the memory.
func (j *joined) reset() { j.one, j.more = "", j.more[:0] }
