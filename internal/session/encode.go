package session

import (
	"strconv"
	"time"

	"github.com/fermata-ai/fermata/llm"
)

// The head is encoded in each commit, and a record with each result: by hand, since reflection costs more than all else that
// a commit in memory does. The struct tags remain the definition; a test compares the two.

// object is a JSON object in the making. Its methods append a field, one with an empty value only if their name says always.
type object []byte

// begin begins an object after b.
func begin(b []byte) object { return append(b, '{') }

func (o object) name(name string) object {
	if o[len(o)-1] != '{' {
		o = append(o, ',')
	}
	o = append(o, '"')
	o = append(o, name...)
	return append(o, '"', ':')
}

func (o object) alwaysString(name, s string) object { return appendString(o.name(name), s) }

func (o object) string(name, s string) object {
	if s == "" {
		return o
	}
	return o.alwaysString(name, s)
}

func (o object) alwaysInt(name string, n int) object {
	return strconv.AppendInt(o.name(name), int64(n), 10)
}

func (o object) int(name string, n int) object {
	if n == 0 {
		return o
	}
	return o.alwaysInt(name, n)
}

func (o object) bool(name string, v bool) object {
	if !v {
		return o
	}
	return append(o.name(name), "true"...)
}

func (o object) alwaysTime(name string, t time.Time) object {
	return append(appendTime(append(o.name(name), '"'), t), '"')
}

func (o object) time(name string, t time.Time) object {
	if t.IsZero() {
		return o
	}
	return o.alwaysTime(name, t)
}

// appendTime appends t as time.RFC3339Nano does; what is stored is in UTC, and has milliseconds.
func appendTime(b []byte, t time.Time) []byte {
	year, month, day := t.Date()
	if t.Location() != time.UTC || year < 1000 || year > 9999 || t.Nanosecond()%1e6 != 0 {
		return t.AppendFormat(b, time.RFC3339Nano)
	}
	hour, minute, second := t.Clock()
	b = strconv.AppendInt(b, int64(year), 10)
	for i, n := range [...]int{int(month), day, hour, minute, second} {
		b = append(b, "--T::"[i], byte('0'+n/10), byte('0'+n%10))
	}
	if ms := t.Nanosecond() / 1e6; ms != 0 {
		b = append(b, '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10))
		for b[len(b)-1] == '0' {
			b = b[:len(b)-1]
		}
	}
	return append(b, 'Z')
}

func (o object) blob(name string, b *Blob) object {
	if b == nil {
		return o
	}
	blob := begin(o.name(name))
	if len(b.Inline) > 0 {
		blob = append(blob.name("json"), b.Inline...) // compact already
	}
	return append(blob.string("ref", b.Ref).int("size", b.Size), '}')
}

// other appends a value that is rare enough for reflection.
func (o object) other(name string, v any, present bool) (object, error) {
	if !present {
		return o, nil
	}
	b, err := encode(v)
	if err != nil {
		return nil, err
	}
	return appendKept(o.name(name), b, v)
}

// appendKept appends an encoded value, with what a later version wrote into it.
func appendKept(b, encoded []byte, v any) ([]byte, error) {
	if k, ok := v.(keeper); ok && len(k.kept()) > 0 {
		return closeObject(append(b, encoded[:len(encoded)-1]...), k.kept())
	}
	return append(b, encoded...), nil
}

func (o object) decisions(ds []Decision) (object, error) {
	if len(ds) == 0 {
		return o, nil
	}
	list := []byte(o.name("decisions"))
	for i := range ds {
		b, err := encode(&ds[i])
		if err != nil {
			return nil, err
		}
		if list, err = appendKept(append(list, "[,"[min(i, 1)]), b, &ds[i]); err != nil {
			return nil, err
		}
	}
	return append(list, ']'), nil
}

// appendString appends s as a JSON string.
func appendString[S ~string | ~[]byte](b []byte, s S) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := encode(string(s)) // a string always encodes
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// appendJSON appends the head.
func (s *State) appendJSON(b []byte) ([]byte, error) {
	o := begin(b).alwaysInt("v", s.Version)
	o = o.alwaysString("id", s.ID)
	o = o.alwaysString("user", s.User)
	o = o.string("agent", s.Agent)
	o = o.alwaysTime("created", s.Created)
	o = o.time("deleted", s.Deleted)
	o = o.int("gen", s.Generation)
	o = o.alwaysInt("msgs", s.Messages)
	o = o.alwaysInt("turn", s.Turn)
	o = o.bool("due", s.Due)
	var err error
	if len(s.Calls) > 0 {
		b = o.name("calls")
		for i := range s.Calls {
			if b, err = s.Calls[i].appendJSON(append(b, "[,"[min(i, 1)])); err != nil {
				return nil, err
			}
		}
		o = append(b, ']')
	}
	o = o.time("asked", s.Asked)
	o = o.int("token_key", s.TokenKey)
	if o, err = s.Run.append(o); err != nil {
		return nil, err
	}
	if o, err = o.other("retry", s.Retry, s.Retry != nil); err != nil {
		return nil, err
	}
	o = o.string("finish", string(s.Finish))
	o = o.string("why", s.Why)
	o = o.time("ended", s.Ended)
	if o, err = o.other("halt", s.Halt, s.Halt != nil); err != nil {
		return nil, err
	}
	if o, err = o.other("unseen", s.Unseen, s.Unseen != nil); err != nil {
		return nil, err
	}
	if o, err = o.other("ending", s.Ending, s.Ending != nil); err != nil {
		return nil, err
	}
	o = o.int("epoch", s.Epoch)
	o = o.bool("held", s.Held)
	o = o.time("lease_end", s.LeaseEnd)
	o = o.int("lease", s.Lease)
	o = o.int("beat", s.Beat)
	o = o.int("incarnation", int(s.Incarnation))
	o = o.bool("left", s.Left)
	o = o.int("takeovers", s.Takeovers)
	o = o.int("deadly", s.Deadly)
	o = o.time("taken_over", s.TakenOver)
	if o, err = o.other("missing", s.Missing, len(s.Missing) > 0); err != nil {
		return nil, err
	}
	o = o.time("wake", s.Wake)
	o = o.bool("watched", s.Watched)
	o = appendString(o.name("commits"), s.Commits)
	return closeObject(o, s.kept())
}

// append appends the run to the head, unless it is empty.
func (r *Run) append(head object) (object, error) {
	if r.Turns == 0 && r.Calls == 0 && r.Usage == (llm.Usage{}) && r.Waived == 0 && !r.Detached && len(r.kept()) == 0 {
		return head, nil
	}
	o := begin(head.name("run")).int("turns", r.Turns)
	o = o.int("calls", r.Calls)
	if r.Usage != (llm.Usage{}) {
		usage := begin(o.name("usage")).int("input", r.Usage.Input)
		usage = usage.int("output", r.Usage.Output)
		usage = usage.int("cached", r.Usage.Cached)
		usage = usage.int("written", r.Usage.Written)
		usage = usage.int("reasoning", r.Usage.Reasoning)
		usage = usage.int("predicted", r.Usage.Predicted)
		o = append(usage, '}')
	}
	o = o.int("waived", r.Waived)
	o = o.bool("detached", r.Detached)
	return closeObject(o, r.kept())
}

// appendJSON appends a call of the open turn.
func (c *Call) appendJSON(b []byte) ([]byte, error) {
	o := begin(b).alwaysString("id", c.ID)
	o = o.alwaysString("tool", c.Tool)
	o = o.alwaysString("status", string(c.Status))
	o = o.string("effect", string(c.Effect))
	o = o.string("out", c.Output)
	o = o.bool("may_pause", c.MayPause)
	o = o.int("attempt", c.Attempt)
	o = o.int("epoch", c.Epoch)
	o = o.int("pauses", c.Pauses)
	var err error
	if c.Pause != nil {
		if o, err = c.Pause.appendJSON(o.name("pause")); err != nil {
			return nil, err
		}
	}
	for _, f := range []struct {
		name    string
		value   any
		present bool
	}{
		{"answer", c.Answer, c.Answer != nil},
		{"early", c.Early, c.Early != nil},
		{"actions", c.Actions, len(c.Actions) > 0},
		{"cancel", c.Cancel, c.Cancel != nil},
		{"parked", c.Parked, c.Parked != nil},
	} {
		if o, err = o.other(f.name, f.value, f.present); err != nil {
			return nil, err
		}
	}
	if o, err = o.decisions(c.Decisions); err != nil {
		return nil, err
	}
	o = o.string("settled", string(c.Settled))
	o = o.bool("media", c.Media)
	o = o.bool("unshown", c.Unshown)
	o = o.bool("invented", c.Invented)
	return closeObject(o, c.kept())
}

// appendJSON appends an open pause.
func (p *Pause) appendJSON(b []byte) ([]byte, error) {
	o := begin(b).alwaysString("reason", string(p.Reason))
	o = o.alwaysString("mode", string(p.Mode))
	o = o.blob("prompt", p.Prompt)
	o = o.string("schema", p.Schema)
	o = o.string("key", p.Key)
	o = o.string("gate", p.Gate)
	o = o.blob("data", p.Data)
	o = o.string("shown", p.Shown)
	o = o.blob("args", p.Args)
	o = o.alwaysTime("since", p.Since)
	o = o.time("deadline", p.Deadline)
	o = o.bool("refused", p.Refused)
	return closeObject(o, p.kept())
}

// appendJSON appends the record of a settled call.
func (r *Record) appendJSON(b []byte) ([]byte, error) {
	o := begin(b).alwaysInt("v", r.Version)
	o = o.alwaysString("call", r.Call)
	o = o.alwaysString("tool", r.Tool)
	o = o.alwaysInt("turn", r.Turn)
	o = o.alwaysString("status", string(r.Status))
	o = o.blob("output", r.Output)
	o = o.string("by", r.By)
	o = o.alwaysTime("at", r.At)
	o = o.int("attempt", r.Attempt)
	o = o.int("pauses", r.Pauses)
	o, err := o.decisions(r.Decisions)
	if err != nil {
		return nil, err
	}
	if o, err = o.other("actions", r.Actions, len(r.Actions) > 0); err != nil {
		return nil, err
	}
	return append(o, '}'), nil
}
