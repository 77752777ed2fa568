package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/httpapi"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

// A stream on which nothing happens is kept alive.
func TestHeartbeats(t *testing.T) {
	s := newSite(t, siteOptions{idle: true, config: httpapi.Config{
		Streams: httpapi.Streams{Heartbeat: time.Millisecond}}})
	id, _ := s.waits("pay")
	st := s.stream(http.MethodGet, "/sessions/"+id+"/events", "")
	defer st.close()
	for e, ok := st.next(); e.comment == ""; e, ok = st.next() {
		if !ok {
			t.Fatal("the stream is over")
		}
	}
}

// The timeouts of a server are for requests, and end no stream.
func TestTimeoutsOfTheServer(t *testing.T) {
	s := newSite(t, siteOptions{idle: true, timeout: 50 * time.Millisecond, config: httpapi.Config{
		Streams: httpapi.Streams{Heartbeat: 20 * time.Millisecond}}})
	id, _ := s.waits("pay")
	st := s.stream(http.MethodGet, "/sessions/"+id+"/events", "")
	defer st.close()
	for range 20 {
		if _, ok := st.next(); !ok {
			t.Fatal("the stream is over")
		}
	}
}

// Who may not look any more is shown nothing more, whatever the reason.
func TestAuthorizationIsAskedAgain(t *testing.T) {
	var who, refused atomic.Value
	s := newSite(t, siteOptions{idle: true, config: httpapi.Config{
		User: func(*http.Request) (runner.Actor, error) {
			if user := who.Load().(string); user != "" {
				return runner.Actor(user), nil
			}
			return "", webhook.ErrNoUser
		},
		Streams: httpapi.Streams{Reauthorize: time.Millisecond},
	}, runner: runner.Options{Authorizer: func(_ context.Context, op runner.Operation) error {
		if op.Kind == refused.Load() {
			return errors.New("not any more")
		}
		return nil
	}}})
	for what, end := range map[string]struct {
		do   func(id string)
		code string
	}{
		"signed out":   {func(string) { who.Store("") }, "no_user"},
		"another user": {func(string) { who.Store("eve") }, "no_user"},
		"not to look":  {func(string) { refused.Store(runner.OpShow) }, "unknown_session"},
		"not to stay":  {func(string) { refused.Store(runner.OpFollow) }, "not_allowed"},
		"deleted": {func(id string) { must(t, s.rn.Delete(t.Context(), id, "ada")) },
			"unknown_session"},
	} {
		who.Store("ada")
		refused.Store(runner.OperationKind(""))
		id, _ := s.waits("pay")
		st := s.stream(http.MethodGet, "/sessions/"+id+"/events", "")
		st.until("pause")
		end.do(id)
		var last sse
		for e, ok := st.next(); ok; e, ok = st.next() {
			if e.data != "" {
				last = e
			}
		}
		if last.Type != webhook.ProblemBase+end.code && !(what == "deleted" &&
			last.Type == webhook.ProblemBase+"deleted") {
			t.Errorf("%s: the stream ends with %s", what, last.data)
		}
	}
}

// A stream of a run needs no right to follow, however often it is asked for.
func TestAStreamOfARunNeedsNoFollow(t *testing.T) {
	s := newSite(t, siteOptions{idle: true, config: httpapi.Config{Streams: httpapi.Streams{
		Reauthorize: time.Millisecond, Heartbeat: time.Millisecond,
	}}, runner: runner.Options{Authorizer: func(_ context.Context, op runner.Operation) error {
		if op.Kind == runner.OpFollow {
			return errors.New("not to follow")
		}
		return nil
	}}})
	st := s.stream(http.MethodPost, "/sessions", `{"text":"slow"}`)
	st.until("call")
	for range 20 {
		if e, ok := st.next(); !ok || e.comment == "" && e.Type != "started" {
			t.Fatalf("then comes %+v, %v", e, ok)
		}
	}
	close(s.gate)
	st.until("end")
}

// A user has so many streams, and no more; others have theirs.
func TestStreamsPerUser(t *testing.T) {
	s := newSite(t, siteOptions{config: httpapi.Config{Streams: httpapi.Streams{PerUser: 1}}})
	id, _ := s.waits("pay")
	path := "/sessions/" + id + "/events"
	st := s.stream(http.MethodGet, path, "")
	r := s.request(http.MethodGet, path, "")
	got := s.do(r)
	if got.is(t, 429, "too_many_streams"); got.header.Get("Retry-After") == "" {
		t.Error("it doesn't tell when to come again")
	}
	r = s.request(http.MethodPost, "/sessions", `{"text":"Hi."}`)
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("X-User", "eve")
	s.do(r).ok(t, 200, nil)
	st.close()
	for { // until the server has seen that the client is gone
		res, err := s.client().Do(s.request(http.MethodGet, path+"?stay=false", ""))
		must(t, err)
		res.Body.Close()
		if res.StatusCode == http.StatusOK {
			break
		}
	}
}

// A handler that is to stop takes no new runs, and ends its streams; the runs
// that go on end in order.
func TestDrain(t *testing.T) {
	s := newSite(t, siteOptions{idle: true})
	waiting, _ := s.waits("pay")
	s.get("/ready").ok(t, 200, nil)
	look := s.stream(http.MethodGet, "/sessions/"+waiting+"/events", "")
	run := s.stream(http.MethodPost, "/sessions", `{"text":"slow"}`)
	id := run.session()
	run.until("call")
	s.api.Drain()
	look.rest()
	run.rest()
	s.get("/health").ok(t, 200, nil)
	for _, r := range []*http.Request{s.request("GET", "/ready", ""),
		s.request("POST", "/sessions", `{"text":"Hi."}`),
		s.request("POST", "/sessions/"+waiting+"/messages", `{"text":"Hi."}`),
		s.request("POST", "/sessions/"+waiting+"/continue", "")} {
		got := s.do(r)
		if got.is(t, 503, "closing"); got.header.Get("Retry-After") == "" {
			t.Error("it doesn't tell when to come again")
		}
	}
	s.get("/sessions/"+waiting).ok(t, 200, nil)
	// A browser's stream that is opened now isn't refused for good.
	s.stream(http.MethodGet, "/sessions/"+waiting+"/events", "").rest()
	closed := make(chan error)
	go func() { closed <- s.api.Close(context.Background()) }()
	select {
	case err := <-closed:
		t.Fatalf("it has closed with %v, and a run goes on", err)
	default:
	}
	close(s.gate)
	must(t, <-closed)
	shown, err := s.rn.Show(t.Context(), id, "ada")
	if err != nil || shown.Finish != event.FinishStop {
		t.Errorf("the run is over as %q, %v", shown.Finish, err)
	}
}

// Close waits for a body that heeds no context no longer than it may.
func TestCloseBesideABodyThatGoesOn(t *testing.T) {
	stuck := make(chan struct{})
	s := newSite(t, siteOptions{idle: true, change: func(c *agent.Config) {
		c.Tools = []tool.Tool{tool.Must(tool.Func(tool.Spec{Name: "slow", Effect: tool.Idempotent},
			func(context.Context, struct{}) (tool.Result[string], error) {
				<-stuck
				return tool.Done("at last"), nil
			}))}
		c.Interceptors = nil
	}})
	run := s.stream(http.MethodPost, "/sessions", `{"text":"slow"}`)
	defer run.close()
	run.until("call")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	closed := make(chan error, 1)
	go func() { closed <- s.api.Close(ctx) }()
	select {
	case err := <-closed:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("it closes with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits for the body")
	}
	close(stuck)
}

// What doesn't end until Close has waited long enough is left to a worker.
func TestCloseThatWaitsNoLonger(t *testing.T) {
	s := newSite(t, siteOptions{idle: true})
	run := s.stream(http.MethodPost, "/sessions", `{"text":"slow"}`)
	run.until("call")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.api.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("it closes with %v", err)
	}
	close(s.gate)
	must(t, s.rn.Work(t.Context(), &runner.WorkOptions{Session: run.session(), UntilOver: true}))
	shown, err := s.rn.Show(t.Context(), run.session(), "ada")
	if err != nil || shown.Finish != event.FinishStop || len(shown.History) != 4 {
		t.Errorf("the run is over as %+v, %v", shown, err)
	}
}
