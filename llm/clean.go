package llm

import (
	"encoding/json"

	"github.com/fermata-ai/fermata/internal/modeltext"
)

// Clean returns the message with every string and every raw JSON cleaned: what
// no provider can parse is replaced by U+FFFD, once, on the way in. So what is
// stored is what every later request says. A provider's native form is cleaned
// too: it has to be sent again. A clean message is returned as it is; otherwise
// m itself stays unchanged.
func (m Message) Clean() Message {
	f := pass{do: cleaning}
	f.cleanJSON(&m.Extra)
	cloned := false
	for i, p := range m.Parts {
		if f.over(p); f.out != nil {
			if !cloned {
				m.Parts, cloned = append([]Part(nil), m.Parts...), true
			}
			m.Parts[i] = f.out
		}
	}
	return m
}

func (f *pass) clean(s *string) {
	if clean := modeltext.CleanString(*s); clean != *s {
		*s, f.changed = clean, true
	}
}

func (f *pass) cleanJSON(raw *json.RawMessage) {
	if clean := modeltext.CleanJSON(*raw); len(clean) > 0 && &clean[0] != &(*raw)[0] {
		*raw, f.changed = clean, true
	}
}
