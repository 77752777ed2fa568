package llm

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// What no provider can parse is replaced by U+FFFD, once, on the way in: invalid UTF-8, and escapes of lone surrogates such
// as \ud800, which name no character. What is stored is therefore what every later request says.

// CleanString replaces each invalid byte of s by U+FFFD.
func CleanString(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// CleanJSON replaces each invalid byte, and each escape of a lone surrogate, by U+FFFD. All else stays byte for byte, numbers
// and white space included. Clean JSON is returned as it is, without a copy; what isn't JSON at all does no harm.
func CleanJSON(raw json.RawMessage) json.RawMessage {
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return raw
	}
	var out []byte
	from := 0
	for at, n := dirt(raw, 0); n > 0; at, n = dirt(raw, at+n) {
		out = append(out, raw[from:at]...)
		if raw[at] == '\\' {
			out = append(out, `\ufffd`...) // stays an escape, for a reader of ASCII
		} else {
			out = append(out, "\uFFFD"...)
		}
		from = at + n
	}
	if from == 0 {
		return raw
	}
	return append(out, raw[from:]...)
}

// dirt finds the first place from i on that must be replaced, and its length; 0 if there is none.
func dirt(raw []byte, i int) (at, n int) {
	for i < len(raw) {
		switch c := raw[i]; {
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(raw[i:])
			if r == utf8.RuneError && n == 1 {
				return i, 1
			}
			i += n
		case c != '\\':
			i++
		case hex4(raw[i:]) < 0:
			// Another escape: an escaped backslash must not lend its second half to what follows.
			if i++; i < len(raw) && raw[i] < utf8.RuneSelf {
				i++
			}
		default:
			r, n := unescape(raw[i:])
			if r == utf8.RuneError && hex4(raw[i:]) != utf8.RuneError {
				return i, n
			}
			i += n
		}
	}
	return len(raw), 0
}

// Clean returns the message with every string and every raw JSON cleaned, a provider's native form too: it has to be sent
// again. A clean message is returned as it is; otherwise m itself stays unchanged.
func (m Message) Clean() Message {
	var c cleaner
	c.raw(&m.Extra)
	c.dirty = false
	for i, p := range m.Parts {
		if p = c.part(p); c.dirty {
			if !c.cloned {
				m.Parts, c.cloned = append([]Part(nil), m.Parts...), true
			}
			m.Parts[i], c.dirty = p, false
		}
	}
	return m
}

// cleaner notes whether it had to change something.
type cleaner struct{ dirty, cloned bool }

func (c *cleaner) part(p Part) Part {
	switch p := p.(type) {
	case Text:
		if c.str(&p.Text); c.native(&p.Native) {
			return p
		}
	case Reasoning:
		if c.str(&p.Text); c.native(&p.Native) {
			return p
		}
	case ToolCall:
		c.str(&p.ID)
		c.str(&p.Name)
		c.raw(&p.Arguments)
		c.str(&p.ProviderID)
		if c.native(&p.Native) {
			return p
		}
	case ToolResult:
		c.str(&p.Call)
		c.str(&p.Name)
		c.medias(&p.Media)
		if c.raw(&p.Output) {
			return p
		}
	case Media:
		c.str(&p.MediaType)
		c.str(&p.Name)
		c.str(&p.URL)
		if c.native(&p.Native) {
			return p
		}
	case Opaque:
		if n := &p.Native; c.native(&n) {
			return Opaque{Native: *n}
		}
	case Unknown:
		c.str(&p.Type)
		if c.raw(&p.Raw) {
			return p
		}
	}
	return p
}

// medias replaces the slice that all points to, since the old one may be shared.
func (c *cleaner) medias(all *[]Media) {
	var own cleaner
	clean := make([]Media, len(*all))
	for i, m := range *all {
		clean[i] = own.part(m).(Media)
	}
	if own.dirty {
		*all, c.dirty = clean, true
	}
}

func (c *cleaner) str(s *string) {
	if !utf8.ValidString(*s) {
		*s, c.dirty = CleanString(*s), true
	}
}

func (c *cleaner) raw(raw *json.RawMessage) (dirty bool) {
	if clean := CleanJSON(*raw); len(clean) > 0 && &clean[0] != &(*raw)[0] {
		*raw, c.dirty = clean, true
	}
	return c.dirty
}

// native replaces what n points to, since the old form may be shared.
func (c *cleaner) native(n **Native) (dirty bool) {
	if *n != nil {
		var own cleaner
		provider, data := (*n).Provider, (*n).Data
		own.str(&provider)
		if own.raw(&data) {
			*n, c.dirty = &Native{Provider: provider, Data: data}, true
		}
	}
	return c.dirty
}
