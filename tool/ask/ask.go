// Package ask has a tool with which the model asks the person that it works
// for. The call waits until the person answers, and the answer is its result.
//
// It is for what only a person can tell, at a time that the model chooses. What
// a person has to decide whenever a certain tool is called is an approval, and
// no affair of the model: see package interceptor. A tool that asks in the
// course of its own work is a [tool.Resumable].
package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/tool"
)

// Where things are: ask.go (the tool), input.go (what the model writes, and
// what a person reads of it), form.go and keywords.go (schemas of answers),
// witness.go (whether anything fits them).

// Kind is what a question is about. It stands in [tool.Await.Question].
type Kind string

// The kinds, and what answers them.
const (
	Clarification Kind = "clarification" // a text
	Decision      Kind = "decision"      // one of the options that the model gives
	Information   Kind = "information"   // an object, by a JSON Schema that the model gives
	Confirmation  Kind = "confirmation"  // "yes" or "no"
)

// kinds are all of them, in the order in which the model is told of them.
var kinds = []Kind{Clarification, Decision, Information, Confirmation}

// Options configure the tool of User. Nil means the defaults.
type Options struct {
	// Name is the tool's name; default: ask_user.
	Name string
	// Description is added to what the model is told of the tool: when to ask,
	// for example, and when not to.
	Description string
	// Kinds are those that the model may ask; default: all.
	Kinds []Kind
	// NextMessage has the user's next message answer a clarification, as in a
	// chat. Other questions are answered by runner.Complete; so are these, too.
	NextMessage bool
	// Timeout is how long a question waits; zero: for ever. When it is over,
	// the call fails, and the model reads Unanswered.
	Timeout time.Duration
	// Unanswered is what the model is told when no answer came within Timeout;
	// default: to go on without one, if it can.
	Unanswered string
}

// User returns the tool. The model calls it with a kind, a question, and what
// goes with the kind. What could not be answered is refused at once, in words
// that the model can act on. The pause is of reason input and names the kind;
// its prompt has the question, and what may be answered, as a person reads it;
// its schema is that of the answer; its data is an [Asked], for programs that
// show a form.
func User(o *Options) (tool.Tool, error) {
	if o == nil {
		o = &Options{}
	}
	u := &user{Options: *o}
	u.Kinds = slices.Clone(o.Kinds)
	if u.Name == "" {
		u.Name = "ask_user"
	}
	if len(u.Kinds) == 0 {
		u.Kinds = kinds
	}
	for i, k := range u.Kinds {
		if !slices.Contains(kinds, k) || slices.Index(u.Kinds, k) != i {
			return nil, fmt.Errorf("ask: tool %q: kinds %q: each is one of %q, and stands there once",
				u.Name, u.Kinds, kinds)
		}
	}
	switch {
	case u.Timeout < 0:
		return nil, fmt.Errorf("ask: tool %q: the timeout %v is negative", u.Name, u.Timeout)
	case u.Timeout == 0 && u.Unanswered != "":
		return nil, fmt.Errorf("ask: tool %q: Unanswered is set, and no Timeout says when that is",
			u.Name)
	case u.NextMessage && !slices.Contains(u.Kinds, Clarification):
		return nil, fmt.Errorf("ask: tool %q: NextMessage is for clarifications, "+
			"and the kinds are %q", u.Name, u.Kinds)
	case u.Unanswered == "":
		u.Unanswered = fmt.Sprintf("No answer came within %v. Go on without an answer if you can, "+
			"and say what you assume. Do not ask the same again until the user writes.", u.Timeout)
	}
	return tool.Func(tool.Spec{
		Name: u.Name, Description: u.describe(), Input: u.inputSchema(),
		Effect: tool.ReadOnly, MayPause: true,
	}, u.ask)
}

// user is the tool, its options filled in.
type user struct{ Options }

// ask is the tool's function. An answer is the call's result and doesn't come
// here. So the function is entered once, and again only where none came.
func (u *user) ask(ctx context.Context, in input) (tool.Result[json.RawMessage], error) {
	if tool.TimedOut(ctx) {
		return nil, errors.New(u.Unanswered)
	}
	asked, err := u.judge(in)
	if err != nil {
		return nil, fmt.Errorf("the question was not asked: %w; correct that and ask again", err)
	}
	await := tool.Await{
		Reason: tool.ReasonInput, Mode: tool.ModeOutput, Question: string(asked.Kind),
		Prompt: asked.prompt(), Schema: asked.schema,
	}
	if await.Data, err = jsontree.Encode(asked); err != nil {
		return nil, err
	}
	if asked.Kind == Clarification && u.NextMessage {
		await.Mode = tool.ModeMessage
	}
	if u.Timeout > 0 {
		await.Timeout, await.OnTimeout = u.Timeout, tool.ReenterOnTimeout
	}
	return tool.Pending[json.RawMessage](await), nil
}
