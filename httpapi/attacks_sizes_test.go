package httpapi_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/httpapi"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/webhook"
)

// Nothing that a request brings, or a tool has made, becomes a header of the
// answer, and two requests in one are two, or none.
func TestHeaderSplitting(t *testing.T) {
	s := newSite(t, siteOptions{idle: true})
	id := s.begin("Hi.")
	for _, lines := range [][]string{
		{"GET /sessions/a%0d%0aX-Evil:1/events HTTP/1.1"},
		{"GET /sessions/" + id + "/events HTTP/1.1", "Last-Event-ID: 1\rX-Evil: 1"},
		{"POST /sessions HTTP/1.1", "Content-Length: 5", "Content-Length: 6"},
		{"POST /sessions HTTP/1.1", "Content-Length: 5", "Transfer-Encoding: chunked",
			"Transfer-Encoding: identity"},
	} {
		conn, err := net.Dial("tcp", s.server.Listener.Addr().String())
		must(t, err)
		lines = append(lines, "Host: x", "X-User: ada", "", "")
		_, err = io.WriteString(conn, strings.Join(lines, "\r\n"))
		must(t, err)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		must(t, err)
		if res.Header.Get("X-Evil") != "" || res.StatusCode < 400 {
			t.Errorf("%q: %d %v", lines, res.StatusCode, res.Header)
		}
		res.Body.Close()
		conn.Close()
	}
	// The id of an event is made by the server alone, and its data is one line.
	st := s.stream("POST", "/sessions/"+id+"/messages", `{"text":"a\r\n\r\nid: 9\ndata: evil\n\n"}`)
	for e, ok := st.next(); ok; e, ok = st.next() {
		if strings.HasPrefix(e.data, "evil") || e.id == "9" {
			t.Errorf("the stream has %+v", e)
		}
	}
}

// Bodies and headers that are huge, endless or slow cost a bounded amount, and
// of a request that isn't let in, the body isn't read.
func TestHugeAndSlowRequests(t *testing.T) {
	s := newSite(t, siteOptions{idle: true, config: httpapi.Config{Limits: httpapi.Limits{
		Body: 4 << 10, Header: 2 << 10, Reading: 50 * time.Millisecond}}})
	s.post("/sessions", `{"text":"`+strings.Repeat("x", 5<<10)+`"}`).is(t, 413, "too_large")
	r := s.request("GET", "/sessions", "")
	r.Header.Set("X-Much", strings.Repeat("x", 3<<10))
	s.do(r).is(t, 431, "headers_too_large")
	s.get("/sessions?agent="+strings.Repeat("x", 3<<10)).is(t, 431, "headers_too_large")
	for line, want := range map[string]string{
		"Content-Length: 1073741824": "HTTP/1.1 413",
		"Content-Length: 100":        "HTTP/1.1 408",
	} {
		conn, err := net.Dial("tcp", s.server.Listener.Addr().String())
		must(t, err)
		_, err = io.WriteString(conn, "POST /sessions HTTP/1.1\r\nHost: x\r\nX-User: ada\r\n"+
			"Content-Type: application/json\r\n"+line+"\r\n\r\n{")
		must(t, err)
		got, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, %v", line, got, err)
		}
		conn.Close()
	}
	for header, bad := range map[string][]string{
		"Content-Type": {"", "text/plain", "application/x-www-form-urlencoded",
			"application/json; charset=utf-16", "multipart/mixed", "multipart/form-data"},
		"Content-Encoding": {"gzip"},
	} {
		for _, value := range bad {
			r := s.request("POST", "/sessions", `{"text":"Hi."}`)
			r.Header.Set(header, value)
			if got := s.do(r); got.status != 415 && got.status != 400 {
				t.Errorf("%s: %s: %d %s", header, value, got.status, got.text)
			}
		}
	}
	for _, body := range []string{"null", "[]", `"x"`, "{", `{"text":"a"}{}`,
		`{"text":"a","text":"b"}`,
		`{"text":"a","Text":"b"}`, `{"TEXT":"a"}`, `{"text":null}`, `{"text":7}`,
		`{"text":"a","while":"always"}`, `{}`, `{"text":"a","agent":"none"}`,
		strings.Repeat("[", 4000), `{"text":"a","user":"eve"}`} {
		if got := s.post("/sessions", body); got.status != 422 {
			t.Errorf("%.40q: %d %s", body, got.status, got.text)
		}
	}
	var list struct{ Sessions []runner.Session }
	if s.get("/sessions").ok(t, 200, &list); len(list.Sessions) != 0 {
		t.Errorf("there are sessions: %+v", list)
	}
}

// Requests of one address, and of one user, are bounded in time.
func TestRates(t *testing.T) {
	for name, limits := range map[string]httpapi.Limits{
		"address": {Address: webhook.Rate{PerSecond: 0.001, Burst: 2}},
		"user":    {User: webhook.Rate{PerSecond: 0.001, Burst: 2}},
	} {
		s := newSite(t, siteOptions{idle: true, config: httpapi.Config{Limits: limits}})
		s.get("/sessions").ok(t, 200, nil)
		s.get("/sessions").ok(t, 200, nil)
		if got := s.get("/sessions"); got.header.Get("Retry-After") != "1000" {
			t.Errorf("%s: %d, %v", name, got.status, got.header)
		} else {
			got.is(t, 429, "too_many")
		}
		r := s.request("GET", "/sessions", "")
		r.Header.Set("X-User", "eve")
		r.Header.Set("X-Forwarded-For", "192.0.2.1")
		if got := s.do(r); (got.status == 200) != (name == "user") {
			t.Errorf("%s: another one gets %d", name, got.status)
		}
	}
}
