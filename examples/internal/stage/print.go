package stage

import (
	"bufio"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// Step begins the next part of what is shown. The parent alone counts them.
func Step(title string) {
	steps++
	fmt.Printf("\n%d  %s\n\n", steps, title)
}

var steps int

// Line shows one thing: how it is known, what it is about, and the rest.
func Line(known, about, format string, args ...any) {
	fmt.Printf("   %-10s %-11s %s\n", known, about, fmt.Sprintf(format, args...))
}

var input = bufio.NewScanner(os.Stdin)

// Prompt asks the person at the terminal for a line.
func Prompt(question string) string {
	for {
		fmt.Printf("\n   %s\n   > ", question)
		if !input.Scan() {
			fmt.Println()
			Check(input.Err())
			Check(errors.New("the input ended, and an answer was expected"))
		}
		if line := strings.TrimSpace(input.Text()); line != "" {
			fmt.Println()
			return line
		}
	}
}

// Events shows what was committed while a run went on, and returns its end.
func Events(events iter.Seq2[event.Event, error]) (end event.End) {
	for ev, err := range events {
		Check(err)
		switch ev := ev.(type) {
		case event.Message:
			if ev.Message.Role == llm.RoleAssistant { // results were shown one by one
				message("committed", ev.Message)
			}
		case event.Result:
			result("committed", ev.Result)
		case event.Pause:
			pause("committed", ev.Pause)
		case event.End:
			end = ev
		}
	}
	return end
}

// Messages shows messages, a line for each of their parts.
func Messages(known string, ms []llm.Message) {
	for _, m := range ms {
		message(known, m)
	}
}

func message(known string, m llm.Message) {
	for _, p := range m.Parts {
		switch p := p.(type) {
		case llm.Text:
			Line(known, string(m.Role), "%q", p.Text)
		case llm.ToolCall:
			Line(known, string(m.Role), "calls %s %s", p.Name, p.Arguments)
		case llm.ToolResult:
			result(known, p)
		}
	}
}

func result(known string, r llm.ToolResult) {
	failed := ""
	if r.Error {
		failed = " (an error)"
	}
	Line(known, "result", "of %s: %s%s", r.Name, r.Output, failed)
}

func pause(known string, p tool.Pause) {
	what := string(p.Await.Reason)
	if p.Await.Key != "" {
		what += " " + p.Await.Key
	}
	until := ""
	if !p.Deadline.IsZero() {
		until = ", until " + p.Deadline.Local().Format(time.TimeOnly)
	}
	Line(known, "pause", "%s waits: %s%s", p.Tool, what, until)
}

// Session shows a session, and what it waits for.
func Session(known string, t runner.Transcript) {
	Line(known, "session", "%s of %s: %s, %d messages", t.ID, t.User, t.Finish, t.Messages)
	for _, p := range t.Pending {
		pause(known, p)
	}
}

// Call shows what was answered to a call; before that, how far it is.
func Call(known string, c runner.CallStatus, p tool.Pause) {
	for i, r := range c.Receipts {
		Line(known, "receipt", "%d of %d: %s %s by %s", i+1, len(c.Receipts), c.Tool, r.Kind, r.By)
	}
	if len(c.Receipts) == 0 && p.Progress != nil {
		progress(known, *p.Progress)
	}
}

func progress(known string, p tool.Progress) {
	const width = 20
	n := int(p.Fraction*width + 0.5)
	Line(known, "progress", "[%s%s] %3.0f %%  %s", strings.Repeat("#", n), strings.Repeat("-", width-n), 100*p.Fraction, p.Message)
}
