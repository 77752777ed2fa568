package event

import (
	"encoding/json"
	"time"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// The forms of events that hold what has a form of its own, which is given
// here as raw JSON: so it goes out byte for byte.

type messageForm struct {
	Number  int             `json:"number"`
	Message json.RawMessage `json:"message"`
	Cursor  string          `json:"cursor,omitempty"`
}

func formMessage(ev Message) (f messageForm, err error) {
	f.Number, f.Cursor = ev.Number, ev.Cursor
	f.Message, err = ev.Message.AppendJSON(nil)
	return f, err
}

func (f messageForm) event() (ev Message, err error) {
	ev.Number, ev.Cursor = f.Number, f.Cursor
	return ev, ev.Message.UnmarshalJSON(f.Message)
}

type callForm struct {
	Call json.RawMessage `json:"call"`
}

func formCall(ev Call) (f callForm, err error) {
	f.Call, err = ev.Call.MarshalJSON()
	return f, err
}

func (f callForm) event() (ev Call, err error) {
	return ev, ev.Call.UnmarshalJSON(f.Call)
}

type resultForm struct {
	Index      int             `json:"index"`
	Status     Status          `json:"status"`
	Result     json.RawMessage `json:"result"`
	Actor      string          `json:"actor,omitempty"`
	DurationMS float64         `json:"duration_ms,omitzero"`
	Cursor     string          `json:"cursor,omitempty"`
}

func formResult(ev Result) (f resultForm, err error) {
	f = resultForm{Index: ev.Index, Status: ev.Status, Actor: ev.Actor,
		DurationMS: milliseconds(ev.Duration), Cursor: ev.Cursor}
	f.Result, err = ev.Result.MarshalJSON()
	return f, err
}

func (f resultForm) event() (ev Result, err error) {
	ev = Result{Index: f.Index, Status: f.Status, Actor: f.Actor, Cursor: f.Cursor}
	if ev.Duration, err = duration(f.DurationMS); err != nil {
		return ev, err
	}
	return ev, ev.Result.UnmarshalJSON(f.Result)
}

// MarshalJSON is for an event within a value of the caller's: it is the form of
// [Marshal] without the type. The Duration is in milliseconds, which the field's
// own form isn't.
func (ev Result) MarshalJSON() ([]byte, error) {
	f, err := formResult(ev)
	if err != nil {
		return nil, err
	}
	return strictjson.Append(nil, &f)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (ev *Result) UnmarshalJSON(text []byte) error {
	var f resultForm
	err := strictjson.Read(text, &f)
	if err == nil {
		*ev, err = f.event()
	}
	return err
}

// plainPause is a pause as a record. Its members are those of a pause's JSON.
type plainPause tool.Pause

func readPause(text []byte) (p tool.Pause, err error) {
	if err := strictjson.Read(text, new(plainPause)); err != nil {
		return p, err
	}
	return p, p.UnmarshalJSON(text) // and what follows from the members
}

type pauseForm struct {
	Pause  json.RawMessage `json:"pause"`
	Cursor string          `json:"cursor,omitempty"`
}

func formPause(ev Pause) (f pauseForm, err error) {
	f.Cursor = ev.Cursor
	f.Pause, err = strictjson.Append(nil, plainPause(ev.Pause))
	return f, err
}

func (f pauseForm) event() (ev Pause, err error) {
	ev.Cursor = f.Cursor
	ev.Pause, err = readPause(f.Pause)
	return ev, err
}

type nestedForm struct {
	Path    []tool.PathStep `json:"path"`
	Session string          `json:"session"`
	Agent   string          `json:"agent"`
	Event   json.RawMessage `json:"event"`
}

func formNested(ev Nested) (f nestedForm, err error) {
	f = nestedForm{Path: ev.Path, Session: ev.Session, Agent: ev.Agent}
	f.Event, err = marshalFlat(ev.Event)
	return f, err
}

func (f nestedForm) event() (ev Nested, err error) {
	ev = Nested{Path: f.Path, Session: f.Session, Agent: f.Agent}
	name, err := typeOf(f.Event)
	if err == nil {
		ev.Event, err = unmarshalFlat(name, f.Event)
	}
	return ev, err
}

type endForm struct {
	Session     string            `json:"session"`
	Finish      Finish            `json:"finish"`
	Why         string            `json:"why,omitempty"`
	Pending     []json.RawMessage `json:"pending,omitempty"`
	MorePending bool              `json:"more_pending,omitzero"`
	Parked      []Parked          `json:"parked,omitempty"`
	Until       time.Time         `json:"until,omitzero"`
	Usage       llm.Usage         `json:"usage,omitzero"`
	Cursor      string            `json:"cursor,omitempty"`
}

func formEnd(ev End) (f endForm, err error) {
	f = endForm{Session: ev.Session, Finish: ev.Finish, Why: ev.Why, MorePending: ev.MorePending,
		Parked: ev.Parked, Until: ev.Until, Usage: ev.Usage,
		Cursor: ev.Cursor}
	for _, p := range ev.Pending {
		text, err := strictjson.Append(nil, plainPause(p))
		if err != nil {
			return f, err
		}
		f.Pending = append(f.Pending, text)
	}
	return f, nil
}

func (f endForm) event() (ev End, err error) {
	ev = End{Session: f.Session, Finish: f.Finish, Why: f.Why, MorePending: f.MorePending,
		Parked: f.Parked, Until: f.Until, Usage: f.Usage,
		Cursor: f.Cursor}
	for _, text := range f.Pending {
		p, err := readPause(text)
		if err != nil {
			return ev, err
		}
		ev.Pending = append(ev.Pending, p)
	}
	return ev, nil
}
