package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// display makes lines of events. The model's text stands at the margin; all
// else is indented, and begins with a word for its kind: "kept" is for what has
// become durable.
type display struct {
	w        io.Writer
	terminal bool
	dim, off string // escape sequences, if any

	speaking event.Event          // the kind of text whose line is not ended
	reported map[string]time.Time // the progress that was shown last, by call
	bar      string               // the call whose bar is the last line
}

func newDisplay(s *screen) *display {
	d := &display{w: s, terminal: s.tty != nil, reported: map[string]time.Time{}}
	if d.terminal && os.Getenv("NO_COLOR") == "" {
		d.dim, d.off = "\x1b[2m", "\x1b[0m"
	}
	return d
}

// Line shows one thing.
func (d *display) Line(word, format string, args ...any) {
	d.pause()
	d.bar = ""
	fmt.Fprintf(d.w, "%s  %-8s%s%s\n", d.dim, word, clean(fmt.Sprintf(format, args...)), d.off)
}

// Say shows a line at the margin.
func (d *display) Say(format string, args ...any) {
	d.pause()
	d.bar = ""
	fmt.Fprintln(d.w, clean(fmt.Sprintf(format, args...)))
}

// Event shows an event. The caller shows the end of a run.
func (d *display) Event(ev event.Event) {
	switch ev := ev.(type) {
	case event.TextDelta:
		if _, ok := d.speaking.(event.TextDelta); !ok {
			d.pause()
			d.speaking = ev
		}
		fmt.Fprint(d.w, clean(ev.Delta))
	case event.ReasoningDelta:
		if _, ok := d.speaking.(event.ReasoningDelta); !ok {
			d.pause()
			fmt.Fprintf(d.w, "%s  %-8s", d.dim, "thinks")
			d.speaking = ev
		}
		fmt.Fprint(d.w, strings.ReplaceAll(clean(ev.Delta), "\n", "\n          "))
	case event.Message:
		d.message(ev)
	case event.Call:
		d.Line("calls", "%s %s", ev.Call.Name, short(ev.Call.Arguments))
	case event.Pause:
		d.Line("kept", "%s", waits(ev.Pause))
	case event.Progress:
		d.Progress(ev.Call, ev.Tool, ev.Progress)
	case event.Result:
		d.reported[ev.Result.Call] = noMore // another goroutine tells of progress, and may be late
		d.Result(ev.Result.Name, ev.Result.Output, ev.Status)
	case event.Artifact:
		d.Line("made", "%s, by %s", ev.Artifact.Name, ev.Tool)
	case event.Retry:
		d.Line("again", "in %v, since the model failed (%s)",
			time.Until(ev.At).Round(100*time.Millisecond), kind(ev.Err))
	}
}

// pause ends a line of the model's text.
func (d *display) pause() {
	switch d.speaking.(type) {
	case event.TextDelta:
		fmt.Fprintln(d.w)
	case event.ReasoningDelta:
		fmt.Fprintln(d.w, d.off)
	}
	d.speaking = nil
}

func (d *display) message(m event.Message) {
	switch calls := len(m.Message.ToolCalls()); {
	case m.Message.Role == llm.RoleTool:
		notices := len(m.Message.Notices())
		what := count(len(m.Message.Parts)-notices, "result")
		if notices > 0 {
			what += " and " + count(notices, "notice")
		}
		d.Line("kept", "message %d: %s", m.Number, what)
	case calls > 0:
		d.Line("kept", "message %d: the model's, with %s", m.Number, count(calls, "call"))
	default:
		d.Line("kept", "message %d: the model's", m.Number)
	}
}

// Result shows the result of a call.
func (d *display) Result(name string, output json.RawMessage, s event.Status) {
	how := ""
	if s != event.Done {
		how = fmt.Sprintf(" (%s)", s)
	}
	d.Line("result", "%s %s%s", name, short(output), how)
}

// Answered shows an answer that has become durable.
func (d *display) Answered(p tool.Pause, r session.Receipt) {
	what := "the answer to"
	if r.Kind == session.KindCancel {
		what = "the cancellation of"
	}
	d.Line("kept", "%s %s, by %s", what, p.Tool, r.Actor)
}

// noMore is after every report.
var noMore = time.Unix(1<<40, 0)

// Progress shows a bar, in the place of the one before it.
func (d *display) Progress(call, name string, p tool.Progress) {
	if !p.At.After(d.reported[call]) {
		return
	}
	d.reported[call] = p.At
	up := ""
	if d.terminal && d.bar == call {
		up = "\x1b[1A\r\x1b[2K"
	}
	d.pause()
	const width = 20
	n := int(p.Fraction*width + 0.5)
	bar := strings.Repeat("#", n) + strings.Repeat("-", width-n)
	fmt.Fprintf(d.w, "%s  %-8s[%s] %3.0f %%  %s: %s\n",
		up, "job", bar, 100*p.Fraction, name, clean(p.Message))
	d.bar = call
}

// Usage shows what a run has cost so far.
func (d *display) Usage(u llm.Usage) {
	if u == (llm.Usage{}) {
		d.Line("tokens", "none reported")
		return
	}
	d.Line("tokens", "%d in, %d of them cached; %d out, %d of them reasoning", u.Input, u.Cached,
		u.Output, u.Reasoning)
}
