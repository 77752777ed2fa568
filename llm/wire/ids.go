package wire

import (
	"strings"

	"github.com/fermata-ai/fermata/llm"
)

// IDForm is what a provider takes as the id of a call: 1, or Min, to Max bytes, letters, digits, and the bytes in Also.
type IDForm struct {
	Min, Max int
	Also     string
}

// IDs are the ids that the calls of one request have on the wire, each unique in it.
//
// A call has the id that its provider gave it, if that has the form and no earlier call of the request has it: some number their calls
// anew in each turn. Otherwise it has fermata's own. Since history only grows, a call keeps its id from request to request, and caches
// of the provider's stay good.
type IDs map[string]string

// NewIDs gives each call in messages its id.
func NewIDs(messages []llm.Message, form IDForm) IDs {
	ids, taken := IDs{}, map[string]bool{}
	for _, m := range messages {
		for _, p := range m.Parts {
			c, ok := p.(llm.ToolCall)
			if !ok {
				continue
			}
			id := c.ProviderID
			if !form.fits(id) || taken[id] {
				id = form.free(c.ID, taken)
			}
			ids[c.ID], taken[id] = id, true
		}
	}
	return ids
}

// Of is the id on the wire of the call with fermata's id: of a call, and of its result.
func (ids IDs) Of(call string) string {
	if id, ok := ids[call]; ok {
		return id
	}
	return call // a result without a call: the provider will say so
}

func (f IDForm) fits(id string) bool {
	return id != "" && len(id) >= f.Min && len(id) <= f.Max && f.clean(id) == id
}

func (f IDForm) clean(id string) string {
	return strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune(f.Also, c) {
			return c
		}
		return '0'
	}, id)
}

// free makes an id of the form that is not taken: id itself where it can be.
func (f IDForm) free(id string, taken map[string]bool) string {
	id = f.clean(id)
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
