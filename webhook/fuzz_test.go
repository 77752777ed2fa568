package webhook_test

import (
	"encoding/json"
	"errors"
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

// FuzzFormats reads bodies of every shape. What a format finds is JSON, or the
// body is refused as one that does not fit.
func FuzzFormats(f *testing.F) {
	f.Add(`{"a":1}`)
	f.Add(`[{"specversion":"1.0","id":"e","type":"t","source":"s","data":{"a":1}},7]`)
	f.Add(`{"Type":"Notification","MessageId":"m","Message":"{\"a\":1}"}`)
	f.Add("payload=%7B%7D&x=%00")
	f.Fuzz(func(t *testing.T, body string) {
		for _, format := range []webhook.Format{webhook.FromJSON, webhook.FromCloudEvents,
			webhook.FromSNS, webhook.FromForm} {
			events, err := format([]byte(body))
			if err != nil && webhook.Status(err) != http.StatusUnprocessableEntity {
				t.Errorf("%q: %v", body, err)
			}
			for _, e := range events {
				if e.Err == nil && len(e.Data) > 0 && !json.Valid(e.Data) || e.Sender != "" {
					t.Errorf("%q is read as %+v", body, e)
				}
			}
		}
	})
}

// FuzzVerifiers checks headers of every shape. None is believed that differs
// from what was signed.
func FuzzVerifiers(f *testing.F) {
	f.Add("Webhook-Signature", symmetricBy, vectorID, "1614265330", vectorBody)
	f.Add("Webhook-Signature", publicBy+" "+symmetricBy, vectorID, "1614265330", vectorBody)
	f.Add("X-Hub-Signature-256", gitHubBy, "", "", gitHubBody)
	f.Add("Stripe-Signature", "t=1614265330,v1=00,v0=00", "", "", vectorBody)
	f.Fuzz(func(t *testing.T, name, signature, id, at, body string) {
		v := made(webhook.Senders(made(webhook.StandardWebhooks(secrets(symmetric, public)))(t),
			made(webhook.GitHub(secrets(gitHubSecret)))(t),
			made(webhook.Stripe(secrets(stripeSecret)))(t)))(t)
		h := http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {at}}
		h.Set(name, signature)
		by, err := v.Verify(h, []byte(body), vectorNow)
		known := id == vectorID && at == "1614265330" && body == vectorBody || body == gitHubBody
		if err == nil && !known || err != nil && !errors.Is(err, webhook.ErrUnverified) {
			t.Errorf("it verifies as %+v, %v", by, err)
		}
	})
}
