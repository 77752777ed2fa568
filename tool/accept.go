package tool

import (
	"encoding/json"
	"fmt"

	"github.com/fermata-ai/fermata/internal/modeltext"
	"github.com/fermata-ai/fermata/internal/strictjson"
)

// accept returns what a body returned, in its normal form, or the error of what
// is wrong with it.
func (in attempt) accept(exec Execution) (Execution, error) {
	if err := checkActions(in.spec.Name, exec.Actions); err != nil {
		return exec, err
	}
	exec.Actions = fitting(exec.Actions, in.limits.Result)
	if exec.Await != nil {
		await, err := in.acceptAwait(*exec.Await)
		return Execution{Await: &await, Actions: exec.Actions, Handle: exec.Handle}, err
	}
	if exec.Output = modeltext.CleanJSON(exec.Output); len(exec.Output) == 0 {
		exec.Output = json.RawMessage("null")
	}
	if n, most := len(exec.Output), exec.Handle.mostOutput(in.limits.Result); n > most {
		return exec, fmt.Errorf("the result of %s has %d bytes, at most %d are taken",
			in.spec.Name, n, most)
	}
	if tooDeep(exec.Output) {
		return exec, fmt.Errorf("the result of %s is nested more than %d deep",
			in.spec.Name, strictjson.MaxDepth)
	}
	if in.entry.output != nil {
		if err := in.entry.output.ValidateResult(exec.Output); err != nil {
			return exec, fmt.Errorf("the result of %s does not fit its schema: %w",
				in.spec.Name, err)
		}
	}
	return exec, nil
}

func (in attempt) acceptAwait(a Await) (Await, error) {
	if !in.spec.MayPause {
		return a, fmt.Errorf("%s %w", in.spec.Name, ErrMayNotPause)
	}
	if a.Gate != "" {
		return a, fmt.Errorf("%s asked to pause in the name of the layer %q", in.spec.Name, a.Gate)
	}
	a.Prompt, a.Data = modeltext.CleanString(a.Prompt), modeltext.CleanJSON(a.Data)
	a.Arguments = nil
	a, err := a.Normalize()
	if err != nil {
		return a, fmt.Errorf("%s asked to pause: %w", in.spec.Name, err)
	}
	if a.Mail, err = a.Mail.within(in.spec.Mailbox, in.limits.Mail); err != nil {
		return a, fmt.Errorf("%s asked to pause: %w", in.spec.Name, err)
	}
	if a.Mode == ModeMessage && len(a.Schema) == 0 && in.entry.noText {
		return a, fmt.Errorf(
			"%s asked to pause: %w: mode %q makes the user's words the output, as a string, and "+
				"the tool's output is no string",
			in.spec.Name, ErrInvalidAwait, a.Mode)
	}
	limit := in.limits.Result
	if a.asksAgain() && a.size() > limit {
		a = a.inFirstWords()
	}
	if err := a.within(limit, in.spec.Name); err != nil {
		return a, err
	}
	if len(a.Schema) > 0 {
		if _, err := in.schemas.Compile(a.Schema); err != nil {
			return a, fmt.Errorf("%s asked to pause: the answer's %w", in.spec.Name, err)
		}
	}
	return a, nil
}

// size returns what a pause counts towards the limit, in bytes.
func (a *Await) size() int { return len(a.Prompt) + len(a.Schema) + len(a.Data) }

// within returns the error of a pause that is larger than the limit, for tools
// and layers alike. Who asks for it is named.
func (a *Await) within(limit int, who string) error {
	if n := a.size(); n > limit {
		return fmt.Errorf(
			"%s asked to pause with %d bytes of prompt, schema and data, at most %d are taken",
			who, n, limit)
	}
	return nil
}

// Bounds returns exec without the side products that are too large, or the
// error of what else in it is too large, or incomplete. Enter bounds what the
// body makes; this is for what a layer makes of it.
func (b *box) Bounds(name string, exec Execution) (Execution, error) {
	if err := checkActions(name, exec.Actions); err != nil {
		return Execution{}, err
	}
	exec.Actions = fitting(exec.Actions, b.limits.Result)
	if tooDeep(exec.Output) {
		return Execution{}, fmt.Errorf("what a layer made of %s is nested more than %d deep",
			name, strictjson.MaxDepth)
	}
	if a := exec.Await; a != nil {
		if err := a.within(b.limits.Result, "a layer of "+name); err != nil {
			return Execution{}, err
		}
		return exec, nil
	}
	if n, most := len(exec.Output), exec.Handle.mostOutput(b.limits.Result); n > most {
		return Execution{}, fmt.Errorf("what a layer made of %s has %d bytes, at most %d are taken",
			name, n, most)
	}
	return exec, nil
}

// tooDeep reports whether a JSON text is nested more than strictjson.MaxDepth
// deep, as no argument or answer may be either. A result stands inside a
// message, which encoding/json, and many a provider, reads only to some depth.
func tooDeep(text json.RawMessage) bool {
	if len(text) <= 2*strictjson.MaxDepth {
		return false
	}
	depth, inString := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > strictjson.MaxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

func checkActions(tool string, actions []Action) error {
	for i, a := range actions {
		switch m := a.Media; {
		case a.Artifact != nil && m != nil:
			return fmt.Errorf("action %d of %s is two: one action has one field", i, tool)
		case a.Artifact != nil:
		case m == nil:
			return fmt.Errorf("action %d of %s is empty", i, tool)
		case m.Native != nil:
			return fmt.Errorf(
				"action %d of %s is media in the form of the provider %q: only models make such", i,
				tool, m.Native.Provider)
		case m.MediaType == "" || len(m.Data) == 0 && m.URL == "":
			return fmt.Errorf(
				"action %d of %s is media of type %q with %d bytes and the URL %q: it needs a "+
					"type, and bytes or a URL",
				i, tool, m.MediaType, len(m.Data), m.URL)
		}
	}
	return nil
}
