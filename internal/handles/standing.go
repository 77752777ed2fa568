package handles

import (
	"encoding/json"
	"fmt"

	"github.com/fermata-ai/fermata/tool"
)

// Standing returns how a handle stands, as a model reads it, and up to where
// its content is told by that. The content is what is new since what was told
// before, cut to so many bytes; or, with whole, all that is kept.
func Standing(h *tool.Handle, whole bool, most int) (r Reply, shown int) {
	r = Reply{ID: h.Name, State: h.State}
	from := h.Shown
	if whole {
		from, most = 0, 0
	}
	r.Content, shown = Since(&h.Content, h.State == tool.HandleStopped, from, most)
	switch h.State {
	case tool.HandleWaiting:
		r.Question = questionOf(h)
	case tool.HandleStopped:
		if h.Status == done {
			r.Result = h.Output
			if len(r.Result) == 0 {
				r.Result = json.RawMessage("null")
			}
			return r, shown
		}
		words, ok := isText(h.Output)
		if !ok {
			words = string(h.Output)
		}
		if h.Status == cancelled && h.Actor != "" {
			words = fmt.Sprintf("Ended by %s. %s", h.Actor, words)
		}
		r.Error = failureOf(words, h.Failure)
	}
	return r, shown
}

// Of event.Status, which this package can't import.
const (
	done      = "done"
	cancelled = "cancelled"
)

// questionOf returns what a handle asks, and whom: by its pause, or while its
// body runs.
func questionOf(h *tool.Handle) *Question {
	if asked := h.Content.Question; h.Pause == nil && asked != nil {
		q := &Question{ID: asked.ID, Text: asked.Text, For: User}
		if asked.Assistant {
			q.For, q.Schema = Assistant, asked.Schema
		}
		return q
	}
	p := h.Pause
	q := &Question{ID: p.ID, Text: p.Await.Prompt, For: User}
	switch {
	case p.Await.Reason == tool.ReasonAssistant:
		q.For, q.Schema = Assistant, p.Await.Schema
	case p.Await.Gate != "" && q.Text == "":
		q.Text = fmt.Sprintf("May %s run with %s?", p.Tool, p.Arguments)
	case p.Await.Reason == tool.ReasonUnknown && q.Text == "":
		q.Text = "What became of this call is unknown: an operator is asked."
	}
	return q
}
