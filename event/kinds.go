package event

import (
	"fmt"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

// kinds are the types of events, but for Nested, which holds one of them, and
// Other. A test sees that none is missing.
var kinds = []kind{
	plain[TextDelta]("text_delta"),
	plain[ReasoningDelta]("reasoning_delta"),
	formed("message", formMessage, messageForm.event),
	formed("call", formCall, callForm.event),
	plain[Started]("started"),
	plain[Progress]("progress"),
	formed("result", formResult, resultForm.event),
	plain[Artifact]("artifact"),
	formed("pause", formPause, pauseForm.event),
	plain[Parked]("parked"),
	plain[Handoff]("handoff"),
	plain[Undriven]("undriven"),
	formed("retry", formRetry, retryForm.event),
	formed("end", formEnd, endForm.event),
}

const nestedName = "nested"

var nested = formed(nestedName, formNested, nestedForm.event)

// kind is one of the types of events.
type kind struct {
	name string // in JSON
	// write returns the JSON of an event, if it is of the kind.
	write func(Event) (text []byte, is bool, err error)
	read  func([]byte) (Event, error)
}

// plain is a kind whose form is the event itself.
func plain[E Event](name string) kind {
	same := func(ev E) (E, error) { return ev, nil }
	return formed(name, same, same)
}

// formed is a kind with a form of its own: a record, of which at least one
// member is always there.
func formed[E Event, F any](name string, to func(E) (F, error), from func(F) (E, error)) kind {
	return kind{
		name: name,
		write: func(ev Event) ([]byte, bool, error) {
			own, is := ev.(E)
			if !is {
				return nil, false, nil
			}
			b := strictjson.AppendString([]byte(`{"type":`), name)
			brace := len(b)
			form, err := to(own)
			if err == nil {
				b, err = strictjson.Append(b, &form)
			}
			if err != nil {
				return nil, true, fmt.Errorf("%s: %w", name, err)
			}
			b[brace] = ','
			return b, true, nil
		},
		read: func(b []byte) (Event, error) {
			var form F
			err := strictjson.Read(b, &form)
			if err == nil {
				var ev E
				if ev, err = from(form); err == nil {
					return ev, nil
				}
			}
			return nil, fmt.Errorf("%s: %w", name, err)
		},
	}
}
