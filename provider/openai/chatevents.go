package openai

// event takes the next event of a stream.
func (r *chatReply) event(s streamEvent) error {
	var c chatChunk
	err := s.decode(&c)
	if c.tellsError() || s.kind == "error" {
		return s.told(r.model.at)
	}
	switch {
	case err != nil:
		return err
	case c.Choices == nil && c.Usage == nil && c.Object != "chat.completion.chunk" && s.kind == "":
		return s.malformed("an event that is no chat completion chunk: %s", s.excerpt())
	}
	return r.chunk(c)
}

// doneLine takes the line [DONE].
func (r *chatReply) doneLine(a answer) error { return r.end(a) }

// streamEnd takes the end of a stream without the line [DONE]. There are
// services that leave it out, and others that leave out the finish_reason:
// where HTTP tells that the stream has ended, one of the two is enough. Where
// it doesn't, a stream that lacks either may have broken off.
func (r *chatReply) streamEnd(a answer) error {
	if r.finish != "" && a.isFramed() {
		return r.end(a)
	}
	return r.truncated("the stream ended without its line [DONE]")
}

// whole takes a message that comes at once. It is like a stream of one chunk,
// but each call is an entry of its own.
func (r *chatReply) whole(w wholeAnswer) error {
	var c chatChunk
	err := w.decode(&c)
	switch {
	case c.tellsError():
		return w.told(r.model.at)
	case err != nil:
		return err
	case len(c.Choices) == 0:
		return w.malformed("the answer has no choices: %s", w.excerpt())
	}
	for i := range c.Choices {
		choice := &c.Choices[i]
		if choice.Message == nil {
			return w.malformed("the answer's choice has no message: %s", w.excerpt())
		}
		choice.Delta = nil
		for place := range choice.Message.ToolCalls {
			choice.Message.ToolCalls[place].Index = &place
		}
	}
	if err := r.chunk(c); err != nil {
		return err
	}
	return r.end(w.answer)
}

// tellsError reports whether an event, or an answer, tells of an error.
func (c chatChunk) tellsError() bool { return !isNull(c.Error) || c.Object == "error" }
