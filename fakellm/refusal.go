package fakellm

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/llm"
)

// Refusal is what a provider would refuse in a request, and where.
type Refusal struct {
	Message int // its index in Request.Messages; -1 where the request as a whole is at fault
	Part    int // the index of the message's part; -1 where the whole message is
	Problem string

	role    llm.Role
	excerpt string
}

// whole stands for a part, or a message, where the fault is in none in
// particular.
const whole = -1

// Error shows the problem, the place, and the transcript around it.
func (r *Refusal) Error() string {
	var at string
	if r.Message >= 0 {
		at = fmt.Sprintf("messages[%d] (%s)", r.Message, r.role)
		if r.Part >= 0 {
			at += fmt.Sprintf(" parts[%d]", r.Part)
		}
		at += ": "
	}
	return at + r.Problem + r.excerpt
}

func refuse(req llm.Request, message, part int, problem string, args ...any) error {
	r := &Refusal{Message: message, Part: part, Problem: fmt.Sprintf(problem, args...)}
	if message >= 0 {
		r.role = req.Messages[message].Role
		r.excerpt = around(req, message, part)
	}
	return r
}

// around draws the message, the one before it and the one after it, with a mark
// at the spot.
func around(req llm.Request, message, part int) string {
	var b strings.Builder
	for i := max(message-1, 0); i < min(message+2, len(req.Messages)); i++ {
		m := req.Messages[i]
		fmt.Fprintf(&b, "\n%s messages[%d] %s", mark(i == message && part == whole), i, m.Role)
		const around = 3
		from, to := 0, len(m.Parts)
		if i == message && part != whole {
			from, to = max(part-around, 0), min(part+around+1, to)
		} else {
			to = min(to, 2*around+1)
		}
		if from > 0 {
			b.WriteString("\n      ...")
		}
		for j := from; j < to; j++ {
			fmt.Fprintf(&b, "\n%s     [%d] %s", mark(i == message && j == part), j,
				render(m.Parts[j]))
		}
		if to < len(m.Parts) {
			b.WriteString("\n      ...")
		}
	}
	return b.String()
}

func mark(here bool) string {
	if here {
		return ">"
	}
	return " "
}

// render returns a part on one line: its JSON form, cut short.
func render(p llm.Part) string {
	const most = 120 // bytes
	if v := reflect.ValueOf(p); v.IsValid() && v.Kind() != reflect.Pointer {
		if raw, err := p.MarshalJSON(); err == nil {
			return excerpt.To(strings.ReplaceAll(string(raw), "\n", " "), most)
		}
	}
	return fmt.Sprintf("%T", p)
}
