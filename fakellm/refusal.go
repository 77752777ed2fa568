package fakellm

import (
	"fmt"
	"strings"
	"unicode/utf8"

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

// whole stands for a part, or a message, where the fault is in none in particular.
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
		r.excerpt = excerpt(req, message, part)
	}
	return r
}

// excerpt draws the message, the one before it and the one after it, with a mark at the spot.
func excerpt(req llm.Request, message, part int) string {
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
			fmt.Fprintf(&b, "\n%s     [%d] %s", mark(i == message && j == part), j, render(m.Parts[j]))
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

// render is a part on one line.
func render(p llm.Part) string {
	switch p := p.(type) {
	case llm.Text:
		return "text " + short(p.Text)
	case llm.Reasoning:
		return "reasoning " + short(p.Text)
	case llm.ToolCall:
		return fmt.Sprintf("tool_call %q %q %s", p.ID, p.Name, short(string(p.Arguments)))
	case llm.ToolResult:
		kind := "tool_result"
		if p.Error {
			kind = "tool_result (error)"
		}
		return fmt.Sprintf("%s %q %q %s", kind, p.Call, p.Name, short(string(p.Output)))
	case llm.Media:
		return fmt.Sprintf("media %q %d bytes %s", p.MediaType, len(p.Data), short(p.URL))
	case llm.Opaque:
		return "opaque of " + p.Native.Provider
	case llm.Unknown:
		return "unknown " + short(string(p.Raw))
	}
	return fmt.Sprintf("%T", p)
}

// short quotes s, cut after some 60 bytes. JSON stays legible: it is put between backquotes.
func short(s string) string {
	const most = 60
	more := ""
	if len(s) > most {
		n := most
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s, more = s[:n], "..."
	}
	if strings.ContainsAny(s, "`\n\r") || !utf8.ValidString(s) {
		return fmt.Sprintf("%q%s", s, more)
	}
	return "`" + s + "`" + more
}
