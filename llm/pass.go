package llm

import (
	"encoding/json"
)

// pass is one way over the fields of a part. What is done to each field is one
// of the things below; a kind of part only says which fields it has. Each
// method takes the address of a field of a copy: where something changed,
// changed is set, and the part puts its copy out.
type pass struct {
	do      doing
	changed bool
	out     Part // the part that was read, or the changed one
	size    int
	w       *writer
	r       *reader
	s       *space
}

type doing int

const (
	sizing   doing = iota // about, in bytes of the JSON form
	counting              // the bytes that a copy takes, but for long ones
	encoding              // the JSON form
	decoding              // it again
	cleaning              // what no provider parses is replaced
	copying               // bytes get memory of their own
)

// text is a string that is written even if it is empty, and has to be there.
func (f *pass) text(name string, s *string) {
	switch f.do {
	case sizing:
		f.size += len(*s) + len(*s)/16
	case encoding:
		f.w.text(name, *s)
	case decoding:
		*s = f.r.text(name)
	case cleaning:
		f.clean(s)
	}
}

// str is a string that is left out if it is empty.
func (f *pass) str(name string, s *string) {
	switch f.do {
	case sizing:
		f.size += len(*s)
	case encoding:
		if *s != "" {
			f.w.text(name, *s)
		}
	case decoding:
		*s = f.r.str(name)
	case cleaning:
		f.clean(s)
	}
}

// raw is JSON, left out if it is empty.
func (f *pass) raw(name string, v *json.RawMessage) {
	switch f.do {
	case sizing:
		f.size += len(*v)
	case counting:
		f.size += small(*v)
	case encoding:
		f.w.raw(name, *v)
	case decoding:
		*v = f.r.raw(name)
	case cleaning:
		f.cleanJSON(v)
	case copying:
		*v, f.changed = f.s.own(*v), true
	}
}

// bytes are written in base64, and left out if there are none.
func (f *pass) bytes(name string, b *[]byte) {
	switch f.do {
	case sizing:
		f.size += len(*b) * 4 / 3
	case counting:
		f.size += small(*b)
	case encoding:
		f.w.bytes(name, *b)
	case decoding:
		*b = f.r.bytes(name)
	case copying:
		*b, f.changed = f.s.own(*b), true
	}
}

// flag is left out if it is false.
func (f *pass) flag(name string, is *bool) {
	switch f.do {
	case encoding:
		if *is {
			f.w.key(name)
			f.w.b = append(f.w.b, "true"...)
		}
	case decoding:
		*is = f.r.flag(name)
	}
}

// native is left out if it is nil.
func (f *pass) native(n **Native) {
	const name = "native"
	switch {
	case f.do == decoding:
		*n = f.r.native(name)
	case *n == nil:
	case f.do == sizing:
		f.size += 32 + len((*n).Provider) + len((*n).Data)
	case f.do == encoding:
		f.w.native(name, *n)
	case f.do == cleaning:
		own := pass{do: cleaning}
		c := **n // the old form may be shared
		own.clean(&c.Provider)
		if own.cleanJSON(&c.Data); own.changed {
			*n, f.changed = &c, true
		}
	case f.do == counting:
		f.size += small((*n).Data)
	case f.do == copying:
		*n, f.changed = &Native{(*n).Provider, f.s.own((*n).Data)}, true
	}
}

// medias are parts within a part. They hold no parts themselves: nothing here
// calls over, so that a pass stays on the stack.
func (f *pass) medias(name string, all *[]Media) {
	switch f.do {
	case sizing:
		for _, m := range *all {
			f.size += partCost
			m.fields(f)
		}
	case encoding:
		f.w.medias(name, *all)
	case decoding:
		*all = f.r.medias(name)
	case counting:
		for _, m := range *all {
			m.fields(f)
		}
	case cleaning, copying:
		f.eachMedia(all)
	}
}

// eachMedia replaces the slice, since the old one may be shared.
func (f *pass) eachMedia(all *[]Media) {
	own := pass{do: f.do, s: f.s}
	out := make([]Media, len(*all))
	changed := false
	for i, m := range *all {
		out[i], own.changed, own.out = m, false, nil
		if m.fields(&own); own.out != nil {
			out[i], changed = own.out.(Media), true
		}
	}
	if changed {
		*all, f.changed = out, true
	}
}

// unknown is a part whose fields this version doesn't know.
func (f *pass) unknown(p Unknown) {
	switch f.do {
	case sizing:
		f.size += len(p.Type) + len(p.Raw)
	case counting:
		f.size += small(p.Raw)
	case encoding:
		f.w.unknown(p)
		return
	case decoding: // the reader doesn't come here: there is no row
	case cleaning:
		f.clean(&p.Type)
		f.cleanJSON(&p.Raw)
	case copying:
		p.Raw, f.changed = f.s.own(p.Raw), true
	}
	if f.changed {
		f.out = p
	}
}

func (f *pass) fail(why string) {
	if f.do == decoding {
		f.r.fail("%s", why)
	}
}
