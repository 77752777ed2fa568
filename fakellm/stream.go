package fakellm

import (
	"context"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/llm"
)

// stream sends a turn's events.
func (m *Model) stream(ctx context.Context, t Turn, yield func(llm.Event, error) bool) {
	events := t.sequence()
	end := len(events)
	if t.broken {
		end = min(t.cut, len(events))
	}
	for n, ev := range events[:end] {
		if err := m.before(ctx, t, n); err != nil {
			yield(nil, err)
			return
		}
		if !yield(cloneEvent(ev), nil) {
			return
		}
	}
	if !t.broken {
		return
	}
	err := m.before(ctx, t, end)
	if err == nil {
		err = t.err
	}
	if err != nil {
		yield(nil, err)
	}
}

// before returns what happens before event n, and before a stream breaks off in
// its place.
func (m *Model) before(ctx context.Context, t Turn, n int) error {
	d := t.between
	if n == 0 {
		d = t.first
	}
	if d > 0 {
		sleep := m.Sleep
		if sleep == nil {
			sleep = wait
		}
		if err := sleep(ctx, d); err != nil {
			return err
		}
	}
	if t.hook != nil {
		if err := t.hook(ctx, n); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sequence returns the turn as events. A turn that is cut has no Finish.
func (t Turn) sequence() []llm.Event {
	if t.events != nil {
		return t.events
	}
	var events []llm.Event
	var calls [][]llm.Event // those that follow one another
	index, stop := 0, llm.StopEnd
	flush := func() {
		events = append(events, t.side(calls)...)
		calls = nil
	}
	for _, p := range t.pieces {
		c, isCall := p.part.(llm.ToolCall)
		if isCall {
			stop = llm.StopToolCalls
		}
		if isCall && !p.whole {
			calls = append(calls, t.call(index, c))
			index++
			continue
		}
		flush()
		switch part := p.part.(type) {
		case llm.Text:
			if !p.whole {
				for _, s := range cutText(part.Text, t.chunk) {
					events = append(events, llm.TextDelta{Text: s})
				}
				continue
			}
		case llm.Reasoning:
			if !p.whole {
				for _, s := range cutText(part.Text, t.chunk) {
					events = append(events, llm.ReasoningDelta{Text: s})
				}
				continue
			}
		}
		events = append(events, llm.PartDone{Part: p.part})
	}
	flush()
	if t.broken {
		return events
	}
	if t.stop != "" {
		stop = t.stop
	}
	return append(events, llm.Finish{Reason: stop, Usage: t.usage})
}

// call is one call as events: what it is, then its arguments.
func (t Turn) call(index int, c llm.ToolCall) []llm.Event {
	head := llm.ToolCallDelta{Index: index, ProviderID: t.id(index), Name: c.Name}
	if t.chunk <= 0 {
		head.Arguments = string(c.Arguments)
		return []llm.Event{head}
	}
	events := []llm.Event{head}
	for args := string(c.Arguments); args != ""; {
		n := min(t.chunk, len(args))
		events, args = append(events, llm.ToolCallDelta{Index: index,
			Arguments: args[:n]}), args[n:]
	}
	return events
}

func (t Turn) id(call int) string {
	switch {
	case !t.idsSet:
		return "call_" + strconv.Itoa(call)
	case call < len(t.ids):
		return t.ids[call]
	}
	return ""
}

// side puts calls one after the other, or side by side.
func (t Turn) side(calls [][]llm.Event) []llm.Event {
	var events []llm.Event
	if !t.interleaved {
		for _, c := range calls {
			events = append(events, c...)
		}
		return events
	}
	for more := true; more; {
		more = false
		for i, c := range calls {
			if len(c) > 0 {
				events, calls[i], more = append(events, c[0]), c[1:], true
			}
		}
	}
	return events
}

// cutText cuts between characters, into pieces of at most n bytes where
// characters allow.
func cutText(s string, n int) []string {
	if n <= 0 || s == "" {
		return []string{s}
	}
	var out []string
	for s != "" {
		k := min(n, len(s))
		for k > 0 && k < len(s) && !utf8.RuneStart(s[k]) {
			k--
		}
		if k == 0 {
			_, k = utf8.DecodeRuneInString(s)
		}
		out, s = append(out, s[:k]), s[k:]
	}
	return out
}
