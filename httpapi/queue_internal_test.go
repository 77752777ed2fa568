package httpapi

import (
	"errors"
	"testing"

	"github.com/fermata-ai/fermata/event"
)

// broken is a format that can't show texts.
type broken struct{}

func (broken) frames(ev event.Event) ([]frame, error) {
	if _, ok := ev.(event.TextDelta); ok {
		panic("no texts")
	}
	return []frame{{data: []byte("{}")}}, nil
}

func (broken) fails(error) []frame { return nil }
func (broken) closes() []frame     { return nil }

// A format that panics ends neither the process nor the run: the event is an
// error in its place.
func TestFormatThatPanics(t *testing.T) {
	ranged := 0
	q := newQueue()
	q.drive(broken{}, func(yield func(event.Event, error) bool) {
		for _, ev := range []event.Event{event.Call{}, event.TextDelta{}, event.End{}} {
			if ranged++; !yield(ev, nil) {
				return
			}
		}
	})
	items, over := q.take()
	if ranged != 3 || !over || len(items) != 3 || items[0].err != nil || items[1].err == nil ||
		items[2].err != nil {
		t.Errorf("%d events are ranged over, and come to %v, %v", ranged, items, over)
	}
}

// A run is ranged over to its end, whether its client is too slow, gone, or sees
// an error.
func TestRunsAreRangedOverToTheirEnd(t *testing.T) {
	large := event.Handoff{From: string(make([]byte, queued))}
	for name, begin := range map[string]func(*queue){
		"slow": func(*queue) {}, "gone": (*queue).leave,
	} {
		ranged := 0
		q := newQueue()
		begin(q)
		q.drive(&plainFormat{v: &visit{}}, func(yield func(event.Event, error) bool) {
			for range 5 {
				if ranged++; !yield(large, nil) || !yield(nil, errors.New("x")) {
					return
				}
			}
		})
		items, over := q.take()
		if ranged != 5 || !over || len(items) > 2 {
			t.Errorf("%s: %d events are ranged over, and %d items wait, %v", name, ranged, len(items), over)
		}
	}
}
