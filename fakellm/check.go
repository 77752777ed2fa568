package fakellm

import (
	"slices"
	"strconv"

	"github.com/fermata-ai/fermata/llm"
)

// Check reports, as a [*Refusal], the first thing in a request that some
// provider refuses. The rules are those of the strictest, taken together:
//   - Every tool call of an assistant's message has exactly one result, in call
//     order, in the tool messages right after it. A result stands nowhere else.
//     Call ids are unique in the history. A notice stands after all of them, or
//     in a tool message without results.
//   - The first message is the user's. The user may speak several times in a
//     row, the assistant not. There is no system role.
//   - A message has parts, those that its role may have, and no part is blank.
//     Arguments and outputs are JSON; all strings are valid UTF-8, without lone
//     surrogates.
//   - A call with arguments that are no object was answered with an error:
//     nothing ran. A tool that isn't offered may have been earlier: to another
//     agent, which handed the conversation over, or before a deploy.
//   - Tools have distinct names of letters, digits, _ and -, 64 at most, and
//     schemas of objects with properties. The tool choice is one of those
//     offered.
//
// The last message may be the assistant's, so that a stored transcript can be
// checked; [Model] refuses such a request.
func Check(req llm.Request) error { return check(req, 0) }

// check is Check of a request whose first messages, known in number, have been
// found good JSON and good UTF-8 before.
func check(req llm.Request, known int) error {
	if err := checkTools(req); err != nil {
		return err
	}
	if len(req.Messages) == 0 {
		return refuse(req, whole, whole, "there are no messages")
	}
	c := checker{req: req, known: known, calls: map[string]spot{}}
	for i := range req.Messages {
		if err := c.message(i); err != nil {
			return err
		}
	}
	return c.settled(len(req.Messages))
}

// checker walks over a history.
type checker struct {
	req   llm.Request
	known int
	calls map[string]spot // where each call id is

	asked    []spot // the calls of the assistant's message that results are due for
	answered int    // how many of them have one
}

// spot is where a call is.
type spot struct {
	message, part int
	call          llm.ToolCall
}

func (c *checker) message(i int) error {
	m := c.req.Messages[i]
	switch m.Role {
	case llm.RoleUser, llm.RoleAssistant, llm.RoleTool:
	case "system", "developer":
		return c.refuse(i, whole, "%s is no role of a message: instructions belong in Request.System", m.Role)
	default:
		return c.refuse(i, whole, "%q is no role", m.Role)
	}
	if i == 0 && m.Role != llm.RoleUser {
		return c.refuse(i, whole, "the first message isn't the user's")
	}
	if len(m.Parts) == 0 {
		return c.refuse(i, whole, "the message is empty")
	}
	if m.Role != llm.RoleTool {
		if err := c.settled(i); err != nil {
			return err
		}
		c.asked, c.answered = nil, 0
	}
	if m.Role == llm.RoleAssistant && c.req.Messages[i-1].Role == llm.RoleAssistant {
		return c.refuse(i, whole, "the assistant speaks twice in a row")
	}
	for j, p := range m.Parts {
		if err := c.part(i, j, m.Role, p); err != nil {
			return err
		}
	}
	return nil
}

// settled reports a call whose result is still due when message next begins.
func (c *checker) settled(next int) error {
	if c.answered == len(c.asked) {
		return nil
	}
	s := c.asked[c.answered]
	follows := "the transcript ends"
	if next < len(c.req.Messages) {
		follows = "messages[" + strconv.Itoa(next) + "] (" + string(c.req.Messages[next].Role) + ") follows"
	}
	return c.refuse(s.message, s.part, "call %q of %q has no result, and %s", s.call.ID,
		s.call.Name, follows)
}

func (c *checker) refuse(message, part int, problem string, args ...any) error {
	return refuse(c.req, message, part, problem, args...)
}

// call notes a call.
func (c *checker) call(i, j int, p llm.ToolCall) error {
	if p.ID == "" {
		return c.refuse(i, j, "the call has no id")
	}
	if s, ok := c.calls[p.ID]; ok {
		return c.refuse(i, j, "the id %q is that of the call in messages[%d] parts[%d]", p.ID,
			s.message, s.part)
	}
	s := spot{i, j, p}
	c.calls[p.ID] = s
	c.asked = append(c.asked, s)
	return nil
}

// result pairs a result with the call that is next in line.
func (c *checker) result(i, j int, r llm.ToolResult) error {
	byID := func(s spot) bool { return s.call.ID == r.Call }
	home, exists := c.calls[r.Call]
	switch {
	case !exists:
		return c.refuse(i, j, "a result for %q, and there is no such call before it", r.Call)
	case slices.ContainsFunc(c.asked[:c.answered], byID):
		return c.refuse(i, j, "a second result for call %q", r.Call)
	case !slices.ContainsFunc(c.asked, byID):
		return c.refuse(i, j, "a result for call %q belongs right after messages[%d]", r.Call,
			home.message)
	}
	s := c.asked[c.answered]
	if s.call.ID != r.Call {
		return c.refuse(i, j, "the result for call %q stands where that for %q belongs: results are in call order", r.Call, s.call.ID)
	}
	c.answered++
	switch {
	case r.Name != s.call.Name:
		return c.refuse(i, j, "the result names the tool %q, its call %q", r.Name, s.call.Name)
	case !r.Error && !holdsObject(s.call.Arguments):
		return c.refuse(i, j, "the arguments of call %q are no object, and yet it has a result that is no error", r.Call)
	}
	return nil
}
