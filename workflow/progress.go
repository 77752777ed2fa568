package workflow

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/llm"
)

// What has become of a workflow, read off its session's history: the calls that
// its model has made, and their results. Nothing else is kept.

// status is what has become of a step.
type status string

// The statuses. Those of steps that have ended are their handles', and those
// here.
const (
	notBegun status = ""
	running  status = "running"
	done     status = "done"
	failed   status = "failed"
	timedOut status = "timed_out" // its body didn't end in its tool's time
	expired  status = "expired"
	canceled status = "cancelled"
	unknown  status = "unknown"
	skipped  status = "skipped" // what it refers to is not there
	// refused: it could not be begun, since a value that it refers to isn't in
	// the output where it should be, say.
	refused status = "refused"
)

// stepState is what has become of one step.
type stepState struct {
	status status
	tries  int
	stands bool   // one of its tries may have done what it does
	due    bool   // its delay before the next try is over
	lost   bool   // a wait for this try has failed
	why    string // of one that was refused
}

// progress is what has become of a list.
type progress struct {
	list  *List
	steps map[string]*stepState
	order []string // those that have ended, in that order; perhaps again after another try
	begun bool     // a call was made

	over  bool // the workflow has come to its end
	said  json.RawMessage
	wrong string  // why it has failed; empty: it hasn't
	end   endCall // which has ended it
}

// failed reports whether a workflow that is over has failed.
func (p *progress) failed() bool { return p.wrong != "" }

// endsAgain is the call by which a workflow fails once more that has failed, in
// the same words: its session was carried on.
func (p *progress) endsAgain() *endCall {
	again := p.end
	again.Again, again.Why = true, p.wrong
	return &again
}

// read reads the history of a workflow's session. Own is the list of the
// workflow's agent, for one that has yet to begin; nil: the list is in the
// session's first message.
func read(history []llm.Message, own *List) (p *progress, input json.RawMessage, err error) {
	p = &progress{steps: map[string]*stepState{}}
	if len(history) == 0 || history[0].Role != llm.RoleUser {
		return nil, nil, fmt.Errorf("the session doesn't begin with a message of its user")
	}
	text := []byte(history[0].Text())
	if own != nil {
		if err := strictjson.Check(text); err != nil {
			return nil, nil, fmt.Errorf("the first message, which is the input, is not JSON: %w", err)
		}
		p.list, input = own, text
	} else {
		var s started
		open := strictjson.ReadClosed
		if hasBegun(history) { // then it was checked, perhaps by a later version
			open = strictjson.Read
		}
		if err := open(text, &s); err != nil {
			return nil, nil, fmt.Errorf("the first message is no list of steps: %w", err)
		}
		p.list, input = &s.List, s.Input
	}
	asked := map[string]llm.ToolCall{}
	for _, m := range history[1:] {
		for _, part := range m.Parts {
			switch part := part.(type) {
			case llm.ToolCall:
				asked[part.ID] = part
			case llm.ToolResult:
				if err := p.take(asked[part.Call], part, own != nil); err != nil {
					return nil, nil, err
				}
			}
		}
	}
	if len(input) == 0 {
		input = json.RawMessage("null")
	}
	return p, input, nil
}

// hasBegun reports whether the model has spoken.
func hasBegun(history []llm.Message) bool {
	return slices.ContainsFunc(history, func(m llm.Message) bool { return m.Role == llm.RoleAssistant })
}

// take counts a call with its result in. Stored reports whether the first call
// has the list.
func (p *progress) take(c llm.ToolCall, r llm.ToolResult, stored bool) error {
	first := !p.begun
	p.begun = true
	var err error
	switch c.Name {
	case stepTool:
		var asked stepCall
		if err = strictjson.Read(c.Arguments, &asked); err != nil {
			break
		}
		if first && stored {
			p.list = asked.List
		}
		p.begin(asked.Step, r)
	case waitTool:
		var asked waitCall
		if err = strictjson.Read(c.Arguments, &asked); err == nil {
			err = p.waited(&asked, r)
		}
	case endTool:
		p.over, p.wrong, p.said, p.end = true, "", nil, endCall{}
		if err = strictjson.Read(c.Arguments, &p.end); err != nil {
			break
		}
		if r.Error {
			p.wrong = plain(r.Output)
		} else {
			p.said = r.Output
		}
	}
	if err == nil && p.list == nil {
		err = fmt.Errorf("the first call has no list")
	}
	if err != nil {
		return fmt.Errorf("a call of %s in its history can't be read: %w", c.Name, err)
	}
	return nil
}

// of returns the state of a step.
func (p *progress) of(name string) *stepState {
	s := p.steps[name]
	if s == nil {
		s = &stepState{}
		p.steps[name] = s
	}
	return s
}

func (p *progress) begin(name string, r llm.ToolResult) {
	s := p.of(name)
	s.tries, s.due, s.lost = s.tries+1, false, false
	if s.status = running; r.Error {
		s.why = plain(r.Output)
		p.ends(name, refused)
	}
}

func (p *progress) ends(name string, as status) {
	s := p.of(name)
	s.status, s.stands = as, s.stands || as.mayStand()
	p.order = append(p.order, name)
}

// mayStand reports whether a try that ends so may have done what it does. One
// that was denied, or has failed by its own word, has done nothing to be taken
// back.
func (s status) mayStand() bool {
	switch s {
	case done, unknown, timedOut, expired, canceled:
		return true
	}
	return false
}

// waited takes what a wait has come to. One that failed tells nothing of its
// steps: they are lost, and waited for once more. If that fails too, they count
// as unknown, or the workflow would wait for ever.
func (p *progress) waited(asked *waitCall, r llm.ToolResult) error {
	var came waitResult
	if r.Error {
		for _, name := range asked.Steps {
			if s := p.of(name); !s.lost {
				s.lost = s.status == running
			} else {
				came.Ended = append(came.Ended, endedStep{name, unknown})
			}
		}
		for _, d := range asked.Delays {
			came.Due = append(came.Due, d.Step)
		}
	} else if err := strictjson.Read(r.Output, &came); err != nil {
		return err
	}
	for _, e := range came.Ended {
		if p.of(e.Step).status == running {
			p.ends(e.Step, e.Status)
		}
	}
	for _, name := range came.Due {
		p.of(name).due = true
	}
	return nil
}

// plain returns a JSON string's text, and other JSON as it is.
func plain(v json.RawMessage) string {
	if len(v) > 0 && v[0] == '"' {
		return strictjson.Unquote(v)
	}
	return string(v)
}
