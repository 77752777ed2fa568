package tool

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/llm"
)

// afterError is what went wrong after a tool's body had returned: its result
// has no JSON form or is too large, it asked for a pause that it may not have,
// a layer failed behind it. The model then has to know that the tool ran, or it
// pays twice.
type afterError struct {
	tool   string
	effect Effect
	err    error
}

// after returns err as an afterError, unless it is one. A refusal that comes so
// late is none any more: [IsDenied] is false of what after returns.
func after(tool string, e Effect, err error) error {
	if _, ok := errors.AsType[*afterError](err); ok {
		return err
	}
	if denied, ok := errors.AsType[*deniedError](err); ok {
		err = errors.New("it was refused afterwards")
		if denied.reason != "" {
			err = fmt.Errorf("%w: %s", err, denied.reason)
		}
	}
	return &afterError{tool, e, err}
}

// After returns the error of a layer that failed behind a tool's body.
func (b *box) After(tool string, e Effect, err error) error { return after(tool, e, err) }

func (e *afterError) Error() string {
	s := fmt.Sprintf("%s ran, but what came of it could not be taken: %s.",
		e.tool, strings.TrimRight(e.err.Error(), "."))
	switch {
	case e.effect.NeedsClaim():
		return s + " Its effects stand. Do not call it again for the same."
	case errors.Is(e.err, ErrInvalidAwait):
		return s + " That is a mistake in the tool. Do not call it again in the same way."
	}
	return s + " It may be called again."
}

func (e *afterError) Unwrap() error { return e.err }

// spoiled marks the error of a function that returned without one of its own.
type spoiled struct{ error }

func (u spoiled) Unwrap() error { return u.error }

// ran reports whether err came after a body's function had returned.
func ran(err error) bool {
	var u spoiled
	return errors.As(err, &u)
}

// fitting returns the actions that the limit of a result's size allows, and a
// note in place of the others. The output is kept in any case.
func fitting(actions []Action, limit int) []Action {
	sizes, size := sizes(actions)
	if size <= limit {
		return actions
	}
	var kept []Action
	var artifacts, media leftOut
	size = 0
	for i, a := range actions {
		n := sizes[i]
		switch {
		case size+n <= limit:
			size += n
			kept = append(kept, a)
		case a.Media != nil:
			media.add(a.Media.Name, n)
		default:
			artifacts.add(a.Artifact.Name, n)
		}
	}
	if artifacts.count > 0 {
		note := artifacts.note(limit)
		kept = append(kept,
			Action{Artifact: &Artifact{Name: noteName, MediaType: noteType, Data: []byte(note)}})
	}
	if media.count > 0 {
		note := media.note(limit)
		kept = append(kept,
			Action{Media: &llm.Media{Name: note, MediaType: noteType, Data: []byte(note)}})
	}
	return kept
}

// leftOut counts the actions that a note stands for.
type leftOut struct {
	count, bytes int
	first        string // its name
}

func (l *leftOut) add(name string, size int) {
	if l.count == 0 {
		l.first = excerpt.Of(name)
	}
	l.count++
	l.bytes += size
}

func (l *leftOut) note(limit int) string {
	what := fmt.Sprintf("%q was left out", l.first)
	if l.count > 1 {
		what = fmt.Sprintf("%q and %d more were left out", l.first, l.count-1)
	}
	return fmt.Sprintf("%s: %d bytes, and at most %d"+noteEnd, what, l.bytes, limit)
}

const (
	noteName = "left out"
	noteType = "text/plain"
	noteEnd  = " are taken beside a result"
	maxNote  = 1 << 10 // bytes; no note is as long
)

// isNote reports whether an action is a note, as far as can be seen.
func (a Action) isNote() bool {
	if f := a.Artifact; f != nil {
		return f.Name == noteName && f.MediaType == noteType && f.URL == "" &&
			len(f.Data) <= maxNote && bytes.HasSuffix(f.Data, []byte(noteEnd))
	}
	m := a.Media
	return m.Name == string(m.Data) && m.MediaType == noteType && m.URL == "" &&
		len(m.Data) <= maxNote && strings.HasSuffix(m.Name, noteEnd)
}

// sizes returns what actions count towards the limit, in bytes, each and
// together. One note for artifacts and one for media count nothing: what a body
// made is bounded once, and then again behind the layers.
func sizes(actions []Action) (each []int, all int) {
	var artifacts, media bool // have their note
	for _, a := range actions {
		n := a.size()
		noted := &media
		if a.Artifact != nil {
			noted = &artifacts
		}
		if !*noted && a.isNote() {
			*noted, n = true, 0
		}
		each = append(each, n)
		all += n
	}
	return each, all
}

// size returns how large an action is, in bytes.
func (a Action) size() int {
	if m := a.Media; m != nil {
		return len(m.Name) + len(m.MediaType) + len(m.Data) + len(m.URL)
	}
	f := a.Artifact
	return len(f.Name) + len(f.MediaType) + len(f.Data) + len(f.URL)
}
