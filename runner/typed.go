package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// FromText makes the answer to an open pause from what a person typed, white
// space around it left out. Text that doesn't fit is a *session.PayloadError,
// as Resume gives it, and the pause stays open; a pause that isn't open is
// session.ErrNotPaused.
//
// Where a decision is wanted, in letters of any case:
//
//	y, yes          approves the arguments that were shown
//	yes {"a": 1}    approves those arguments in place of them
//	n, no           denies
//	no, too late    denies, and what follows is why; also: no: too late, no too late
//
// Anything else is neither: "yes, but only half of it", "ok", and arguments
// alone approve nothing.
//
// Otherwise the text is the answer as it stands, or as the JSON that it is:
// whichever the pause's schema takes. Where it takes both, a string is what was
// typed, quotes included, and everything else is JSON. The answer to a question
// that takes the user's next message is always a string.
func FromText(p tool.Pause, actor Actor, text string) (Resumption, error) {
	text = strings.TrimSpace(text)
	misfit := func(err error) (Resumption, error) {
		return Resumption{}, &session.PayloadError{Pause: p.ID, Err: err}
	}
	switch {
	case p.Await.Reason == "":
		return Resumption{}, fmt.Errorf("%w: %s", session.ErrNotPaused, p.ID)
	case text == "":
		return misfit(errors.New("nothing was typed"))
	case p.Await.Gate != "" || p.Await.Reason == tool.ReasonApproval:
		d, err := typedDecision(text)
		if err != nil {
			return misfit(err)
		}
		return Resumption{Pause: p.ID, Actor: actor, Decision: d}, nil
	}
	fits, err := schema.Compile(p.Await.Schema)
	if err != nil {
		return Resumption{}, fmt.Errorf("runner: pause %s: %w", p.ID, err)
	}
	payload := json.RawMessage(session.StringBlob(text).JSON())
	if p.Await.Mode != tool.ModeMessage {
		if payload, err = typedAnswer(fits, payload, text); err != nil {
			return misfit(err)
		}
	}
	return Complete(p.ID, actor, payload), nil
}

// errNoDecision is what a person reads who typed neither yes nor no.
var errNoDecision = errors.New(`neither yes nor no: "yes" alone approves, ` +
	`"yes" and a JSON object approves other arguments, "no" and perhaps a reason denies`)

// typedDecision reads a decision. Text that may mean something else is never an
// approval.
func typedDecision(text string) (*tool.Decision, error) {
	end := strings.IndexFunc(text, unicode.IsSpace)
	if end < 0 {
		end = len(text)
	}
	word, rest := strings.ToLower(text[:end]), strings.TrimSpace(text[end:])
	switch {
	case word != "y" && word != "yes":
		if word = strings.TrimRight(word, ",:;."); word == "n" || word == "no" {
			return &tool.Decision{Reason: rest}, nil
		}
	case rest == "":
		return &tool.Decision{Approved: true}, nil
	case rest[0] == '{' && json.Valid([]byte(rest)):
		return &tool.Decision{Approved: true, Arguments: json.RawMessage(rest)}, nil
	}
	return nil, errNoDecision
}

// typedAnswer returns a text as it stands, or as the JSON that it is, by what
// fits.
func typedAnswer(
	fits *schema.Schema, verbatim json.RawMessage, text string,
) (json.RawMessage, error) {
	textErr := fits.ValidateResult(verbatim)
	if !json.Valid([]byte(text)) {
		return verbatim, textErr
	}
	value := json.RawMessage(text)
	valueErr := fits.ValidateResult(value)
	if textErr == nil && (valueErr != nil || text[0] == '"') {
		return verbatim, nil
	}
	return value, valueErr
}
