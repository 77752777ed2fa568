package anthropic

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"github.com/fermata-ai/fermata/llm"
)

// reply makes events of a message's content blocks. Blocks may be written side
// by side, but their events come in the order of the blocks, since text doesn't
// say which block it belongs to.
type reply struct {
	yield  func(llm.Event) bool
	enough bool // yield wants no more

	header http.Header
	begun  bool       // message_start has come
	id     string     // of the message of the API's
	blocks []*content // all of them
	from   int        // the first one of this message of the API's: a paused one goes on in another
	front  int        // the first that hasn't ended
	calls  bool       // the model calls tools
	text   *content   // whose text was written last, if nothing has ended it
	stop   sdk.StopReason
	usage  usage

	pausing bool // a message that is paused may go on
	paused  bool
	before  llm.Usage // of what came before the pauses
}

// add takes the next event of the stream. done reports that it was the last one,
// or that there is no use for another.
func (r *reply) add(e sdk.MessageStreamEventUnion) (done bool, err error) {
	if !r.begun && e.Type != "message_start" {
		switch e.Type {
		case "message_delta", "message_stop", "content_block_start", "content_block_delta",
			"content_block_stop":
			return false, malformed("%s comes before message_start", e.Type)
		}
	}
	switch e.Type {
	case "message_start":
		if r.begun && r.id != "" && r.id == e.Message.ID { // sent again by what stands in between
			return false, nil
		}
		if r.begun {
			return false, malformed("message_start comes twice")
		}
		if len(e.Message.Content) > 0 {
			return false, malformed("message_start has content already")
		}
		r.begun, r.id = true, e.Message.ID
		r.usage.add(e.Message.Usage.RawJSON())
	case "content_block_start":
		if next := len(r.blocks) - r.from; e.Index != int64(next) {
			return false, malformed("content block %d begins where %d would", e.Index, next)
		}
		err = r.start(json.RawMessage(e.ContentBlock.RawJSON()))
	case "content_block_delta":
		var c *content
		if c, err = r.open(e); err == nil {
			err = r.delta(c, e.Delta)
		}
	case "content_block_stop":
		var c *content
		if c, err = r.open(e); err == nil {
			r.end(c)
		}
	case "message_delta":
		if e.Delta.StopReason != "" {
			r.stop = e.Delta.StopReason
		}
		r.usage.add(e.Usage.RawJSON())
	case "message_stop":
		if r.front < len(r.blocks) {
			return false, malformed("the message stops within content block %d", r.front-r.from)
		}
		r.finish()
		return true, nil
	}
	// Other events may come to be, as the API's documentation says.
	return r.enough, err
}

// open finds the block that an event is about.
func (r *reply) open(e sdk.MessageStreamEventUnion) (*content, error) {
	begun := len(r.blocks) - r.from
	if e.Index < 0 || e.Index >= int64(begun) || !e.JSON.Index.Valid() {
		return nil, malformed("%s for content block %d, where %d have begun", e.Type, e.Index,
			begun)
	}
	c := r.blocks[r.from+int(e.Index)]
	if c.ended {
		return nil, malformed("%s for content block %d, which has ended", e.Type, e.Index)
	}
	return c, nil
}

func (r *reply) start(raw json.RawMessage) error {
	c, err := newContent(len(r.blocks), raw)
	if err != nil {
		return err
	}
	r.blocks = append(r.blocks, c)
	r.calls = r.calls || c.kind == "tool_use"
	e, err := c.begin()
	if err != nil {
		return err
	}
	r.say(c, e)
	return nil
}

// known are the deltas that this version knows.
var known = []string{"text_delta", "thinking_delta", "signature_delta", "citations_delta",
	"input_json_delta"}

func (r *reply) delta(c *content, d sdk.MessageStreamEventUnionDelta) error {
	var ok bool
	switch d.Type + " of " + c.kind {
	case "text_delta of text":
		ok = d.JSON.Text.Valid()
		r.say(c, c.write(piece(d.JSON.Text)))
	case "thinking_delta of thinking":
		ok = d.JSON.Thinking.Valid()
		r.say(c, c.write(piece(d.JSON.Thinking)))
	case "signature_delta of thinking":
		ok = d.JSON.Signature.Valid()
		c.signature.WriteString(d.Signature)
	case "citations_delta of text":
		ok = d.JSON.Citation.Valid()
		c.citations = append(c.citations, json.RawMessage(d.Citation.RawJSON()))
	default:
		// There may come to be others, as there may be other events.
		if d.Type != "" && !slices.Contains(known, d.Type) {
			c.passed = true
			return nil
		}
		// Server tools' blocks have an input too, under many names.
		if d.Type != "input_json_delta" || c.kind != "tool_use" && !c.begun.Has("input") {
			return malformed("%s for content block %d, a %s, makes no sense", d.Type, c.index,
				c.kind)
		}
		ok = d.JSON.PartialJSON.Valid()
		r.say(c, c.more(piece(d.JSON.PartialJSON)))
	}
	if !ok {
		return malformed("%s for content block %d without what it is to add", d.Type, c.index)
	}
	return nil
}

// end ends a block, and lets the next ones speak.
func (r *reply) end(c *content) {
	r.say(c, c.rest())
	for _, e := range c.end() {
		r.say(c, e)
	}
	c.ended = true
	for r.front < len(r.blocks) && r.blocks[r.front].ended {
		r.front++
		if r.front < len(r.blocks) {
			next := r.blocks[r.front]
			for _, e := range next.waiting {
				r.say(next, e)
			}
		}
	}
}

// say yields an event of a block, when it is that block's turn.
func (r *reply) say(c *content, e llm.Event) {
	switch {
	case e == nil:
		return
	case c.index != r.front:
		c.waiting = append(c.waiting, e)
		return
	}
	_, more := e.(llm.TextDelta)
	_, done := e.(llm.PartDone)
	if r.text != nil && r.text != c && c.kind == "text" && (more || done) {
		// Without a word between them, the one block's text would go on in the
		// other's, or be replaced by it.
		r.emit(llm.PartDone{Part: r.between(r.text)})
	}
	r.text = nil
	if more {
		r.text = c
	}
	r.emit(e)
}

// between returns the text of a block that another one's follows. White space
// between two texts stays, in a form that the collector keeps.
func (r *reply) between(c *content) llm.Text {
	t := llm.Text{Text: c.text.String()}
	if isBlank(t.Text) && c.index > r.from && r.blocks[c.index-1].kind == "text" {
		t.Native = c.whole()
	}
	return t
}

func (r *reply) emit(e llm.Event) {
	r.enough = r.enough || !r.yield(e)
}

// finish says how it ended, unless it is to go on.
func (r *reply) finish() {
	// Without anything said since, it would be asked the same again; and calls
	// need results first.
	r.paused = r.pausing && r.stop == sdk.StopReasonPauseTurn && len(r.blocks) > r.from && !r.calls
	if r.paused {
		return
	}
	r.release()
	f := llm.Finish{Reason: llm.StopOther, Word: string(r.stop),
		Usage: r.before.Add(r.usage.neutral())}
	switch r.stop {
	case sdk.StopReasonEndTurn, sdk.StopReasonStopSequence:
		f.Reason = llm.StopEnd
	case sdk.StopReasonMaxTokens, sdk.StopReasonModelContextWindowExceeded:
		f.Reason = llm.StopLength
	case sdk.StopReasonRefusal:
		f.Reason = llm.StopRefusal
	case sdk.StopReasonToolUse, sdk.StopReasonPauseTurn, "": // each call is there to its end
		if r.calls {
			f.Reason = llm.StopToolCalls
		}
	}
	if f.Reason == llm.StopEnd && r.calls { // so some compatible servers say it
		f.Reason = llm.StopToolCalls
	}
	if f.Reason == llm.StopOther {
		r.wholeCalls()
	}
	r.emit(f)
}

// release passes on the inputs that were held back. Where the message ends
// before it was done, the last call's may be cut off, whatever stands behind
// it: it is JSON all the same, made so by the service.
func (r *reply) release() {
	var last *content
	for _, c := range r.blocks {
		if c.kind == "tool_use" {
			last = c
		}
	}
	for _, c := range r.blocks {
		if !c.held {
			continue
		}
		for _, e := range c.release(c == last && cutOff(r.stop)) {
			r.emit(e)
		}
	}
}

// cutOff reports whether a message ends where it wasn't done.
func cutOff(reason sdk.StopReason) bool {
	switch reason {
	case sdk.StopReasonMaxTokens, sdk.StopReasonModelContextWindowExceeded, sdk.StopReasonRefusal:
		return true
	}
	return false
}

// wholeCalls says of the calls whose input is empty that it is: their blocks
// have come to their end, and no limit cut the message off.
func (r *reply) wholeCalls() {
	for _, c := range r.blocks {
		if c.kind == "tool_use" && c.input.Len() == 0 && c.called() == nil {
			r.emit(llm.ToolCallDelta{Index: c.index, Arguments: "{}"})
		}
	}
}

// resume returns the message so far, for the API to go on from, and makes room
// for the rest of it.
func (r *reply) resume() sdk.MessageParam {
	var blocks []sdk.ContentBlockParamUnion
	for _, c := range r.blocks {
		if c.kind == "text" && isBlank(c.text.String()) {
			continue // the API takes none back
		}
		blocks = append(blocks, param.Override[sdk.ContentBlockParamUnion](c.whole().Data))
	}
	r.before = r.before.Add(r.usage.neutral())
	r.begun, r.id, r.stop, r.usage, r.from = false, "", "", usage{}, len(r.blocks)
	return sdk.NewAssistantMessage(blocks...)
}

// usage counts as the API does. Each count replaces the one before; what is
// left out stays, and so does what compatible servers tell as zero at the end.
type usage struct {
	Input    *int `json:"input_tokens"`
	Written  *int `json:"cache_creation_input_tokens"`
	Read     *int `json:"cache_read_input_tokens"`
	Output   *int `json:"output_tokens"`
	Detailed struct {
		Thinking *int `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

func (u *usage) add(raw string) {
	if strings.TrimSpace(raw) == "" {
		return
	}
	var next usage
	if json.Unmarshal([]byte(raw), &next) != nil {
		return // counts that make no sense: the message is none the worse
	}
	for _, c := range []struct{ to, from **int }{
		{&u.Input, &next.Input}, {&u.Written, &next.Written}, {&u.Read, &next.Read}, {&u.Output,
			&next.Output},
		{&u.Detailed.Thinking, &next.Detailed.Thinking},
	} {
		if *c.from != nil && (*c.to == nil || **c.from != 0) {
			*c.to = *c.from
		}
	}
}

func (u usage) neutral() llm.Usage {
	n := func(p *int) int {
		if p == nil {
			return 0
		}
		return max(*p, 0)
	}
	return llm.Usage{
		Input: n(u.Input) + n(u.Written) + n(u.Read), Cached: n(u.Read), Written: n(u.Written),
		Output: n(u.Output), Reasoning: n(u.Detailed.Thinking),
	}
}
