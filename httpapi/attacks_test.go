package httpapi_test

import (
	"bufio"
	"fmt"
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

// every lists a request of each route that is about a session.
func every(s *site, id, call, pause string) (all []*http.Request) {
	at := "/sessions/" + id
	for _, one := range [][3]string{
		{"GET", at, ""}, {"DELETE", at, ""}, {"POST", at + "/messages", `{"text":"Hi."}`},
		{"GET", at + "/messages/m1", ""}, {"POST", at + "/continue", ""},
		{"POST", at + "/cancel", `{}`}, {"GET", at + "/events", ""},
		{"GET", at + "/calls/" + call, ""}, {"POST", at + "/calls/" + call + "/cancel", ""},
		{"GET", at + "/calls/" + call + "/artifacts/00", ""}, {"GET", at + "/pauses", ""},
		{"GET", at + "/pauses/" + pause, ""},
		{"POST", at + "/pauses/" + pause + "/answer", `{"approved":true}`},
	} {
		r := s.request(one[0], one[1], one[2])
		r.Header.Set("X-User", "eve")
		all = append(all, r)
	}
	return all
}

// Another user's session is, to a user, one that isn't there: in each route, with
// an Authorizer or without, and to the letter.
func TestOtherUsersSessions(t *testing.T) {
	for name, o := range map[string]siteOptions{
		"no authorizer": {idle: true},
		"authorizer":    {idle: true, runner: runner.Options{Authorizer: own}},
	} {
		s := newSite(t, o)
		id, p := s.waits("pay")
		there, none := every(s, id, p.Call, p.ID), every(s, "none", p.Call, p.ID)
		for i := range there {
			a, b := s.do(there[i]), s.do(none[i])
			if a.is(t, 404, "unknown_session"); a.text != b.text || a.status != b.status {
				t.Errorf("%s, %s: one that is there is refused with %s, and otherwise %s", name,
					there[i].URL.Path, a.text, b.text)
			}
		}
		for _, path := range []string{"/sessions", "/pauses"} {
			r := s.request("GET", path, "")
			r.Header.Set("X-User", "eve")
			if got := s.do(r); strings.Contains(got.text, id) {
				t.Errorf("%s: %s lists another user's: %s", name, path, got.text)
			}
		}
		var shown runner.Transcript
		s.get("/sessions/"+id).ok(t, 200, &shown)
		if len(shown.Pending) != 1 || len(shown.Queue) != 0 || shown.Messages != 2 {
			t.Errorf("%s: the session is now %+v", name, shown)
		}
	}
}

// With Others, the Authorizer alone decides.
func TestSessionsOfOthers(t *testing.T) {
	s := newSite(t, siteOptions{idle: true, config: httpapi.Config{Others: true},
		runner: runner.Options{Authorizer: staffOr(own)}})
	id, p := s.waits("pay")
	as := func(user, method, path, body string) response {
		r := s.request(method, path, body)
		r.Header.Set("X-User", user)
		return s.do(r)
	}
	answer := "/sessions/" + id + "/pauses/" + p.ID + "/answer"
	as("eve", "POST", answer, `{"approved":true}`).is(t, 403, "not_allowed")
	as("eve", "GET", "/sessions/none", "").is(t, 403, "not_allowed")
	as("eve", "GET", "/pauses?all=true", "").is(t, 403, "not_allowed")
	if got := as("staff", "GET", "/pauses?all=true", ""); !strings.Contains(got.text, p.ID) {
		t.Errorf("the staff's inbox is %s", got.text)
	}
	if got := as("staff", "GET", "/sessions?user=ada", ""); !strings.Contains(got.text, id) {
		t.Errorf("the staff's list is %s", got.text)
	}
	as("staff", "POST", "/sessions/none/messages", `{"text":"Hi."}`).is(t, 404, "unknown_session")
	as("staff", "POST", answer, `{"approved":true}`).ok(t, 200, nil)
}

// A request of no user gets nowhere, and one whose user can't be told isn't
// taken for one of none.
func TestNoUser(t *testing.T) {
	s := newSite(t, siteOptions{idle: true, config: httpapi.Config{
		User: func(r *http.Request) (runner.Actor, error) {
			if r.Header.Get("X-User") == "broken" {
				return "", fmt.Errorf("secret")
			}
			return signedIn(r)
		}}})
	id := s.begin("Hi.")
	for _, r := range every(s, id, "c", "c.1") {
		r.Header.Del("X-User")
		got := s.do(r)
		if got.is(t, 401, "no_user"); got.header.Get("WWW-Authenticate") == "" {
			t.Error("it has no WWW-Authenticate")
		}
	}
	r := s.request("GET", "/sessions", "")
	r.Header.Set("X-User", "broken")
	if got := s.do(r); !strings.Contains(s.logs.String(), "secret") || strings.Contains(got.text, "secret") {
		t.Errorf("it is refused with %s", got.text)
	} else {
		got.is(t, 503, "unavailable")
	}
}

// A page of another site makes a browser send a request, with the user's
// cookies: nothing that changes anything is taken.
func TestCrossSiteRequests(t *testing.T) {
	const chat, evil = "https://chat.example.com", "https://evil.example.com"
	for name, test := range map[string]struct {
		cors   httpapi.CORS
		header []string
		taken  bool
	}{
		"a page of the same origin": {header: []string{"Sec-Fetch-Site", "same-origin"}, taken: true},
		"no browser":                {taken: true},
		"another site":              {header: []string{"Sec-Fetch-Site", "cross-site", "Origin", evil}},
		"another host of the site":  {header: []string{"Sec-Fetch-Site", "same-site", "Origin", evil}},
		"an old browser":            {header: []string{"Origin", evil}},
		"a sandboxed page":          {header: []string{"Origin", "null"}},
		"a page that may": {cors: httpapi.CORS{Origins: []string{chat}, Credentials: true},
			header: []string{"Sec-Fetch-Site", "cross-site", "Origin", chat, "Cookie", "a=b"}, taken: true},
		"a page that may not": {cors: httpapi.CORS{Origins: []string{chat}, Credentials: true},
			header: []string{"Sec-Fetch-Site", "cross-site", "Origin", evil, "Cookie", "a=b"}},
		"a page whose origin begins alike": {cors: httpapi.CORS{Origins: []string{chat}},
			header: []string{"Sec-Fetch-Site", "cross-site", "Origin", chat + ".evil.com"}},
		"any page, with a token": {cors: httpapi.CORS{Origins: []string{"*"}},
			header: []string{"Sec-Fetch-Site", "cross-site", "Origin", evil}, taken: true},
		"any page, with cookies": {cors: httpapi.CORS{Origins: []string{"*"}},
			header: []string{"Sec-Fetch-Site", "cross-site", "Origin", evil, "Cookie", "a=b"}},
	} {
		s := newSite(t, siteOptions{idle: true, config: httpapi.Config{CORS: test.cors}})
		r := s.request("POST", "/sessions", `{"text":"Hi."}`)
		for i := 0; i < len(test.header); i += 2 {
			r.Header.Set(test.header[i], test.header[i+1])
		}
		got := s.do(r)
		if test.taken {
			got.ok(t, 201, nil)
		} else if got.is(t, 403, "cross_site"); got.status != 403 {
			t.Error(name)
		}
		allowed := got.header.Get("Access-Control-Allow-Origin")
		switch origin := r.Header.Get("Origin"); {
		case len(test.cors.Origins) == 0 && allowed != "", allowed == evil, allowed == "null":
			t.Errorf("%s: the answer may be read by %q", name, allowed)
		case test.taken && origin != "" && allowed != origin && allowed != "*":
			t.Errorf("%s: the answer can't be read, but by %q", name, allowed)
		}
		if creds := got.header.Get("Access-Control-Allow-Credentials"); creds != "" &&
			(!test.cors.Credentials || allowed == "*" || allowed == "") {
			t.Errorf("%s: credentials go with %q", name, allowed)
		}
		if !strings.Contains(strings.Join(got.header.Values("Vary"), ","), "Origin") {
			t.Errorf("%s: a cache may give the answer to another origin", name)
		}
	}
	for _, bad := range []httpapi.CORS{{Origins: []string{"*"}, Credentials: true},
		{Origins: []string{"*", chat}}, {Origins: []string{"chat.example.com"}},
		{Origins: []string{chat + "/"}}, {Origins: []string{"https://*.example.com/x"}}} {
		s := newSite(t, siteOptions{idle: true})
		if _, err := httpapi.New(s.rn, httpapi.Config{User: signedIn, CORS: bad}); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// What a browser asks beforehand is answered without a user, and tells methods
// to pages that may use them alone.
func TestPreflight(t *testing.T) {
	const chat = "https://chat.example.com"
	s := newSite(t, siteOptions{idle: true, config: httpapi.Config{
		CORS: httpapi.CORS{Origins: []string{chat}}}})
	for origin, methods := range map[string]string{chat: "GET, HEAD, OPTIONS, POST",
		"https://evil.example.com": ""} {
		r := s.request("OPTIONS", "/sessions", "")
		r.Header.Del("X-User")
		r.Header.Set("Origin", origin)
		r.Header.Set("Access-Control-Request-Method", "POST")
		got := s.do(r)
		got.ok(t, http.StatusNoContent, nil)
		if got.header.Get("Access-Control-Allow-Methods") != methods ||
			(got.header.Get("Access-Control-Allow-Headers") == "") != (methods == "") {
			t.Errorf("%s: %v", origin, got.header)
		}
	}
}

// Each path takes its own methods, whatever a request says of the method beside
// its line.
func TestOtherMethods(t *testing.T) {
	s := newSite(t, siteOptions{idle: true})
	id, p := s.waits("pay")
	at := "/sessions/" + id
	for path, allow := range map[string]string{
		"/sessions": "GET, HEAD, OPTIONS, POST", at: "DELETE, GET, HEAD, OPTIONS",
		at + "/events": "GET, OPTIONS", at + "/cancel": "OPTIONS, POST",
		at + "/pauses/" + p.ID + "/answer": "OPTIONS, POST", "/health": "GET, HEAD, OPTIONS",
	} {
		for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "TRACE", "post", "QUERY", "POST"} {
			if strings.Contains(allow+",", method+",") {
				continue
			}
			r := s.request(method, path+"?_method=POST", "")
			r.Header.Set("X-Http-Method-Override", "POST")
			got := s.do(r)
			if got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") != allow {
				t.Errorf("%s %s: %d, %q", method, path, got.status, got.header.Get("Allow"))
			}
		}
	}
	s.do(s.request("HEAD", at, "")).ok(t, 200, nil)
	if list := s.get("/pauses"); !strings.Contains(list.text, p.ID) {
		t.Errorf("what waits is %s", list.text)
	}
}

// A path leads to what it names, and nowhere else: no escape is taken apart
// twice, no path is cleaned, and no answer leads elsewhere.
func TestPaths(t *testing.T) {
	s := newSite(t, siteOptions{idle: true, config: httpapi.Config{Path: "/api/"}})
	var b struct{ Session string }
	s.post("/api/sessions", `{"text":"Hi."}`).ok(t, 201, &b)
	for _, path := range []string{
		"/sessions/" + b.Session, "/api", "/api/", "//api/sessions", "/api//sessions", "/api/./sessions",
		"/api/sessions/", "/api/x/../sessions", "/api/sessions/%2e%2e/sessions", "/api/sessions/..",
		"/api/sessions//events", "/api/sessions/x/events/", "/api/%2e/health", "/api%2fsessions",
		"/api/sessions%2f" + b.Session, "/API/sessions", "/api/sessions;a=b", "//evil.com/%2e%2e",
		"/api/sessions/x/y", "/.//evil.com",
	} {
		r := s.request("GET", "", "")
		r.URL.Opaque = path
		if strings.HasPrefix(path, "//") {
			r.URL.Opaque = "//" + r.URL.Host + path
		}
		got := s.do(r)
		if got.status != 404 || got.header.Get("Location") != "" {
			t.Errorf("%s: %d, %q", path, got.status, got.header.Get("Location"))
		}
	}
	for _, id := range []string{"..%2f" + b.Session, "..%2F..%2fhealth", b.Session + "%2fevents",
		"%252e%252e", b.Session + "%00", b.Session + "%20", "%ff", "." + b.Session,
		strings.Repeat("x", 5000), b.Session + "%0d%0aX-Evil:%201"} {
		r := s.request("GET", "", "")
		r.URL.Opaque = "/api/sessions/" + id
		got := s.do(r)
		if got.is(t, 404, "unknown_session"); got.header.Get("X-Evil") != "" {
			t.Errorf("%s: %v", id, got.header)
		}
	}
}

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
		_, err = io.WriteString(conn, strings.Join(append(lines, "Host: x", "X-User: ada", "", ""), "\r\n"))
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
		if got, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.HasPrefix(got, want) {
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
	for _, body := range []string{"null", "[]", `"x"`, "{", `{"text":"a"}{}`, `{"text":"a","text":"b"}`,
		`{"text":"a","Text":"b"}`, `{"TEXT":"a"}`, `{"text":null}`, `{"text":7}`,
		`{"text":"a","while":"always"}`, `{}`, `{"text":"a","agent":"none"}`, strings.Repeat("[", 4000), `{"text":"a","user":"eve"}`} {
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
