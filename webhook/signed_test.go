package webhook_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/webhook"
)

// signedSite is a site whose handler wants signatures of two senders.
func signedSite(t *testing.T, o siteOptions) *site {
	t.Helper()
	ci := secrets(public)
	ci.Sender = "ci"
	v := made(webhook.Senders(made(webhook.StandardWebhooks(secrets(symmetric)))(t),
		made(webhook.StandardWebhooks(ci))(t)))(t)
	o.webhook.Verifier = v
	return newSite(t, o)
}

// sign posts a body that is signed as the delivery of that id, with changes to
// the headers.
func (s *site) postSigned(path, secret, id, body string, change ...func(http.Header)) response {
	s.t.Helper()
	r := s.request(http.MethodPost, path, strings.NewReader(body))
	must(s.t, webhook.Sign(r.Header, secret, id, time.Now(), []byte(body)))
	for _, f := range change {
		f(r.Header)
	}
	return s.send(r)
}

// A handler with a verifier takes what has a token and a signature, and keeps
// the signed id of the delivery, and who signed, with the receipt.
func TestTokenAndSignature(t *testing.T) {
	s := signedSite(t, siteOptions{path: boltFile(t)})
	token := s.paused()
	const body = `{"url":"a"}`
	forged := "whsec_" + strings.Repeat("A", 32)
	set := func(name, value string) func(http.Header) {
		return func(h http.Header) { h.Set(name, value) }
	}
	s.post(token, body).is(t, http.StatusUnauthorized, "unverified")
	refused := s.postSigned(token, forged, "d1", body)
	refused.is(t, http.StatusUnauthorized, "unverified")
	if refused.Call != "" || refused.header.Get("WWW-Authenticate") != "Signature" {
		t.Errorf("a request that is not signed is told %s", refused.text)
	}
	s.postSigned(token, symmetric, "d1", body, set("Webhook-Id", "d2")).is(t, 401, "unverified")
	s.postSigned(token, symmetric, "d1", body, set("Webhook-Timestamp", "NaN")).is(t, 401, "unverified")
	s.postSigned("x", symmetric, "d1", body).is(t, 401, "bad_token")
	s.postSigned("", symmetric, "d1", body).is(t, 401, "no_token")
	s.postSigned(token+"/fail", private, "d1", `{"message":1}`).is(t, 422, "invalid")

	s.postSigned(token, private, "d1", body).accepted(t, false)
	s.postSigned(token, private, "d1", body).accepted(t, true)
	s.restart()
	s.postSigned(token, private, "d1", body).accepted(t, true)
	s.postSigned(token, private, "d1", `{"url":"b"}`).is(t, http.StatusConflict, "conflict")
	r := s.call().Receipts[0]
	if r.Delivery != "d1" || r.Actor != "ci" {
		t.Errorf("the receipt is of delivery %q by %q", r.Delivery, r.Actor)
	}
}

// The mark before a body is a part of what is signed.
func TestByteOrderMarkIsSigned(t *testing.T) {
	s := signedSite(t, siteOptions{})
	s.postSigned(s.paused(), symmetric, "d1", "\uFEFF"+`{"url":"a"}`).accepted(t, false)
}

// Without a verifier the id that a sender gives is kept with the receipt.
func TestDeliveryIsKeptWithTheReceipt(t *testing.T) {
	s := newSite(t, siteOptions{})
	token := s.paused()
	s.deliver(token, "d1", `{"url":"a"}`).accepted(t, false)
	s.deliver(token, "d2", `{"url":"a"}`).accepted(t, true)
	if r := s.call().Receipts; len(r) != 1 || r[0].Delivery != "d1" || r[0].Actor != "webhook" {
		t.Errorf("the receipts are %+v", r)
	}
	s.deliver(token, strings.Repeat("x", 257), `{"url":"a"}`).is(t, 422, "invalid")
}

// Where a signature is wanted, an id that it does not cover is not kept.
func TestUnsignedDeliveryIsNotKept(t *testing.T) {
	s := newSite(t, siteOptions{webhook: webhook.Config{
		Verifier: made(webhook.GitHub(secrets(gitHubSecret)))(t)}})
	r := s.request(http.MethodPost, s.paused(), strings.NewReader(`{"url":"a"}`))
	r.Header.Set("X-Hub-Signature-256", "sha256="+mac256(gitHubSecret, `{"url":"a"}`))
	r.Header.Set("Webhook-Id", "forged")
	s.send(r).accepted(t, false)
	if r := s.call().Receipts[0]; r.Delivery != "" || r.Actor != "payments" {
		t.Errorf("the receipt is %+v", r)
	}
}

// fails is a verifier that can't tell, or says something it must not.
type fails struct {
	by  webhook.Signed
	err error
}

func (f fails) Verify(http.Header, []byte, time.Time) (webhook.Signed, error) { return f.by, f.err }

// A verifier that can't check asks for another try, and one that names no
// sender is not believed.
func TestVerifierThatCannotCheck(t *testing.T) {
	away := fails{err: errors.New("the keys are away")}
	for name, test := range map[string]struct {
		v      webhook.Verifier
		status int
		code   string
	}{
		"fails":             {away, 503, "unavailable"},
		"names no sender":   {fails{}, 401, "unverified"},
		"an id of lines":    {fails{by: webhook.Signed{Sender: "x", Delivery: "a\r\nb"}}, 401, "unverified"},
		"fails, before one": {made(webhook.Senders(away, fails{by: webhook.Signed{Sender: "x"}}))(t), 200, ""},
		"fails, and no other one": {made(webhook.Senders(away, fails{err: webhook.ErrUnverified}))(t),
			503, "unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, siteOptions{webhook: webhook.Config{Verifier: test.v}})
			token := s.paused()
			if got := s.post(token, `{"url":"a"}`); test.status == 200 {
				got.accepted(t, false)
			} else {
				got.is(t, test.status, test.code)
			}
			if logged := strings.Contains(s.logs.String(), "the keys are away"); logged != (test.status == 503) {
				t.Errorf("the log has\n%s", s.logs.String())
			}
		})
	}
}

// Handlers written by hand answer as ours do.
func TestWriteError(t *testing.T) {
	conflict := &session.ConflictError{}
	for _, test := range []struct {
		err     error
		status  int
		code    string
		headers []string
	}{
		{nil, 200, "", nil},
		{conflict, 409, "conflict", nil},
		{runner.ErrBadToken, 401, "bad_token", []string{"Www-Authenticate"}},
		{webhook.ErrUnverified, 401, "unverified", []string{"Www-Authenticate"}},
		{session.ErrNotYetKnown, 503, "not_yet_known", []string{"Retry-After"}},
		{errors.New("a secret"), 503, "unavailable", []string{"Retry-After"}},
	} {
		w := httptest.NewRecorder()
		webhook.WriteError(w, test.err)
		body := w.Body.String()
		if w.Code != test.status || test.err != nil &&
			!strings.Contains(body, `"type":"`+webhook.ProblemBase+test.code+`"`) ||
			test.err == nil && body != "" || strings.Contains(body, "a secret") {
			t.Errorf("%v: %d %s", test.err, w.Code, body)
		}
		for _, name := range []string{"Www-Authenticate", "Retry-After"} {
			if got := w.Header().Get(name) != ""; got != slices.Contains(test.headers, name) {
				t.Errorf("%v: %s is %q", test.err, name, w.Header().Get(name))
			}
		}
	}
}

// A pause that is made for a sender takes nothing of another one, who has its
// token, and signs; nor is that one told whose it is.
func TestPauseForASenderOverHTTP(t *testing.T) {
	s := signedSite(t, siteOptions{sender: "payments"})
	token := s.paused()
	for _, path := range []string{token, token + "/fail"} {
		r := s.postSigned(path, private, "d1", `{"message":"a"}`)
		if path == token {
			r = s.postSigned(path, private, "d1", `{"url":"a"}`)
		}
		r.is(t, http.StatusForbidden, "other_sender")
		if strings.Contains(r.text, "payments") {
			t.Errorf("it is told %s", r.text)
		}
	}
	s.postSigned(token, symmetric, "d1", `{"url":"a"}`).accepted(t, false)
	s.postSigned(token, private, "d1", `{"url":"a"}`).is(t, http.StatusForbidden, "other_sender")
	if r := s.call().Receipts[0]; r.Sender != "payments" {
		t.Errorf("the receipt is signed by %q", r.Sender)
	}
}
