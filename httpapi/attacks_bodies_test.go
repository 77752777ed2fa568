package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/runner"
)

// A body with files that is cut anywhere is not taken for a whole one, and one
// may end with its closing boundary, with or without a line's end.
func TestUploadsThatAreCut(t *testing.T) {
	s := newSite(t, siteOptions{idle: true})
	id := s.begin("Hi.")
	const whole = "--a\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\nDelete all but\r\n" +
		"--a\r\nContent-Disposition: form-data; name=\"file\"; filename=\"b\"\r\n" +
		"Content-Type: text/plain\r\n\r\nthese\r\n--a--"
	send := func(body string) response {
		r := s.request(http.MethodPost, "/sessions/"+id+"/messages", body)
		r.Header.Set("Content-Type", "multipart/form-data; boundary=a")
		return s.do(r)
	}
	for n := range len(whole) {
		if got := send(whole[:n]); got.status < 400 {
			t.Errorf("%q is answered with %d", whole[:n], got.status)
		}
	}
	for _, end := range []string{"", "\r\n", "\r\nan epilogue"} {
		send(whole+end).ok(t, http.StatusAccepted, nil)
	}
	var shown runner.Transcript
	s.get("/sessions/"+id).ok(t, 200, &shown)
	if len(shown.Queue) != 3 {
		t.Errorf("%d messages wait", len(shown.Queue))
	}
}

// What a request names is not sent back whole, and not logged.
func TestLargeNamesAreNotSentBack(t *testing.T) {
	s := newSite(t, siteOptions{idle: true})
	id := s.begin("Hi.")
	large := strings.Repeat("a", 900<<10)
	for path, body := range map[string]string{
		"/sessions":                      `{"text":"x","agent":"` + large + `"}`,
		"/sessions/":                     `{"text":"x","id":"` + large + `"}`,
		"/sessions/" + id + "/messages":  `{"text":"x","while":"` + large + `"}`,
		"/sessions/" + id + "/messages?": `{"text":"x","` + large + `":""}`,
		"/sessions/" + id + "/cancel":    `{"reason":"` + large + `"}`,
		"/agui": `{"threadId":"` + id + `","runId":"x","messages":[],` +
			`"resume":[{"interruptId":"` + large + `","status":"cancelled"}]}`,
	} {
		got := s.post(strings.TrimRight(path, "/?"), body)
		if got.status < 400 || got.status > 499 || len(got.text) > 8<<10 {
			t.Errorf("%s: %d, with %d bytes", path, got.status, len(got.text))
		}
	}
	if n := len(s.logs.String()); n > 0 {
		t.Errorf("the log has %d bytes: %.200s", n, s.logs.String())
	}
}

// A session that is there is begun again as it was, whatever agent the repeated
// request names, with a stream and without one.
func TestBeginningAgainWithAnotherAgent(t *testing.T) {
	s := newSite(t, siteOptions{idle: true})
	first := s.stream(http.MethodPost, "/sessions", `{"text":"Hi.","id":"m1"}`)
	first.rest()
	const body = `{"text":"Hi.","id":"m1","agent":"none"}`
	var again struct{ Session string }
	s.post("/sessions", body).ok(t, http.StatusCreated, &again)
	st := s.stream(http.MethodPost, "/sessions", body)
	st.until("end")
	if again.Session != first.session() || st.session() != first.session() {
		t.Errorf("%s is begun again as %s, and %s", first.session(), again.Session, st.session())
	}
	for _, accept := range []string{"", "text/event-stream"} { // of an id that is not known
		r := s.request(http.MethodPost, "/sessions", strings.Replace(body, "m1", "m2", 1))
		r.Header.Set("Accept", accept)
		s.do(r).is(t, 422, "invalid")
	}
}

// A server whose answers can't be sent piece by piece refuses streams, and its
// log tells why; nothing is begun.
func TestStreamsWithoutFlush(t *testing.T) {
	s := newSite(t, siteOptions{idle: true})
	id, _ := s.waits("pay")
	whole := s.server
	defer func() { s.server = whole }()
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.api.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
	}))
	defer s.server.Close()
	for _, r := range []*http.Request{s.request("GET", "/sessions/"+id+"/events", ""),
		s.request("POST", "/sessions", `{"text":"Hi."}`),
		s.request("POST", "/agui", `{"threadId":"x","runId":"y","messages":[]}`)} {
		r.Header.Set("Accept", "text/event-stream")
		s.do(r).is(t, 503, "unavailable")
	}
	if logs := s.logs.String(); strings.Count(logs, "ResponseWriter with Flush") != 3 {
		t.Errorf("the log is %s", logs)
	}
	var list struct{ Sessions []runner.Session }
	if s.get("/sessions").ok(t, 200, &list); len(list.Sessions) != 1 {
		t.Errorf("there are %d sessions", len(list.Sessions))
	}
}
