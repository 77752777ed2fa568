package session

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
)

// quickState reads a head that was written by State.appendJSON, field by field in its order, in a fraction of the time that
// reflection takes: heads are read more often than anything else. It gives up on whatever it doesn't expect. It needn't be
// trusted: decodeState writes what it read again and compares.
func quickState(b []byte) *State {
	q := &quick{b: b}
	s := new(State)
	s.Version = q.int("v")
	s.ID = q.string("id")
	s.User = q.string("user")
	s.Agent = q.string("agent")
	s.Created = q.time("created")
	s.Deleted = q.time("deleted")
	s.Generation = q.int("gen")
	s.Messages = q.int("msgs")
	s.Turn = q.int("turn")
	s.Due = q.bool("due")
	if q.name("calls") && q.skip("[") {
		for !q.bad && !q.skip("]") {
			s.Calls = append(s.Calls, q.call())
			q.skip(",")
		}
	}
	s.Asked = q.time("asked")
	s.TokenKey = q.int("token_key")
	if q.name("run") {
		s.Run = q.run()
	}
	q.other("retry", &s.Retry)
	q.text("finish", (*string)(&s.Finish))
	q.text("why", &s.Why)
	s.Ended = q.time("ended")
	q.other("halt", &s.Halt)
	q.other("unseen", &s.Unseen)
	q.other("ending", &s.Ending)
	s.Epoch = q.int("epoch")
	s.Held = q.bool("held")
	s.LeaseEnd = q.time("lease_end")
	s.Lease = q.int("lease")
	s.Beat = q.int("beat")
	s.Incarnation = uint64(q.int("incarnation"))
	s.Left = q.bool("left")
	s.Takeovers = q.int("takeovers")
	s.Deadly = q.int("deadly")
	s.TakenOver = q.time("taken_over")
	q.other("missing", &s.Missing)
	s.Wake = q.time("wake")
	s.Watched = q.bool("watched")
	s.Commits = commits(q.string("commits"))
	if !q.skip("}") || q.bad || len(q.b) > 0 {
		return nil
	}
	return s
}

func (q *quick) run() (r Run) {
	r.Turns = q.int("turns")
	r.Calls = q.int("calls")
	if q.name("usage") {
		r.Usage.Input = q.int("input")
		r.Usage.Output = q.int("output")
		r.Usage.Cached = q.int("cached")
		r.Usage.Written = q.int("written")
		r.Usage.Reasoning = q.int("reasoning")
		r.Usage.Predicted = q.int("predicted")
		q.close()
	}
	r.Waived = q.int("waived")
	r.Detached = q.bool("detached")
	q.close()
	return r
}

func (q *quick) call() (c Call) {
	c.ID = q.string("id")
	c.Tool = q.string("tool")
	q.text("status", (*string)(&c.Status))
	q.text("effect", (*string)(&c.Effect))
	c.Output = q.string("out")
	c.MayPause = q.bool("may_pause")
	c.Attempt = q.int("attempt")
	c.Epoch = q.int("epoch")
	c.Pauses = q.int("pauses")
	if q.name("pause") {
		c.Pause = q.pause()
	}
	q.other("answer", &c.Answer)
	q.other("early", &c.Early)
	q.other("actions", &c.Actions)
	q.other("cancel", &c.Cancel)
	q.other("parked", &c.Parked)
	q.other("decisions", &c.Decisions)
	q.text("settled", (*string)(&c.Settled))
	c.Media = q.bool("media")
	c.Unshown = q.bool("unshown")
	c.Invented = q.bool("invented")
	q.close()
	return c
}

func (q *quick) pause() *Pause {
	p := new(Pause)
	q.text("reason", (*string)(&p.Reason))
	q.text("mode", (*string)(&p.Mode))
	q.other("prompt", &p.Prompt)
	p.Schema = q.string("schema")
	p.Key = q.string("key")
	p.Gate = q.string("gate")
	q.other("data", &p.Data)
	p.Shown = q.string("shown")
	q.other("args", &p.Args)
	p.Since = q.time("since")
	p.Deadline = q.time("deadline")
	p.Refused = q.bool("refused")
	q.close()
	return p
}

// quick walks over what an object wrote.
type quick struct {
	b   []byte // the rest
	bad bool
}

// skip passes over s, if it comes next.
func (q *quick) skip(s string) bool {
	if len(q.b) < len(s) || string(q.b[:len(s)]) != s {
		return false
	}
	q.b = q.b[len(s):]
	return true
}

// close passes over the end of an object.
func (q *quick) close() {
	if !q.skip("}") {
		q.bad = true
	}
}

// name passes over a field's name, with the brace or comma before it, if that field comes next.
func (q *quick) name(name string) bool {
	n := len(name)
	if len(q.b) < n+4 || q.b[1] != '"' || string(q.b[2:n+2]) != name || q.b[n+2] != '"' || q.b[n+3] != ':' {
		return false
	}
	q.b = q.b[n+4:]
	return true
}

// text reads a string, if that field comes next. One with an escape is left to others.
func (q *quick) text(name string, to *string) {
	if !q.name(name) {
		return
	}
	end := -1
	if q.skip(`"`) {
		end = bytes.IndexByte(q.b, '"')
	}
	if end < 0 || bytes.IndexByte(q.b[:end], '\\') >= 0 {
		q.bad = true
		return
	}
	*to = string(q.b[:end])
	q.b = q.b[end+1:]
}

func (q *quick) string(name string) (s string) {
	q.text(name, &s)
	return s
}

func (q *quick) int(name string) int {
	if !q.name(name) {
		return 0
	}
	n := 0
	for n < len(q.b) && (q.b[n] == '-' || '0' <= q.b[n] && q.b[n] <= '9') {
		n++
	}
	v, err := strconv.Atoi(string(q.b[:n]))
	q.bad = q.bad || err != nil
	q.b = q.b[n:]
	return v
}

func (q *quick) bool(name string) bool {
	if !q.name(name) {
		return false
	}
	q.bad = q.bad || !q.skip("true")
	return true
}

func (q *quick) time(name string) (t time.Time) {
	if s := q.string(name); s != "" {
		var err error
		t, err = time.Parse(time.RFC3339Nano, s)
		q.bad = q.bad || err != nil
	}
	return t
}

// other reads a value that is rare enough for reflection.
func (q *quick) other(name string, to any) {
	if !q.name(name) {
		return
	}
	n := valueLen(q.b)
	q.bad = q.bad || json.Unmarshal(q.b[:n], to) != nil
	q.b = q.b[n:]
}

// valueLen is the length of the object or array that b begins with.
func valueLen(b []byte) int {
	depth, inString := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(b)
}
