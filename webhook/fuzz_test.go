package webhook_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/webhook"
)

// FuzzHandler sends requests of every shape. Each response is one of those that
// are documented, in JSON, and has no token in it.
func FuzzHandler(f *testing.F) {
	f.Add("POST", "/hooks/{token}", "", "application/json", "", `{"url":"a"}`)
	f.Add("POST", "/hooks/{token}/fail", "", "", "", `{"message":"no","retryable":true}`)
	f.Add("POST", "/hooks/{token}/progress", "", "application/json; charset=utf-8", "",
		`{"fraction":0.5,"data":[1,{}]}`)
	f.Add("POST", "/hooks/{token}/cancel", "", "x+json", "identity", `{"reason":"\ud800"}`)
	f.Add("POST", "/hooks/{token}/approve", "", "", "", `{"reason":"fine"}`)
	f.Add("POST", "/hooks/{token}/deny", "", "", "", ``)
	f.Add("POST", "/hooks/fail", "Bearer {token}", "", "gzip", "\xff")
	f.Add("GET", "/hooks//", "Basic x", "text/plain", "", "")
	f.Fuzz(func(t *testing.T, method, path, auth, contentType, encoding, body string) {
		s := newSite(t, siteOptions{})
		token := s.paused()
		h, err := webhook.New(s.rn, s.o.webhook)
		must(t, err)
		with := func(text string) string { return strings.ReplaceAll(text, "{token}", token) }
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Method, r.URL.Path = method, with(path)
		r.Header.Set("Authorization", with(auth))
		r.Header.Set("Content-Type", contentType)
		r.Header.Set("Content-Encoding", encoding)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch w.Code {
		case 200, 401, 403, 404, 405, 409, 410, 415, 422:
		default:
			t.Errorf("the status is %d", w.Code)
		}
		if got := w.Body.String(); !json.Valid([]byte(got)) || strings.Contains(got, token) {
			t.Errorf("the answer is %s", got)
		}
	})
}
