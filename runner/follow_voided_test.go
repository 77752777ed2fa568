package runner

import (
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
)

// A message of the model and an end make a follower forget what it was shown of
// one that is still being said. It is shown all of that again.
func TestWhatIsForgottenIsSaidAgain(t *testing.T) {
	var l live
	l.feeds = map[string]*feed{}
	feed, closeFeed := l.open("chat")
	defer closeFeed()
	f := &follower{place: place{number: 3}, tap: feed.tap(), stays: true}
	f.from, f.yield = f, func(event.Event, error) bool { return true }
	defer f.tap.close()
	known := func(value any) *read {
		r := &read{done: make(chan struct{}), value: value}
		close(r.done)
		return r
	}
	v := &view{st: &session.State{Messages: 4}, reads: map[readName]*read{
		{kind: "history", from: 3}: known([]llm.Message{llm.AssistantText("Earlier.")}),
		{kind: "end"}:              known(event.End{Finish: event.FinishStop}),
	}}
	feed.begins(1, 7, 5)
	feed.say(false, "Hello.")
	said := func(behind string) {
		t.Helper()
		events, _ := f.tap.heard(f.place.number, 7)
		if len(events) != 1 || events[0] != (event.TextDelta{Delta: "Hello.", Start: true}) {
			t.Errorf("behind %s it is shown %v", behind, events)
		}
	}
	said("nothing")
	if err := f.messages(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	said("a message")
	if err := f.rests(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	said("an end")
}
