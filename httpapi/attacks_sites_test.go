package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/httpapi"
)

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
		"any page, with a password": {cors: httpapi.CORS{Origins: []string{"*"}}, header: []string{
			"Sec-Fetch-Site", "cross-site", "Origin", evil, "Authorization", "basic YWRhOng="}},
		"any page, with a login": {cors: httpapi.CORS{Origins: []string{"*"}}, header: []string{
			"Sec-Fetch-Site", "cross-site", "Origin", evil, "Authorization", "Negotiate YQ=="}},
		"any page, with a bearer token": {cors: httpapi.CORS{Origins: []string{"*"}}, taken: true,
			header: []string{"Sec-Fetch-Site", "cross-site", "Origin", evil, "Authorization", "Bearer a"}},
		"the same origin, with a password": {cors: httpapi.CORS{Origins: []string{"*"}}, taken: true,
			header: []string{"Sec-Fetch-Site", "same-origin", "Authorization", "Basic YWRhOng="}},
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

// A page of another site can't have a browser open streams, and so take a user's
// places; one that is listed, and the user's own, can.
func TestCrossSiteStreams(t *testing.T) {
	const chat = "https://chat.example.com"
	s := newSite(t, siteOptions{idle: true, config: httpapi.Config{
		CORS: httpapi.CORS{Origins: []string{chat}}, Streams: httpapi.Streams{PerUser: 1}}})
	id, _ := s.waits("pay")
	path := "/sessions/" + id + "/events?stay=false"
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, // an image
		{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"},
		{"Sec-Fetch-Site", "same-site", "Origin", "https://evil.example.com"},
		{"Origin", "https://evil.example.com"},
	} {
		r := s.request(http.MethodGet, path, "")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		s.do(r).is(t, 403, "cross_site")
	}
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site", "Origin", chat}, {"Sec-Fetch-Site", "same-origin"},
		{"Sec-Fetch-Site", "none"}, {"X-None", ""},
	} {
		st := s.stream(http.MethodGet, path, "", header...)
		st.until("end")
		st.rest()
	}
	r := s.request(http.MethodGet, "/sessions/"+id, "")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	s.do(r).ok(t, 200, nil) // which no page can read
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
