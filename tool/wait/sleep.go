package wait

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/waits"
	"github.com/fermata-ai/fermata/internal/zoned"
	"github.com/fermata-ai/fermata/tool"
)

// sleep waits for a time.
type sleep struct{ base }

type sleepInput struct {
	Duration *millis         `json:"durationMs"`
	Until    json.RawMessage `json:"until"`
	Label    *string         `json:"label"`
}

// slept is what a sleep's pause keeps: when it began, and how long it is to be.
type slept struct {
	Start    time.Time     `json:"start"`
	Duration time.Duration `json:"ns"`
}

// Execute waits in place, or asks for a pause until the time. Entered again
// after that, it tells how long it was.
func (s *sleep) Execute(ctx context.Context, c tool.Call) (tool.Execution, error) {
	in, err := input[sleepInput](c)
	if err != nil {
		return tool.Execution{}, err
	}
	var w slept
	if c.Answer != nil {
		if err := json.Unmarshal(c.Answer.Data, &w); err != nil {
			return tool.Execution{}, err
		}
		return s.slept(c, in, w)
	}
	w.Start = waits.Now(c)
	if w.Duration, err = in.duration(w.Start); err != nil {
		return tool.Execution{}, err
	}
	switch {
	case w.Duration > s.config.MaxSleep:
		return tool.Execution{}, waits.Errorf("%dms is too long: at most %dms (%s) are slept.",
			waits.MS(w.Duration), waits.MS(s.config.MaxSleep), waits.Duration(s.config.MaxSleep))
	case w.Duration > s.config.InPlace:
		return w.pause()
	case w.Duration > 0:
		over := time.NewTimer(w.Duration)
		defer over.Stop()
		select {
		case <-over.C:
		case <-ctx.Done(): // where the process ends, another one sleeps on
			return w.pause()
		}
	}
	return s.slept(c, in, w)
}

// pause has the sleep go on without a goroutine.
func (w *slept) pause() (tool.Execution, error) {
	data, err := json.Marshal(w)
	return tool.Execution{Await: &tool.Await{Reason: tool.ReasonTimer, Mode: tool.ModeReenter,
		Deadline: w.Start.Add(w.Duration), Data: data}}, err
}

func (s *sleep) slept(c tool.Call, in sleepInput, w slept) (tool.Execution, error) {
	end := waits.Now(c)
	return reply(waits.Slept{Success: true, Label: in.Label, Requested: waits.MS(w.Duration),
		Actual: waits.MS(max(0, end.Sub(w.Start))), Start: waits.Time(w.Start), End: waits.Time(end)})
}

// duration returns how long to sleep from now on; zero or less: not at all.
func (in *sleepInput) duration(now time.Time) (time.Duration, error) {
	until := len(in.Until) > 0 && string(in.Until) != "null"
	switch {
	case until && in.Duration != nil:
		return 0, waits.Errorf("There are durationMs and until: give one of them.")
	case in.Duration != nil:
		return in.Duration.duration(), nil
	case !until:
		return 0, waits.Errorf("There is neither durationMs nor until: give one of them.")
	}
	at, err := readTime(in.Until)
	if err != nil {
		return 0, waits.Errorf("until: %v", err)
	}
	return at.Sub(now), nil
}

// readTime reads a time: RFC 3339, or a date and a time in a zone.
func readTime(raw json.RawMessage) (time.Time, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			err = fmt.Errorf("%q is no time by RFC 3339, such as 2006-01-02T15:04:05Z",
				excerpt.Of(text))
		}
		return at, err
	}
	var shown struct{ Date, Time, Zone string }
	if err := json.Unmarshal(raw, &shown); err != nil {
		return time.Time{}, err
	}
	return zoned.At(shown.Date, shown.Time, shown.Zone)
}
