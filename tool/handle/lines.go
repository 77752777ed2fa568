package handle

import (
	"bytes"
	"encoding/json"
	"io"
)

// maxLine is the longest line that is looked at for a message.
const maxLine = 1 << 20

// lines tells messages of the protocol from other output. What can't be the
// beginning of a message goes on at once.
type lines struct {
	said  func(message)
	other io.Writer
	begun []byte // a line that may be a message
	plain bool   // the line can't be one
}

func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		part := p
		end := bytes.IndexByte(p, '\n') + 1
		if end > 0 {
			part = p[:end]
		}
		p = p[len(part):]
		if l.plain = l.plain || !mayBegin(l.begun, part) || len(l.begun)+len(part) > maxLine; l.plain {
			l.pass()
			_, _ = l.other.Write(part)
		} else if l.begun = append(l.begun, part...); end > 0 {
			l.judge()
		}
		if end > 0 {
			l.plain = false
		}
	}
	return n, nil
}

// mayBegin reports whether a line may be an object.
func mayBegin(begun, part []byte) bool {
	if len(bytes.TrimLeft(begun, " \t")) > 0 { // judged before
		return true
	}
	rest := bytes.TrimLeft(part, " \t")
	return len(rest) == 0 || rest[0] == '{'
}

func (l *lines) pass() {
	_, _ = l.other.Write(l.begun)
	l.begun = l.begun[:0]
}

func (l *lines) judge() {
	if m, ok := readMessage(l.begun); ok {
		l.begun = l.begun[:0]
		l.said(m)
		return
	}
	l.pass()
}

// Close takes the last line, which may have no end.
func (l *lines) Close() error {
	l.judge()
	return nil
}

// message is what a program says. Without an outcome it runs, or waits.
type message struct {
	content  string
	question *Question
	outcome  *outcome
}

// said is a message as JSON.
type said struct {
	Type      string          `json:"type"`
	Content   json.RawMessage `json:"content"`
	Question  *asks           `json:"question"`
	Result    json.RawMessage `json:"result"`
	Error     json.RawMessage `json:"error"`
	Message   string          `json:"message"`
	Trace     []string        `json:"trace"`
	Transient bool            `json:"transient"`
}

// readMessage reads a line. One that has no known type, or not what goes with
// it, is no message.
func readMessage(text []byte) (m message, ok bool) {
	var s said
	if json.Unmarshal(text, &s) != nil {
		return m, false
	}
	switch s.Type {
	case "running", "spawned":
		m.content, ok = optionalText(s.Content)
	case "waiting":
		m.content, ok = optionalText(s.Content)
		if q, asked := s.Question.read(); ok && asked {
			m.question = q
		} else {
			ok = false
		}
	case "stopped":
		m.outcome, ok = s.stopped()
	case "success", "error", "needs_input":
		m.outcome, ok = s.older()
	}
	if !ok {
		m = message{}
	}
	return m, ok
}

func (s *said) stopped() (*outcome, bool) {
	if absent(s.Error) {
		result := s.Result
		if result == nil {
			result = json.RawMessage("null")
		}
		return &outcome{ended: Ended{Output: result}}, true
	}
	if !absent(s.Result) {
		return nil, false
	}
	var f Failure
	if json.Unmarshal(s.Error, &f.Message) != nil && json.Unmarshal(s.Error, &f) != nil {
		return nil, false
	}
	return &outcome{failure: &f}, f.Message != ""
}

func absent(raw json.RawMessage) bool { return raw == nil || string(raw) == "null" }

func optionalText(raw json.RawMessage) (text string, ok bool) {
	return text, absent(raw) || json.Unmarshal(raw, &text) == nil
}
