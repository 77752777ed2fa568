package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/httpapi"
	"github.com/fermata-ai/fermata/runner"
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
	got := s.do(r)
	if !strings.Contains(s.logs.String(), "secret") || strings.Contains(got.text, "secret") {
		t.Errorf("it is refused with %s", got.text)
	} else {
		got.is(t, 503, "unavailable")
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
		for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "TRACE", "post", "QUERY",
			"POST"} {
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
		"/api/sessions/x/y", "/.//evil.com", "//", "///", "/.", "/..",
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
