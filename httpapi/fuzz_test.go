package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/webhook"
)

// FuzzHandler sends requests of every shape. Each answer is one of those that
// are documented, in JSON where it has a body, and what is refused leaves
// nothing.
func FuzzHandler(f *testing.F) {
	f.Add("POST", "/sessions", "", "application/json", "", `{"text":"Hi.","id":"k","agent":"ops"}`)
	f.Add("POST", "/sessions/{session}/messages", "", "application/json; charset=utf-8", "",
		`{"text":"Hi.","while":"steer"}`)
	f.Add("POST", "/sessions/{session}/messages", "", "multipart/form-data; boundary=x", "",
		"--x\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\nHi.\r\n--x\r\n"+
			"Content-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n"+
			"Content-Type: image/png\r\n\r\n\x00\r\n--x--\r\n")
	f.Add("POST", "/sessions/{session}/pauses/{pause}/answer", "", "application/json", "",
		`{"approved":true,"arguments":{"cents":1},"reason":"\ud800","id":"d"}`)
	f.Add("POST", "/sessions/{session}/calls/{call}/cancel", "", "x+json", "", `{"reason":"no"}`)
	f.Add("GET", "/sessions/{session}/calls/{call}/artifacts/00", "", "", "", "")
	f.Add("GET", "/pauses", "reason=approval&tool=pay&limit=1", "", "", "")
	f.Add("GET", "/sessions", "after=%00&limit=7&agent=%ff", "", "gzip", "\xff")
	f.Add("DELETE", "/sessions/{session}", "", "", "", "")
	f.Add("OPTIONS", "//sessions/../%2e", "a;b", "text/plain", "", "")
	f.Add("GET", "//", "", "", "", "")
	f.Fuzz(func(t *testing.T, method, path, query, contentType, encoding, body string) {
		s := newSite(t, siteOptions{idle: true})
		id, p := s.waits("pay")
		path = strings.NewReplacer("{session}", id, "{pause}", p.ID, "{call}", p.Call).Replace(path)
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Method, r.URL.Path, r.URL.RawQuery = method, path, query
		r.Header.Set("X-User", "ada")
		r.Header.Set("Content-Type", contentType)
		r.Header.Set("Content-Encoding", encoding)
		if strings.HasSuffix(path, "/events") {
			return // a stream, which goes on
		}
		w := httptest.NewRecorder()
		s.api.ServeHTTP(w, r)
		switch w.Code {
		case 200, 201, 202, 204:
		case 400, 401, 403, 404, 405, 409, 413, 415, 416, 422, 429, 431:
			var p webhook.Problem
			if json.Unmarshal(w.Body.Bytes(), &p) != nil || p.Status != w.Code {
				t.Errorf("a %d is %s", w.Code, w.Body)
			}
		default:
			t.Errorf("the status is %d: %s", w.Code, w.Body)
		}
		if got := w.Body.Bytes(); len(got) > 0 && w.Header().Get("Content-Type") == "application/json" &&
			!json.Valid(got) {
			t.Errorf("the answer is %s", got)
		}
	})
}
