package httpapi_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/webhook"
)

// agClient is a client that knows AG-UI alone: it has a thread, what is on its
// screen, and what it was asked last.
type agClient struct {
	s          *site
	user       string
	thread     string
	messages   []agMessage
	interrupts []agInterrupt
	runs       int
}

type agMessage struct {
	ID        string          `json:"id"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content,omitempty"`
	ToolCalls []agCall        `json:"toolCalls,omitempty"`
	Call      string          `json:"toolCallId,omitempty"`
}

type agCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type agInterrupt struct {
	ID, Reason, Message, ToolCallID, ExpiresAt string
	ResponseSchema                             json.RawMessage
	Metadata                                   struct {
		Fermata struct {
			Tool      string
			Arguments json.RawMessage
		}
	}
}

type agResume struct {
	Interrupt string          `json:"interruptId"`
	Status    string          `json:"status"`
	Payload   json.RawMessage `json:"payload,omitempty"`
}

// agEvent is an event as the client reads it.
type agEvent struct {
	Type, ThreadID, RunID, MessageID, Role, Delta, ToolCallID, ToolCallName, Name string
	ParentMessageID, Message, Code, ProtocolVersion                               string
	Content, Value                                                                json.RawMessage
	Messages                                                                      []agMessage
	Outcome                                                                       struct {
		Type       string
		Interrupts []agInterrupt
	}
	Metadata struct {
		Fermata struct{ Status, Finish string }
	}
	text string
}

func (s *site) agClient(user, thread string) *agClient {
	return &agClient{s: s, user: user, thread: thread}
}

// say puts a message on the screen, to be sent with the next run.
func (c *agClient) say(text string) {
	content, _ := json.Marshal(text)
	c.messages = append(c.messages, agMessage{ID: c.user + "-" + strconv.Itoa(len(c.messages)),
		Role: "user", Content: content})
}

func (c *agClient) input(resume ...agResume) map[string]any {
	c.runs++
	in := map[string]any{"threadId": c.thread, "runId": c.user + "-run-" + strconv.Itoa(c.runs),
		"protocolVersion": "1.0", "messages": slices.Clone(c.messages)}
	if c.messages == nil {
		in["messages"] = []agMessage{}
	}
	if resume != nil {
		in["resume"] = resume
	}
	return in
}

// post sends an input as it is.
func (c *agClient) post(in map[string]any) *http.Response {
	c.s.t.Helper()
	body, err := json.Marshal(in)
	must(c.s.t, err)
	r := c.s.request(http.MethodPost, "/agui", string(body))
	r.Header.Set("X-User", c.user)
	r.Header.Set("Accept", "text/event-stream")
	res, err := c.s.server.Client().Do(r)
	must(c.s.t, err)
	return res
}

// refused sends an input, and returns the refusal.
func (c *agClient) refused(in map[string]any) response {
	c.s.t.Helper()
	res := c.post(in)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(c.s.t, err)
	return response{res.StatusCode, res.Header, string(text)}
}

// code returns the problem's.
func (r response) code() string {
	var p webhook.Problem
	_ = json.Unmarshal([]byte(r.text), &p)
	return strings.TrimPrefix(p.Type, webhook.ProblemBase)
}

// run makes a run, and returns its events. Each is one of the protocol's.
func (c *agClient) run(resume ...agResume) []agEvent {
	c.s.t.Helper()
	return c.send(c.input(resume...))
}

func (c *agClient) send(in map[string]any) []agEvent {
	c.s.t.Helper()
	st := c.open(in)
	defer st.close()
	var all []agEvent
	for {
		e, ok := c.next(st)
		if !ok {
			break
		}
		all = append(all, e)
	}
	if len(all) == 0 || all[0].Type != "RUN_STARTED" {
		c.s.t.Fatalf("the run begins with %+v", all)
	}
	switch all[len(all)-1].Type {
	case "RUN_FINISHED", "RUN_ERROR":
	default:
		c.s.t.Fatalf("the run has no end: %s", texts(all))
	}
	return all
}

func (c *agClient) open(in map[string]any) *stream {
	c.s.t.Helper()
	res := c.post(in)
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		c.s.t.Fatalf("the run is refused: %d %s", res.StatusCode, text)
	}
	return c.s.streamOf(res)
}

// next reads one event, and shows it.
func (c *agClient) next(st *stream) (e agEvent, ok bool) {
	c.s.t.Helper()
	for {
		raw, ok := st.next()
		if !ok {
			return e, false
		}
		if raw.data == "" {
			continue // a comment, or when to connect again
		}
		if err := agValid("Event", []byte(raw.data)); err != nil {
			c.s.t.Errorf("%s: %v", raw.data, err)
		}
		must(c.s.t, json.Unmarshal([]byte(raw.data), &e))
		e.text = raw.data
		c.show(e)
		return e, true
	}
}

// show does with an event what a client does.
func (c *agClient) show(e agEvent) {
	find := func(id string) *agMessage {
		for i := range c.messages {
			if c.messages[i].ID == id {
				return &c.messages[i]
			}
		}
		return nil
	}
	switch e.Type {
	case "TEXT_MESSAGE_START":
		if find(e.MessageID) == nil {
			c.messages = append(c.messages, agMessage{ID: e.MessageID, Role: e.Role,
				Content: json.RawMessage(`""`)})
		}
	case "TEXT_MESSAGE_CONTENT":
		m := find(e.MessageID)
		var text string
		must(c.s.t, json.Unmarshal(m.Content, &text))
		m.Content, _ = json.Marshal(text + e.Delta)
	case "TOOL_CALL_START":
		m := find(e.ParentMessageID)
		if m == nil {
			c.messages = append(c.messages, agMessage{ID: e.ParentMessageID, Role: "assistant"})
			m = find(e.ParentMessageID)
		}
		call := agCall{ID: e.ToolCallID, Type: "function"}
		call.Function.Name = e.ToolCallName
		m.ToolCalls = append(m.ToolCalls, call)
	case "TOOL_CALL_ARGS":
		for i := range c.messages {
			for k := range c.messages[i].ToolCalls {
				if call := &c.messages[i].ToolCalls[k]; call.ID == e.ToolCallID {
					call.Function.Arguments += e.Delta
				}
			}
		}
	case "TOOL_CALL_RESULT":
		c.messages = append(c.messages, agMessage{ID: e.MessageID, Role: "tool", Content: e.Content,
			Call: e.ToolCallID})
	case "MESSAGES_SNAPSHOT":
		c.messages = e.Messages // all its places are as the client's, or the client had none
	case "RUN_FINISHED":
		c.interrupts = e.Outcome.Interrupts
	}
}

// screen is what a person sees: a line for each message.
func (c *agClient) screen() string {
	var lines []string
	for _, m := range c.messages {
		line := m.Role + ": " + strings.Trim(string(m.Content), `"`)
		for _, call := range m.ToolCalls {
			line += " " + call.Function.Name + call.Function.Arguments
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// resolved answers the only interrupt.
func (c *agClient) resolved(payload string) agResume {
	c.s.t.Helper()
	if len(c.interrupts) != 1 {
		c.s.t.Fatalf("there are %d interrupts", len(c.interrupts))
	}
	return agResume{c.interrupts[0].ID, "resolved", json.RawMessage(payload)}
}

func last(events []agEvent) agEvent { return events[len(events)-1] }

// of lists the events of a type, or of a custom one's name.
func of(events []agEvent, kind string) (some []agEvent) {
	for _, e := range events {
		if e.Type == kind || e.Name == kind {
			some = append(some, e)
		}
	}
	return some
}

func texts(events []agEvent) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString(e.text + "\n")
	}
	return b.String()
}

// streamOf reads the events of an answer.
func (s *site) streamOf(res *http.Response) *stream {
	return &stream{s.t, res, bufio.NewReader(res.Body)}
}

func mustBe(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
