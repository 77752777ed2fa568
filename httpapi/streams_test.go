package httpapi_test

import (
	"context"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/httpapi"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// A request that begins a run gets what happens, and a client that has lost the
// stream gets the rest behind the last event that it saw.
func TestAStreamOfARun(t *testing.T) {
	s := newSite(t, siteOptions{idle: true})
	st := s.stream(http.MethodPost, "/sessions", `{"text":"Hi."}`)
	first, _ := st.next()
	if first.retry != "2000" || st.res.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("it begins with %+v, %v", first, st.res.Header)
	}
	var text struct{ Delta string }
	mustJSON(t, st.until("text_delta").data, &text)
	message := st.until("message")
	if text.Delta != "Hello." || message.id == "" {
		t.Errorf("it has %q, and %+v", text.Delta, message)
	}
	if types := st.rest(); !slices.Equal(types, []string{"end"}) {
		t.Errorf("then come %v", types)
	}
	id := st.session()
	s.stream(http.MethodPost, "/sessions/"+id+"/messages", `{"text":"Again."}`).rest()
	for _, header := range [][]string{{"Last-Event-ID", message.id}, {"X-None", ""}} {
		path := "/sessions/" + id + "/events?stay=false"
		if header[1] == "" {
			path += "&after=" + message.id
		}
		later := s.stream(http.MethodGet, path, "", header...)
		if types := later.rest(); !slices.Equal(types, []string{"message", "message", "end"}) {
			t.Errorf("by %s it has %v", header[0], types)
		}
	}
}

// A client that comes back within a turn gets what it has not seen, and stays
// over the end of the run. An id of no event is refused.
func TestAStreamThatComesBack(t *testing.T) {
	s := newSite(t, siteOptions{})
	id, p := s.waits("pay")
	at := "/sessions/" + id
	st := s.stream(http.MethodGet, at+"/events", "")
	pause := st.until("pause")
	st.close()
	s.post(at+"/pauses/"+p.ID+"/answer", `{"approved":true}`).ok(t, 200, nil)
	st = s.stream(http.MethodGet, at+"/events", "", "Last-Event-ID", pause.id)
	defer st.close()
	var types []string
	end := func() {
		for types = nil; !slices.Contains(types, "end"); {
			e, ok := st.next()
			if !ok {
				t.Fatalf("the stream is over, after %v", types)
			}
			types = append(types, e.Type)
		}
	}
	end()
	if slices.Contains(types, "pause") || slices.Contains(types, "call") ||
		!slices.Contains(types, "result") {
		t.Errorf("behind the pause it has %v", types)
	}
	s.post(at+"/messages", `{"text":"Hi."}`).ok(t, 202, nil)
	if end(); !slices.Contains(types, "message") {
		t.Errorf("of the next run it has %v", types)
	}
	r := s.request(http.MethodGet, at+"/events", "")
	r.Header.Set("Last-Event-ID", "9999.p1")
	s.do(r).is(t, 422, "invalid_cursor")
}

// What refuses a run is a status, and no stream.
func TestAStreamThatIsRefused(t *testing.T) {
	s := newSite(t, siteOptions{idle: true})
	id, _ := s.waits("pay")
	r := s.request(http.MethodPost, "/sessions/"+id+"/messages", `{"text":"Hi."}`)
	r.Header.Set("Accept", "text/event-stream")
	s.do(r).is(t, 409, "pending")
	r = s.request(http.MethodPost, "/sessions/"+id+"/messages", `{"text":"Hi.","while":"steer"}`)
	r.Header.Set("Accept", "text/event-stream")
	s.do(r).is(t, 422, "invalid")
	r = s.request(http.MethodGet, "/sessions/"+id+"/events", "")
	r.Header.Set("Accept", "application/json")
	s.do(r).is(t, 406, "not_acceptable")
	st := s.stream(http.MethodPost, "/sessions/"+id+"/messages", `{"text":"Hi.","while":"supersede"}`)
	if types := st.rest(); types[len(types)-1] != "end" {
		t.Errorf("the message that supersedes has %v", types)
	}
}

// A run that a request has begun goes on when its browser goes, without any
// worker, and is seen by the next one.
func TestARunGoesOnWhenItsBrowserGoes(t *testing.T) {
	s := newSite(t, siteOptions{idle: true})
	st := s.stream(http.MethodPost, "/sessions", `{"text":"slow"}`)
	id := st.session()
	st.until("call")
	st.close()
	again := s.stream(http.MethodGet, "/sessions/"+id+"/events?stay=false", "")
	again.until("message")
	close(s.gate)
	again.until("end")
	var shown runner.Transcript
	s.get("/sessions/"+id).ok(t, 200, &shown)
	if shown.Finish != event.FinishStop || shown.History[len(shown.History)-1].Text() != "Slept." {
		t.Errorf("it has ended as %+v", shown)
	}
}

// A session is carried on, with a stream and without one.
func TestContinueOverHTTP(t *testing.T) {
	s := newSite(t, siteOptions{idle: true})
	id := s.begin("Hi.")
	st := s.stream(http.MethodPost, "/sessions/"+id+"/continue", "")
	if types := st.rest(); types[len(types)-1] != "end" {
		t.Errorf("it is carried on with %v", types)
	}
	id = s.begin("Hi.")
	var began runner.Session
	s.post("/sessions/"+id+"/continue", "").ok(t, http.StatusAccepted, &began)
	s.stream(http.MethodGet, "/sessions/"+id+"/events?stay=false", "").until("end")
}

// much is a model's message of two megabytes, in pieces.
func much() llm.Model {
	var all []llm.Event
	for range 64 {
		all = append(all, llm.TextDelta{Text: strings.Repeat("x", 32<<10)})
	}
	return fakellm.New(fakellm.Events(append(all, llm.Finish{Reason: llm.StopEnd})...))
}

// A run is over long before a client that has read nothing of it, and that
// client is dropped, not shown a run with a gap in it.
func TestASlowReaderHoldsNothingUp(t *testing.T) {
	s := newSite(t, siteOptions{idle: true, tight: true, model: much(),
		config: httpapi.Config{Streams: httpapi.Streams{Write: time.Hour}}})
	st := s.stream(http.MethodPost, "/sessions", `{"text":"Much."}`)
	defer st.close()
	for ev, err := range s.rn.Follow(t.Context(), st.session(), "ada", nil) {
		must(t, err)
		if end, ended := ev.(event.End); ended && end.Finish != event.FinishStop {
			t.Errorf("the run ends as %s", end.Finish)
		}
	}
	if types := st.rest(); slices.Contains(types, "end") || slices.Contains(types, "message") {
		t.Error("the client has the end of what it was too slow for")
	}
}

// A client that reads nothing gives its place free.
func TestAClientThatReadsNothingIsDropped(t *testing.T) {
	s := newSite(t, siteOptions{tight: true, model: much(), config: httpapi.Config{
		Streams: httpapi.Streams{PerUser: 1, Write: 20 * time.Millisecond}}})
	id := s.begin("Much.")
	through := &runner.FollowOptions{ThroughWaits: true}
	for ev, err := range s.rn.Follow(t.Context(), id, "ada", through) {
		must(t, err)
		if _, ended := ev.(event.End); ended {
			break
		}
	}
	st := s.stream(http.MethodGet, "/sessions/"+id+"/events", "")
	defer st.close()
	for { // until the server has dropped it
		r := s.request(http.MethodGet, "/sessions/"+id+"/events?from=9", "")
		res, err := s.client().Do(r)
		must(t, err)
		res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return
		}
	}
}

// halting is a model that says half of a message, and waits before it goes on.
type halting struct{ gate chan struct{} }

func (m *halting) Generate(ctx context.Context, _ llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if !yield(llm.TextDelta{Text: "Hel"}, nil) {
			return
		}
		select {
		case <-m.gate:
		case <-ctx.Done():
			yield(nil, ctx.Err())
			return
		}
		_ = yield(llm.TextDelta{Text: "lo."}, nil) && yield(llm.Finish{Reason: llm.StopEnd}, nil)
	}
}

// What a model just says is shown to all who look, also to one that connects
// again in the middle of a message: from its beginning.
func TestTextThatIsNotCommittedIsSentAgainWhole(t *testing.T) {
	m := &halting{make(chan struct{})}
	s := newSite(t, siteOptions{model: m})
	id := s.begin("Hi.")
	at := "/sessions/" + id + "/events"
	first := s.stream(http.MethodGet, at, "")
	said := first.until("message") // the user's
	first.until("text_delta")
	first.close()
	var streams []*stream
	for range 3 {
		st := s.stream(http.MethodGet, at, "", "Last-Event-ID", said.id)
		defer st.close()
		var text struct{ Delta string }
		if mustJSON(t, st.until("text_delta").data, &text); text.Delta != "Hel" {
			t.Errorf("it goes on with %q", text.Delta)
		}
		streams = append(streams, st)
	}
	close(m.gate)
	for _, st := range streams {
		var message struct{ Message llm.Message }
		if mustJSON(t, st.until("message").data, &message); message.Message.Text() != "Hello." {
			t.Errorf("the message is %q", message.Message.Text())
		}
	}
}

// A client that comes back behind an id of a run gets the results that came
// meanwhile, also once their turn is over.
func TestComingBackBehindARunsID(t *testing.T) {
	s := newSite(t, siteOptions{})
	st := s.stream(http.MethodPost, "/sessions", `{"text":"pay"}`)
	asked := st.until("message")
	var p tool.Pause
	mustJSON(t, st.until("pause").data, &struct{ Pause *tool.Pause }{&p})
	id := st.session()
	st.close()
	s.post("/sessions/"+id+"/pauses/"+p.ID+"/answer", `{"approved":false}`).ok(t, 200, nil)
	watch := s.stream(http.MethodGet, "/sessions/"+id+"/events", "")
	for end := (event.End{}); end.Finish != event.FinishStop; { // the worker carries it on
		mustJSON(t, watch.until("end").data, &end)
	}
	watch.close()
	back := s.stream(http.MethodGet, "/sessions/"+id+"/events?stay=false", "",
		"Last-Event-ID", asked.id)
	if types := back.rest(); !slices.Contains(types, "result") {
		t.Errorf("it has %v", types)
	}
}
