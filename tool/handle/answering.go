package handle

import "context"

// How a program that speaks the protocol gets the answers to its questions.

// written returns what an input is to the program.
func (r *running) written(given Input) (text []byte, end bool, err error) {
	if !r.protocol {
		in, err := readInput(given.Value)
		return []byte(in.Text), in.End, err
	}
	r.mu.Lock()
	q := r.question
	answers := given.Answers(q)
	switch {
	case answers:
		r.question, r.news = nil, true
		r.tell()
	case r.isEarly(given):
		if r.early == nil {
			r.early = map[string]Input{}
		}
		r.early[given.Question] = given
		r.mu.Unlock()
		return nil, false, nil
	}
	r.mu.Unlock()
	if answers {
		text, err = line(answerLine{"answer", Answer{q.ID, given.Value}})
	} else {
		text, err = line(inputLine{"input", given.Value})
	}
	return text, false, err
}

// isEarly reports whether an input answers a question that the program has yet
// to ask: one that an earlier body of the call has asked, whose inputs this one
// is given from the first on. The caller holds the lock.
func (r *running) isEarly(in Input) bool {
	return in.Question != "" && !r.known[in.Question] && r.said == nil
}

// asks takes note of a question. If its answer has come already, the program
// gets it. The caller holds the lock, and is a goroutine of reading.
func (r *running) asks(id string) {
	if r.known == nil {
		r.known = map[string]bool{}
	}
	r.known[id] = true
	in, answered := r.early[id]
	if !answered {
		return
	}
	delete(r.early, id)
	r.reading.Go(func() { _ = r.Input(context.Background(), in) }) // until stdin is closed
}
