package httpapi_test

import (
	"mime"
	"net/http"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/runner"
)

// A file that a tool has made has an address in the stream, and in what is
// shown of its call. It is fetched whole, in ranges, and not again.
func TestArtifactsOverHTTP(t *testing.T) {
	s := newSite(t, siteOptions{idle: true})
	st := s.stream(http.MethodPost, "/sessions", `{"text":"report"}`)
	id := st.session()
	var made struct {
		Call     string
		Artifact struct{ URL, Data string }
	}
	mustJSON(t, st.until("artifact").data, &made)
	st.rest()
	at := made.Artifact.URL
	var call runner.CallDetails
	s.get("/sessions/"+id+"/calls/"+made.Call).ok(t, 200, &call)
	if made.Artifact.Data != "" || len(call.Artifacts) != 1 || call.Artifacts[0].URL != at ||
		call.Artifacts[0].Data != nil || call.Settled != event.Done {
		t.Fatalf("it is shown as %+v, and in the call as %+v", made, call)
	}
	got := s.get(at)
	got.ok(t, 200, nil)
	for name, want := range map[string]string{
		"Content-Type": "text/html", "X-Content-Type-Options": "nosniff", "Accept-Ranges": "bytes",
		"Content-Security-Policy":      "sandbox; default-src 'none'; frame-ancestors 'none'",
		"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "private, no-cache",
	} {
		if have := got.header.Get(name); have != want {
			t.Errorf("%s is %q, want %q", name, have, want)
		}
	}
	how, params, err := mime.ParseMediaType(got.header.Get("Content-Disposition"))
	if err != nil || how != "attachment" || params["filename"] != `a "b"X-Evil: 1.html` ||
		got.header.Get("X-Evil") != "" || got.text != string(photo) {
		t.Errorf("it comes as %q, %v: %s", got.header.Get("Content-Disposition"), got.header, got.text)
	}
	with := func(header ...string) response {
		r := s.request("GET", at, "")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		return s.do(r)
	}
	if got := with("Range", "bytes=2-4"); got.status != 206 || got.text != "234" ||
		got.header.Get("Content-Range") != "bytes 2-4/10" {
		t.Errorf("a range is %d %q, %v", got.status, got.text, got.header)
	}
	if got := with("Range", "bytes=2-4", "If-Range", `"other"`); got.status != 200 {
		t.Errorf("a range of another file is %d", got.status)
	}
	if got := with("Range", "bytes=20-"); got.header.Get("Content-Range") != "bytes */10" {
		t.Errorf("a range that isn't there is %v", got.header)
	} else {
		got.is(t, 416, "range")
	}
	if got := with("If-None-Match", got.header.Get("ETag")); got.status != 304 || got.text != "" {
		t.Errorf("what the client has is %d %q", got.status, got.text)
	}
	s.get(strings.TrimRight(at, "0123456789abcdef")+"00").is(t, 404, "no_such_path")
	r := s.request("GET", at, "")
	r.Header.Set("X-User", "eve")
	s.do(r).is(t, 404, "unknown_session")
}

// Streams that drive nothing show what calls made, too, with its address.
func TestArtifactsInStreams(t *testing.T) {
	s := newSite(t, siteOptions{})
	id := s.begin("report")
	st := s.stream(http.MethodGet, "/sessions/"+id+"/events", "")
	var made event.Artifact
	mustJSON(t, st.until("artifact").data, &made)
	st.close()
	if made.Artifact.URL == "" || made.Artifact.Data != nil || made.Cursor == "" {
		t.Errorf("a stream shows %+v", made)
	}
	c := s.agClient("ada", "th")
	c.say("report")
	if seen := texts(c.run()); strings.Count(seen, "fermata.artifact") != 1 {
		t.Errorf("AG-UI shows %s", seen)
	}
}
