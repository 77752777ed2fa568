package session

import (
	"strconv"
	"time"

	"github.com/fermata-ai/fermata/llm"
)

// The head is encoded in each commit, and a record with each result: by hand, since reflection costs more than all else that
// a commit in memory does. The struct tags remain the definition; a test compares the two.

// object appends the fields of a JSON object, those with an empty value left out unless their name says always.
type object struct{ b []byte }

func (o *object) name(name string) {
	b := o.b
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, name...)
	o.b = append(b, '"', ':')
}

func (o *object) alwaysString(name, s string) {
	o.name(name)
	o.b = appendString(o.b, s)
}

func (o *object) string(name, s string) {
	if s != "" {
		o.alwaysString(name, s)
	}
}

func (o *object) alwaysInt(name string, n int) {
	o.name(name)
	o.b = strconv.AppendInt(o.b, int64(n), 10)
}

func (o *object) int(name string, n int) {
	if n != 0 {
		o.alwaysInt(name, n)
	}
}

func (o *object) bool(name string, v bool) {
	if v {
		o.name(name)
		o.b = append(o.b, "true"...)
	}
}

func (o *object) alwaysTime(name string, t time.Time) {
	o.name(name)
	o.b = append(appendTime(append(o.b, '"'), t), '"')
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

func (o *object) time(name string, t time.Time) {
	if !t.IsZero() {
		o.alwaysTime(name, t)
	}
}

func (o *object) blob(name string, b *Blob) {
	if b == nil {
		return
	}
	o.name(name)
	blob := object{append(o.b, '{')}
	if len(b.Inline) > 0 {
		blob.name("json")
		blob.b = append(blob.b, b.Inline...) // compact already
	}
	blob.string("ref", b.Ref)
	blob.int("size", b.Size)
	o.b = append(blob.b, '}')
}

// other appends a value that is rare enough for reflection.
func (o *object) other(name string, v any, present bool) error {
	if !present {
		return nil
	}
	b, err := encode(v)
	if err != nil {
		return err
	}
	o.name(name)
	o.b, err = appendKept(o.b, b, v)
	return err
}

// appendKept appends an encoded value, with what a later version wrote into it.
func appendKept(b, encoded []byte, v any) ([]byte, error) {
	if k, ok := v.(keeper); ok && len(k.kept()) > 0 {
		return closeObject(append(b, encoded[:len(encoded)-1]...), k.kept())
	}
	return append(b, encoded...), nil
}

func (o *object) decisions(ds []Decision) error {
	if len(ds) == 0 {
		return nil
	}
	o.name("decisions")
	for i := range ds {
		b, err := encode(&ds[i])
		if err != nil {
			return err
		}
		if o.b, err = appendKept(append(o.b, "[,"[min(i, 1)]), b, &ds[i]); err != nil {
			return err
		}
	}
	o.b = append(o.b, ']')
	return nil
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
	o := object{append(b, '{')}
	o.alwaysInt("v", s.Version)
	o.alwaysString("id", s.ID)
	o.alwaysString("user", s.User)
	o.string("agent", s.Agent)
	o.alwaysTime("created", s.Created)
	o.time("deleted", s.Deleted)
	o.int("gen", s.Generation)
	o.alwaysInt("msgs", s.Messages)
	o.alwaysInt("turn", s.Turn)
	o.bool("due", s.Due)
	if len(s.Calls) > 0 {
		o.name("calls")
		for i := range s.Calls {
			o.b = append(o.b, "[,"[min(i, 1)])
			var err error
			if o.b, err = s.Calls[i].appendJSON(o.b); err != nil {
				return nil, err
			}
		}
		o.b = append(o.b, ']')
	}
	o.time("asked", s.Asked)
	o.int("token_key", s.TokenKey)
	if err := s.Run.append(&o); err != nil {
		return nil, err
	}
	if err := o.other("retry", s.Retry, s.Retry != nil); err != nil {
		return nil, err
	}
	o.string("finish", string(s.Finish))
	o.time("ended", s.Ended)
	if err := o.other("halt", s.Halt, s.Halt != nil); err != nil {
		return nil, err
	}
	if err := o.other("ending", s.Ending, s.Ending != nil); err != nil {
		return nil, err
	}
	o.int("epoch", s.Epoch)
	o.bool("held", s.Held)
	o.time("lease_end", s.LeaseEnd)
	o.int("incarnation", int(s.Incarnation))
	o.int("takeovers", s.Takeovers)
	o.time("wake", s.Wake)
	o.name("commits")
	o.b = appendString(o.b, s.Commits)
	return closeObject(o.b, s.kept())
}

func (r *Run) append(o *object) (err error) {
	if r.Turns == 0 && r.Calls == 0 && r.Usage == (llm.Usage{}) && r.Waived == 0 && !r.Detached && len(r.kept()) == 0 {
		return nil
	}
	o.name("run")
	run := object{append(o.b, '{')}
	run.int("turns", r.Turns)
	run.int("calls", r.Calls)
	if r.Usage != (llm.Usage{}) {
		run.name("usage")
		usage := object{append(run.b, '{')}
		usage.int("input", r.Usage.Input)
		usage.int("output", r.Usage.Output)
		usage.int("cached", r.Usage.Cached)
		usage.int("reasoning", r.Usage.Reasoning)
		run.b = append(usage.b, '}')
	}
	run.int("waived", r.Waived)
	run.bool("detached", r.Detached)
	o.b, err = closeObject(run.b, r.kept())
	return err
}

// appendJSON appends a call of the open turn.
func (c *Call) appendJSON(b []byte) ([]byte, error) {
	o := object{append(b, '{')}
	o.alwaysString("id", c.ID)
	o.alwaysString("tool", c.Tool)
	o.alwaysString("status", string(c.Status))
	o.string("effect", string(c.Effect))
	o.string("out", c.Output)
	o.bool("may_pause", c.MayPause)
	o.int("attempt", c.Attempt)
	o.int("epoch", c.Epoch)
	o.int("pauses", c.Pauses)
	if c.Pause != nil {
		o.name("pause")
		var err error
		if o.b, err = c.Pause.appendJSON(o.b); err != nil {
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
	} {
		if err := o.other(f.name, f.value, f.present); err != nil {
			return nil, err
		}
	}
	if err := o.decisions(c.Decisions); err != nil {
		return nil, err
	}
	o.string("settled", string(c.Settled))
	o.bool("media", c.Media)
	o.bool("unshown", c.Unshown)
	return closeObject(o.b, c.kept())
}

// appendJSON appends an open pause.
func (p *Pause) appendJSON(b []byte) ([]byte, error) {
	o := object{append(b, '{')}
	o.alwaysString("reason", string(p.Reason))
	o.alwaysString("mode", string(p.Mode))
	o.blob("prompt", p.Prompt)
	o.string("schema", p.Schema)
	o.string("key", p.Key)
	o.string("gate", p.Gate)
	o.blob("data", p.Data)
	o.string("shown", p.Shown)
	o.blob("args", p.Args)
	o.alwaysTime("since", p.Since)
	o.time("deadline", p.Deadline)
	o.bool("refused", p.Refused)
	return closeObject(o.b, p.kept())
}

// appendJSON appends the record of a settled call.
func (r *Record) appendJSON(b []byte) ([]byte, error) {
	o := object{append(b, '{')}
	o.alwaysInt("v", r.Version)
	o.alwaysString("call", r.Call)
	o.alwaysString("tool", r.Tool)
	o.alwaysInt("turn", r.Turn)
	o.alwaysString("status", string(r.Status))
	o.blob("output", r.Output)
	o.string("by", r.By)
	o.alwaysTime("at", r.At)
	o.int("attempt", r.Attempt)
	o.int("pauses", r.Pauses)
	if err := o.decisions(r.Decisions); err != nil {
		return nil, err
	}
	if err := o.other("actions", r.Actions, len(r.Actions) > 0); err != nil {
		return nil, err
	}
	return append(o.b, '}'), nil
}
