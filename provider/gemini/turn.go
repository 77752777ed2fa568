package gemini

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
	"google.golang.org/genai"
)

// turn makes events of a model's turn, reply by reply.
type turn struct {
	yield func(llm.Event, error) bool
	done  bool // yield returned false

	// The text or reasoning that is being written, so that it can be ended
	// where a part begins that has a Native form.
	open      strings.Builder
	halves    wire.Halves
	reasoning bool

	calls  bool
	called map[string]string // the calls that have an id, by it
	finish genai.FinishReason
	why    string
	usage  llm.Usage
}

// stopped is no error: the receiver wants no more.
var errStopped = errors.New("stopped")

func (t *turn) emit(e llm.Event) error {
	if !t.yield(e, nil) {
		t.done = true
		return errStopped
	}
	return nil
}

// readAll takes a message that came at once, or a list of what would be events:
// from what can't stream, or was asked without alt=sse by something on the way.
func (t *turn) readAll(data []byte) error {
	var reply json.RawMessage
	if err := json.Unmarshal(data, &reply); err != nil {
		if cutOff(err) {
			return &llm.Error{Kind: llm.ErrTruncated, Provider: provider, Err: err}
		}
		return &notEvents{text: data}
	}
	replies := []json.RawMessage{reply}
	if reply[0] == '[' {
		replies = nil
		_ = json.Unmarshal(reply, &replies) // it is a list
	}
	for _, r := range replies {
		if err := t.read(r); err != nil {
			return err
		}
	}
	return nil
}

// read takes one reply.
func (t *turn) read(data []byte) error {
	var r reply
	if err := json.Unmarshal(data, &r); err != nil {
		return wire.Malformed(provider, "%w: %.200q", err, data)
	}
	if r.Error != nil {
		return *r.Error
	}
	if u := (usage{}); len(r.Usage) > 0 && string(r.Usage) != "null" &&
		json.Unmarshal(r.Usage, &u) == nil {
		t.usage = u.neutral()
	}
	if f := r.PromptFeedback; f != nil && f.BlockReason != "" && len(r.Candidates) == 0 {
		return &llm.Error{Kind: llm.ErrRefused, Provider: provider,
			Err: fmt.Errorf("the prompt was blocked: %s%s", f.BlockReason,
				because(f.BlockReasonMessage))}
	}
	if len(r.Candidates) > 1 {
		return wire.Malformed(provider, "%d candidates, where one was asked for", len(r.Candidates))
	}
	for _, c := range r.Candidates {
		if c == nil {
			return wire.Malformed(provider, "a candidate of nothing: %.200q", data)
		}
		if c.Index != 0 {
			return wire.Malformed(provider, "a candidate of index %d, where one was asked for",
				c.Index)
		}
		if c.FinishReason != "" && c.FinishReason != genai.FinishReasonUnspecified {
			t.finish, t.why = c.FinishReason, c.FinishMessage
		}
		if c.Content == nil {
			continue
		}
		for _, raw := range c.Content.Parts {
			if err := t.part(raw); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *turn) part(raw json.RawMessage) error {
	m := membersOf(raw)
	var p part
	if err := json.Unmarshal(raw, &p); err != nil || m == nil {
		return wire.Malformed(provider, "a part that is none: %.200q", raw)
	}
	// The API takes it for nothing, and no part of that.
	maps.DeleteFunc(m, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	// Where it is false, it says nothing; where it is true, p knows.
	delete(m, "thought")
	switch {
	case len(m) == 0:
		return nil
	case p.FunctionCall != nil:
		return t.call(p, m, raw)
	case p.Thought && (p.Text != nil || m.only("thoughtSignature")):
		return t.think(p, m, raw)
	case p.Text != nil:
		return t.write(p, m, raw)
	case p.InlineData != nil && !p.Thought:
		return t.media(llm.Media{MediaType: p.InlineData.MIMEType, Name: p.InlineData.DisplayName,
			Data: p.InlineData.Data}, m.only("inlineData"), raw)
	case p.FileData != nil && !p.Thought:
		return t.media(llm.Media{MediaType: p.FileData.MIMEType, Name: p.FileData.DisplayName,
			URL: p.FileData.FileURI}, m.only("fileData"), raw)
	}
	return t.whole(llm.Opaque{Native: *native(raw)})
}

// write takes text. What is signed is a part of its own: it must not be joined
// with what isn't. See
// https://ai.google.dev/gemini-api/docs/thought-signatures.
func (t *turn) write(p part, m members, raw json.RawMessage) error {
	switch {
	case m.only("text"):
		return t.delta(false, piece(m["text"]))
	case strings.TrimSpace(*p.Text) == "":
		// The signature of what came before, at the end of a stream. It is no
		// Text: others refuse to be sent one of white space.
		return t.whole(llm.Opaque{Native: *native(raw)})
	}
	if err := t.end(); err != nil {
		return err
	}
	if err := t.delta(false, wire.Piece(*p.Text)); err != nil {
		return err
	}
	return t.whole(llm.Text{Text: *p.Text, Native: native(raw)})
}

// think takes a summary of thoughts.
func (t *turn) think(p part, m members, raw json.RawMessage) error {
	text := ""
	if p.Text != nil {
		text = *p.Text
	}
	if m.only("text") {
		return t.delta(true, piece(m["text"]))
	}
	if err := t.end(); err != nil {
		return err
	}
	if err := t.delta(true, wire.Piece(text)); err != nil {
		return err
	}
	return t.whole(llm.Reasoning{Text: text, Native: native(raw)})
}

// call takes a call, which always comes whole. Calls may be alike and have no
// ids; so they aren't sent as deltas, from which the Collector couldn't tell
// what was signed.
func (t *turn) call(p part, m members, raw json.RawMessage) error {
	c, inner := p.FunctionCall, membersOf(m["functionCall"])
	if inner == nil { // encoding/json goes by the name in any case; the API doesn't
		return wire.Malformed(provider, "a part that is none: %.200q", raw)
	}
	if c.Name == "" && c.ID == "" {
		return wire.Malformed(provider, "a call without a name: %.200q", raw)
	}
	if partial, more := inner["partialArgs"], inner["willContinue"]; len(partial) > 0 ||
		string(more) == "true" {
		return wire.Malformed(provider, "a call in pieces, which wasn't asked for: %.200q", raw)
	}
	t.calls = true
	// An event that is delivered twice has nothing to know it by but the id of
	// a call in it, which is the call's own. Without one, two calls that are
	// alike are two. See https://ai.google.dev/api/caching#FunctionCall.
	if c.ID != "" {
		said := c.Name + " " + string(compact(c.Args))
		if before, ok := t.called[c.ID]; ok && before == said {
			return nil
		}
		if t.called == nil {
			t.called = map[string]string{}
		}
		t.called[c.ID] = said
	}
	call := llm.ToolCall{Name: c.Name, ProviderID: c.ID, Arguments: compact(c.Args)}
	if !m.only("functionCall") || !inner.only("id", "name", "args") {
		call.Native = native(raw)
	}
	return t.whole(call)
}

func (t *turn) media(p llm.Media, plain bool, raw json.RawMessage) error {
	if p.MediaType == "" && p.URL == "" {
		return wire.Malformed(provider, "media of no type: %.200q", raw)
	}
	if !plain {
		p.Native = native(raw)
	}
	if p.MediaType == "" {
		p.MediaType = "application/octet-stream" // the API need not name a file's type
	}
	return t.whole(p)
}

// piece returns a text, whose ends may be halves of runes.
func piece(raw json.RawMessage) (p wire.Piece) {
	_ = json.Unmarshal(raw, &p) // it was read before
	return p
}

func (t *turn) delta(reasoning bool, p wire.Piece) error {
	if p == "" {
		return nil
	}
	if t.reasoning != reasoning {
		if err := t.rest(); err != nil {
			return err
		}
		t.open.Reset() // one ends the other
		t.reasoning = reasoning
	}
	return t.wrote(t.halves.Join(p))
}

// rest is half a rune of what is being written that nothing followed.
func (t *turn) rest() error { return t.wrote(t.halves.Rest()) }

func (t *turn) wrote(s string) error {
	if s == "" {
		return nil
	}
	t.open.WriteString(s)
	if t.reasoning {
		return t.emit(llm.ReasoningDelta{Text: s})
	}
	return t.emit(llm.TextDelta{Text: s})
}

// end ends the text or reasoning that is being written.
func (t *turn) end() error {
	if err := t.rest(); err != nil {
		return err
	}
	switch {
	case t.open.Len() == 0:
		return nil
	case t.reasoning:
		return t.whole(llm.Reasoning{Text: t.open.String()})
	}
	return t.whole(llm.Text{Text: t.open.String()})
}

func (t *turn) whole(p llm.Part) error {
	if err := t.rest(); err != nil {
		return err
	}
	t.open.Reset()
	return t.emit(llm.PartDone{Part: p})
}

// stop returns why the model stopped.
func (t *turn) stop() (llm.StopReason, error) {
	switch t.finish {
	case "":
		return "", wire.Truncated(provider)
	case genai.FinishReasonMaxTokens, genai.FinishReasonContinuation:
		return llm.StopLength, nil
	case genai.FinishReasonSafety, genai.FinishReasonRecitation, genai.FinishReasonBlocklist,
		genai.FinishReasonProhibitedContent,
		genai.FinishReasonSPII, genai.FinishReasonImageSafety, genai.FinishReasonImageProhibitedContent, genai.FinishReasonImageRecitation,
		"MODEL_ARMOR":
		return llm.StopRefusal, nil
	case genai.FinishReasonMalformedFunctionCall, genai.FinishReasonUnexpectedToolCall,
		"MALFORMED_RESPONSE":
		// What the model meant to say is lost: the rest would pass for an
		// answer. The same request may well succeed, so the kind is one that
		// passes.
		return "", &llm.Error{Kind: llm.ErrTruncated, Provider: provider,
			Err: fmt.Errorf("the model wrote what the service couldn't read: %s%s", t.finish,
				because(t.why))}
	case "MISSING_THOUGHT_SIGNATURE":
		return "", wire.Invalid(provider, "the service misses a thought signature: %s%s", t.finish,
			because(t.why))
	}
	const called = "FUNCTION_CALL" // what servers that speak the API say, where it says STOP
	switch {
	case t.calls && (t.finish == genai.FinishReasonStop || t.finish == called):
		return llm.StopToolCalls, nil
	case t.finish == genai.FinishReasonStop:
		return llm.StopEnd, nil
	}
	return llm.StopOther, nil // LANGUAGE, OTHER, TOO_MANY_TOOL_CALLS, NO_IMAGE, and what is new
}

// native keeps a part for the way back.
func native(raw json.RawMessage) *llm.Native {
	return &llm.Native{Provider: provider, Data: compact(raw)}
}

// compact takes out the white space that the service sets a reply with. Nothing
// else changes.
func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	_ = json.Compact(&b, raw) // it has been read already: it is JSON, or there is none
	return b.Bytes()
}

// because adds what the service explains, if anything.
func because(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}
