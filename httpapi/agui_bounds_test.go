package httpapi_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/httpapi"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// manyOf is a list of many messages or answers.
func manyOf(n int, one string) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(one, i))
	}
	return "[" + strings.Join(all, ",") + "]"
}

// A small body can't have the store looked through: what costs a look is
// counted, and too much of it leaves nothing.
func TestAGUIInputIsBounded(t *testing.T) {
	s := newSite(t, siteOptions{})
	c := s.agClient("ada", "thread-1")
	c.say("Hi.")
	c.run()
	const user = `{"id":"n%d","role":"user","content":"x"}`
	long := strings.Repeat("x", 900<<10)
	for name, test := range map[string]struct{ members, want string }{
		"messages": {`"messages":` + manyOf(257, user), "invalid"},
		"answers": {`"messages":[],"resume":` +
			manyOf(257, `{"interruptId":"call_%d.1","status":"cancelled"}`), "invalid"},
		"parts": {`"messages":[{"id":"n","role":"user","content":` +
			manyOf(65, `{"type":"text","text":"x%d"}`) + `}]`, "invalid"},
		"values": {`"messages":[],"state":[` + strings.Repeat("{},", 250_000) + `0]`, "invalid"},
		"an interrupt": {`"messages":[],"resume":[{"interruptId":"` + long +
			`","status":"cancelled"}]`, "invalid"},
		"a status": {`"messages":[],"resume":[{"interruptId":"a","status":"` + long + `"}]`, "invalid"},
		"a number": {`"messages":[{"id":"n","role":"user","content":1` + strings.Repeat("0", 900<<10) +
			`}]`, "invalid"},
		"a message's id": {`"messages":[{"id":"` + long + `","role":"user","content":"x"}]`,
			"invalid_id"},
		"a message's id without content": {`"messages":[{"id":"` + long + `","role":"user"}]`, "invalid"},
	} {
		r := s.post("/agui", `{"threadId":"thread-1","runId":"r",`+test.members+`}`)
		if r.status < 400 || r.status >= 500 || r.code() != test.want || len(r.text) > 2<<10 {
			t.Errorf("%s: got %d, %d bytes: %.300s", name, r.status, len(r.text), r.text)
		}
	}
	if n := len(s.logs.String()); n > 4<<10 {
		t.Errorf("%d bytes are logged", n)
	}
	// What came before the last answer is bounded by the body alone.
	in := c.input()
	in["messages"] = append([]agMessage{}, c.messages...)
	for i := range 1000 {
		in["messages"] = append([]agMessage{{ID: fmt.Sprint("old", i), Role: "user",
			Content: []byte(`"x"`)}}, in["messages"].([]agMessage)...)
	}
	if events := c.send(in); last(events).Outcome.Type != "success" {
		t.Errorf("the run is %s", texts(events))
	}
	mustBe(t, c.screen(), "user: Hi.\nassistant: Hello.")
}

// A message under the id of another one changes nothing, and the client is told.
func TestAGUIMessageUnderAKnownID(t *testing.T) {
	s := newSite(t, siteOptions{})
	c := s.agClient("ada", "thread-1")
	c.say("Hi.")
	c.run()
	c.messages = append(c.messages, agMessage{ID: c.messages[0].ID, Role: "user",
		Content: []byte(`"Ho."`)})
	events := c.run()
	told := of(events, "fermata.not_taken")
	if len(told) != 1 || !strings.Contains(string(told[0].Value), `"message":"ada-0"`) ||
		last(events).Outcome.Type != "success" {
		t.Errorf("the run is %s", texts(events))
	}
	mustBe(t, c.screen(), "user: Hi.\nassistant: Hello.")
	// The same one again is nothing new, and nothing to tell of.
	c.messages = append(c.messages, c.messages[0])
	if events = c.run(); len(of(events, "fermata.not_taken")) != 0 {
		t.Errorf("the run is %s", texts(events))
	}
}

// The files of new messages are bounded as those of the other routes are.
func TestAGUIFilesAreBounded(t *testing.T) {
	s := newSite(t, siteOptions{config: httpapi.Config{Limits: httpapi.Limits{Upload: 4 << 10}}})
	c := s.agClient("ada", "thread-1")
	for n, want := range map[int]int{4 << 10: http.StatusOK, 4<<10 + 1: http.StatusRequestEntityTooLarge} {
		data := base64.StdEncoding.EncodeToString(make([]byte, n))
		c.messages = []agMessage{{ID: fmt.Sprint("m", n), Role: "user", Content: []byte(
			`[{"type":"image","source":{"type":"data","mimeType":"image/png","value":"` + data + `"}}]`)}}
		if r := c.refused(c.input()); r.status != want {
			t.Errorf("%d bytes: got %d %s", n, r.status, r.text)
		}
	}
}

// A conversation that is larger than the files of one message may be is taken.
func TestAGUILongConversation(t *testing.T) {
	s := newSite(t, siteOptions{})
	c := s.agClient("ada", "thread-1")
	c.say("Hi.")
	in := c.input()
	in["messages"] = append([]agMessage{{ID: "old", Role: "assistant",
		Content: []byte(`"` + strings.Repeat(`\",[{`, 2<<20) + `"`)}}, c.messages...)
	if events := c.send(in); last(events).Outcome.Type != "success" {
		t.Errorf("the run is %s", texts(events))
	}
	mustBe(t, c.screen(), "user: Hi.\nassistant: Hello.")
}

// A page that is loaded again shows what is stored, also where that is larger
// than what may wait for a client.
func TestAGUILargeSnapshot(t *testing.T) {
	long := strings.Repeat("x", 3<<19)
	s := newSite(t, siteOptions{model: fakellm.New(fakellm.When(nil, fakellm.Says(long)))})
	c := s.agClient("ada", "thread-1")
	c.say("Hi.")
	c.run()
	again := s.agClient("ada", "thread-1")
	again.say("Ho.") // and what else begins the run
	again.messages[0].ID = "other"
	again.run()
	if want := "user: Hi.\nassistant: " + long + "\nuser: Ho.\nassistant: " + long; again.screen() != want {
		t.Errorf("the page shows %d messages, %.80s", len(again.messages), again.screen())
	}
}

// Nothing follows the error of a run that can't be shown any further.
func TestAGUIRunThatCannotBeShown(t *testing.T) {
	gate := make(chan struct{})
	s := newSite(t, siteOptions{
		model: fakellm.New(fakellm.When(nil,
			fakellm.Says("It is not so.").Chunks(3).Hook(func(ctx context.Context, n int) error {
				if n < 2 {
					return nil
				}
				select {
				case <-gate:
				case <-ctx.Done():
				}
				return &llm.Error{Kind: llm.ErrOverloaded}
			}), fakellm.Says("So it is."))),
		change: func(c *agent.Config) {
			c.Retry = agent.Retry{Failures: 3, First: time.Millisecond}
		},
		// What was taken back needs a snapshot, and the user may not see one.
		runner: runner.Options{Authorizer: func(_ context.Context, op runner.Operation) error {
			if op.Kind == runner.OpShow && op.Actor == "ada" {
				return errors.New("no")
			}
			return nil
		}}})
	c := s.agClient("ada", "thread-1")
	c.say("Is it so?")
	st := c.open(c.input())
	defer st.close()
	c.until(st, "TEXT_MESSAGE_CONTENT")
	close(gate)
	events := c.rest(st)
	if end := last(events); end.Code != "not_allowed" || len(of(events, "RUN_ERROR")) != 1 {
		t.Errorf("the run is %s", texts(events))
	}
}

// cancelled has a run of a client's cancelled by an operator, while a message
// waits if there is one.
func (c *agClient) cancelled(waits string) runner.Session {
	t := c.s.t
	t.Helper()
	c.say("slow")
	st := c.open(c.input())
	defer st.close()
	c.until(st, "TOOL_CALL_END")
	var at runner.Session
	for ses, err := range c.s.rn.Sessions(t.Context(), session.Filter{}, "") {
		must(t, err)
		at = ses
	}
	if waits != "" {
		c.s.post("/sessions/"+at.ID+"/messages", `{"id":"w","text":"`+waits+`"}`).ok(t, 202, nil)
	}
	must(t, c.s.rn.CancelSession(t.Context(), at.ID, "operator", "it does harm"))
	c.until(st, "RUN_FINISHED")
	at, err := c.s.rn.Session(t.Context(), at.ID, "ada")
	must(t, err)
	return at
}

// A run that an actor has cancelled isn't carried on by a page that is loaded
// again, in whichever browser. A message goes on.
func TestAGUIRunThatIsCancelled(t *testing.T) {
	for name, waits := range map[string]string{"nothing waits": "", "a message waits": "Ho."} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, siteOptions{})
			c := s.agClient("ada", "thread-1")
			before := c.cancelled(waits)
			for _, page := range []*agClient{c, s.agClient("ada", "thread-1")} {
				if events := page.run(); last(events).Outcome.Type != "cancelled" {
					t.Errorf("the run is %s", texts(events))
				}
			}
			after, err := s.rn.Session(t.Context(), before.ID, "ada")
			if err != nil || after.Messages != before.Messages || after.Finish != before.Finish {
				t.Errorf("the session was %+v and is %+v, %v", before, after, err)
			}
			c.say("Hi.")
			if events := c.run(); last(events).Outcome.Type != "success" {
				t.Errorf("the run is %s", texts(events))
			}
			c.run() // and if another run is before it
			if !strings.HasSuffix(c.screen(), "user: Hi.\nassistant: Hello.") ||
				strings.Contains(c.screen(), "Slept.") {
				t.Errorf("the screen is %s", c.screen())
			}
		})
	}
}
