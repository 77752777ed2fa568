package wire

import (
	"cmp"
	"strings"

	"github.com/fermata-ai/fermata/llm"
)

// Form is what a provider takes as the id of a call, or as the name of a tool:
// 1, or Min, to Max bytes, letters, digits, and the bytes in Also.
type Form struct {
	Min, Max int
	Also     string
}

// Fits reports whether s has the form.
func (f Form) Fits(s string) bool {
	return s != "" && len(s) >= f.Min && len(s) <= f.Max && f.clean(s, '0') == s
}

// Name makes the name of a called tool fit. A tool of a name that doesn't isn't
// offered, so the call has failed; but it stays in the history, which a
// provider would refuse for it.
func (f Form) Name(name string) string {
	name = f.clean(name, '_')
	return cmp.Or(name[:min(len(name), f.Max)], "unnamed")
}

// IDs are the ids that the calls of one request have on the wire, each unique
// in it.
//
// A call has the id that its provider gave it, if that has the form and no
// earlier call of the request has it: some number their calls anew in each
// turn. Otherwise it has fermata's own. Since history only grows, a call keeps
// its id from request to request, and caches of the provider's stay good.
type IDs map[string]string

// NewIDs gives each call in messages its id.
func NewIDs(messages []llm.Message, form Form) IDs {
	ids, taken := IDs{}, map[string]bool{}
	for _, m := range messages {
		for _, p := range m.Parts {
			c, ok := p.(llm.ToolCall)
			if !ok {
				continue
			}
			id := c.ProviderID
			if !form.Fits(id) || taken[id] {
				id = form.free(c.ID, taken)
			}
			ids[c.ID], taken[id] = id, true
		}
	}
	return ids
}

// Of returns the id on the wire of the call with fermata's id: of a call, and
// of its result.
func (ids IDs) Of(call string) string {
	if id, ok := ids[call]; ok {
		return id
	}
	return call // a result without a call: the provider will say so
}

func (f Form) clean(s string, other rune) string {
	return strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
			strings.ContainsRune(f.Also, c) {
			return c
		}
		return other
	}, s)
}

// free makes an id of the form that is not taken: id itself where it can be.
func (f Form) free(id string, taken map[string]bool) string {
	id = f.clean(id, '0')
	if n := len(id); n > f.Max {
		id = id[n-f.Max:] // the end tells ids apart
	}
	id += strings.Repeat("0", max(f.Min-len(id), 0))
	for n := 0; id == "" || taken[id]; n++ {
		id = numbered(id, n, f.Max)
	}
	return id
}

// numbered puts a number in the place of the last bytes.
func numbered(id string, n, most int) string {
	digits := []byte{}
	for first := true; first || n > 0; first, n = false, n/10 {
		digits = append(digits, byte('0'+n%10))
	}
	if keep := most - len(digits); len(id) > keep {
		id = id[:max(keep, 0)]
	}
	return id + string(digits)
}
