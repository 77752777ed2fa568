package httpapi_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/httpapi"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/webhook"
)

// until reads a stream up to an event of a type.
func (c *agClient) until(st *stream, kind string) {
	c.s.t.Helper()
	for {
		e, ok := c.next(st)
		if !ok {
			c.s.t.Fatalf("the run is over before a %s", kind)
		}
		if e.Type == kind {
			return
		}
	}
}

// A run that is one too many is refused, and what it brings isn't stored.
func TestAGUIRunsOfAUserAreBounded(t *testing.T) {
	s := newSite(t, siteOptions{config: httpapi.Config{Streams: httpapi.Streams{PerUser: 1}}})
	c := s.agClient("ada", "thread-1")
	c.say("slow")
	st := c.open(c.input())
	defer st.close()
	c.until(st, "TOOL_CALL_END")
	c.say("Hi.")
	c.refused(c.input()).is(t, 429, "too_many_streams")
	close(s.gate)
	c.rest(st)
	for ses, err := range s.rn.Sessions(t.Context(), session.Filter{}, "") {
		must(t, err)
		if shown, err := s.rn.Show(t.Context(), ses.ID, ""); err != nil || len(shown.History) != 4 ||
			len(shown.Queue) != 0 {
			t.Errorf("the session is %+v, %v", shown, err)
		}
	}
}

// The run of a user who is signed out meanwhile ends for the client, and goes on.
func TestAGUIUserWhoIsSignedOut(t *testing.T) {
	var out atomic.Bool
	s := newSite(t, siteOptions{config: httpapi.Config{
		User: func(r *http.Request) (runner.Actor, error) {
			if out.Load() {
				return "", webhook.ErrNoUser
			}
			return signedIn(r)
		}, Streams: httpapi.Streams{Reauthorize: 10 * time.Millisecond}}})
	c := s.agClient("ada", "thread-1")
	c.say("slow")
	st := c.open(c.input())
	defer st.close()
	c.until(st, "TOOL_CALL_END")
	out.Store(true)
	if events := c.rest(st); last(events).Type != "RUN_ERROR" || last(events).Code != "no_user" {
		t.Errorf("the rest is %s", texts(events))
	}
	close(s.gate)
}

// A denial is told from a failure, also where the turn was over before the run's
// follower had looked.
func TestAGUIDenialThatWasFaster(t *testing.T) {
	var late atomic.Bool
	var rn *runner.Runner
	s := newSite(t, siteOptions{runner: runner.Options{
		Authorizer: func(ctx context.Context, op runner.Operation) error {
			if op.Kind == runner.OpFollow && op.Actor == "ada" && late.Load() {
				for _, err := range rn.Follow(ctx, op.Session, "staff", &runner.FollowOptions{
					ThroughWaits: true}) {
					must(t, err)
				}
			}
			return nil
		}}})
	rn = s.rn
	c := s.paused("ada")
	late.Store(true)
	events := c.run(c.resolved(`{"approved":false}`))
	if r := of(events, "TOOL_CALL_RESULT"); len(r) != 1 || r[0].Metadata.Fermata.Status != "denied" {
		t.Errorf("the run is %s", texts(events))
	}
}

// A message to a session that is busy is answered in the run that brings it.
func TestAGUIMessageToABusySession(t *testing.T) {
	s := newSite(t, siteOptions{})
	one, two := s.agClient("ada", "thread-1"), s.agClient("ada", "thread-1")
	one.say("slow")
	st := one.open(one.input())
	one.until(st, "TOOL_CALL_END")
	st.close()
	two.messages = append(two.messages, agMessage{ID: "late", Role: "user", Content: []byte(`"Hi."`)})
	st = two.open(two.input())
	defer st.close()
	two.until(st, "MESSAGES_SNAPSHOT")
	close(s.gate)
	if events := two.rest(st); last(events).Outcome.Type != "success" {
		t.Errorf("the run is %s", texts(events))
	}
	mustBe(t, two.screen(), "user: slow\nassistant:  slow{}\ntool: slept\nassistant: Slept.\n"+
		"user: Hi.\nassistant: Hello.")
}

// While a model is to be called again later, its run goes on.
func TestAGUIModelThatIsCalledLater(t *testing.T) {
	s := newSite(t, siteOptions{
		model: fakellm.New(fakellm.When(nil, fakellm.Fails(&llm.Error{Kind: llm.ErrOverloaded}),
			fakellm.Says("Hello."))),
		change: func(c *agent.Config) {
			c.Retry = agent.Retry{First: 20 * time.Millisecond, Hold: time.Nanosecond}
		},
	})
	c := s.agClient("ada", "thread-1")
	c.say("Hi.")
	if events := c.run(); last(events).Outcome.Type != "success" {
		t.Errorf("the run is %s", texts(events))
	}
	mustBe(t, c.screen(), "user: Hi.\nassistant: Hello.")
}

// Text streams, also to a client that comes in the middle of it: what was said
// so far comes at once.
func TestAGUITextStreams(t *testing.T) {
	gate := make(chan struct{})
	s := newSite(t, siteOptions{model: fakellm.New(fakellm.When(nil,
		fakellm.Says("So it is.").Chunks(3).Hook(func(ctx context.Context, n int) error {
			if n == 2 {
				select {
				case <-gate:
				case <-ctx.Done():
				}
			}
			return ctx.Err()
		})))})
	one, two := s.agClient("ada", "thread-1"), s.agClient("ada", "thread-1")
	one.say("Is it so?")
	first := one.open(one.input())
	defer first.close()
	one.until(first, "TEXT_MESSAGE_CONTENT")
	second := two.open(two.input())
	defer second.close()
	two.until(second, "TEXT_MESSAGE_CONTENT")
	close(gate)
	for c, st := range map[*agClient]*stream{one: first, two: second} {
		if events := c.rest(st); last(events).Outcome.Type != "success" ||
			len(of(events, "MESSAGES_SNAPSHOT")) != 0 {
			t.Errorf("the rest is %s", texts(events))
		}
		mustBe(t, c.screen(), "user: Is it so?\nassistant: So it is.")
	}
}
