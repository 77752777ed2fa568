package handles

import (
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// Happening is what happened to a handle that no call fetches or awaits: how it
// stands now. One that is running has new content.
type Happening struct {
	Tool string // its name
	Call string // the id of the call that made the handle
	Reply
}

// The bounds of what notices show.
const (
	MaxNotice  = 1 << 10  // bytes of one text
	MaxNotices = 16 << 10 // bytes of the texts of one message, together
)

// Notices returns what a model is told of what happened, in that order: of each
// a state in the runtime's words, and a text of the tool's, which is data. Texts
// are cut, head and tail; the action fetch returns them whole.
// Of very many, all are there, and their texts are shorter.
func Notices(all []Happening) []llm.Notice {
	notices := make([]llm.Notice, len(all))
	sizes := make([]int, len(all))
	for i, h := range all {
		state, text := h.words()
		notices[i] = llm.Notice{Handle: h.ID, Tool: h.Tool, Call: h.Call, State: state, Text: text}
		sizes[i] = width(text)
	}
	most := min(level(sizes, MaxNotices), MaxNotice)
	for i := range notices {
		notices[i].Text = Cut(notices[i].Text, most, LeftToFetch)
	}
	return notices
}

// words returns the state of what happened, and what there is to read of it.
func (h Happening) words() (state, text string) {
	switch {
	case h.Error != nil && h.Error.Transient:
		return "failed; the same again may succeed", h.Error.Message
	case h.Error != nil:
		return "failed", h.Error.Message
	case h.State == tool.HandleStopped:
		text, ok := isText(h.Result)
		if !ok {
			text = string(h.Result)
		}
		return "stopped, with its result", text
	case h.Question == nil:
		return "running, with new output", h.Content
	case h.Question.For == Assistant:
		return "waiting for your answer, to be given by its action apply", h.Question.Text
	}
	return "waiting for the user, whose answer is not yours to give", h.Question.Text
}
