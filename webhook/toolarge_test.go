package webhook_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/webhook"
)

// large is a handler that takes little, and fails calls whose answers are more.
func large() webhook.Config {
	return webhook.Config{FailTooLarge: true, MaxBody: 1 << 10, MaxHashed: 4 << 10}
}

// failed checks that the call has failed by an answer that was too large, and
// that a smaller one comes too late.
func (s *site) failed(token string) {
	s.t.Helper()
	if end := s.carryOn(); end.Finish != event.FinishStop {
		s.t.Errorf("the run ended as %s", end.Finish)
	}
	c := s.call()
	if c.Settled != event.Failed || !strings.Contains(string(c.Output), "more than the 1024 bytes") ||
		len(c.Receipts) != 1 {
		s.t.Errorf("the call is settled as %s: %s", c.Settled, c.Output)
	}
}

// By option an answer that is too large fails its call, once, by its token
// alone; and of no other operation does it do so.
func TestAnswerThatIsTooLargeFailsItsCall(t *testing.T) {
	s := newSite(t, siteOptions{webhook: large()})
	token := s.paused()
	s.post(token+"x", sized(1025)).is(t, 401, "bad_token")
	s.post(token+"/fail", `{"message":"`+strings.Repeat("x", 1025)+`"}`).is(t, 413, "too_large")
	if n := len(s.call().Receipts); n != 0 {
		t.Fatalf("%d receipts", n)
	}
	s.send(s.request(http.MethodPost, token, chunked(sized(1025)))).is(t, 413, "too_large")
	r := s.post(token, sized(1<<20))
	r.is(t, 413, "too_large")
	if !strings.Contains(r.Detail, "failed") {
		t.Errorf("it is told %s", r.Detail)
	}
	s.post(token, sized(1024)).is(t, 409, "conflict")
	s.failed(token)

	fine := newSite(t, siteOptions{webhook: large()})
	fine.post(fine.paused(), sized(1024)).accepted(t, false)
	fine.carryOn()
	if c := fine.call(); c.Settled != event.Done {
		t.Errorf("an answer of just the limit settles the call as %s", c.Settled)
	}
}

// Where a signature is wanted, the answer has to be signed, too; it is not kept,
// and not read without end.
func TestLargeAnswerNeedsItsSignature(t *testing.T) {
	s := signedSite(t, siteOptions{webhook: large()})
	token := s.paused()
	forged := "whsec_" + strings.Repeat("A", 32)
	s.post(token, sized(2000)).is(t, 413, "too_large")
	s.postSigned(token, forged, "d1", sized(2000)).is(t, 413, "too_large")
	s.postSigned(token, private, "d1", sized(2000)).is(t, 413, "too_large") // which takes the whole
	s.postSigned(token, symmetric, "d1", sized(4097)).is(t, 413, "too_large")
	body := sized(4097)
	endless := s.request(http.MethodPost, token, chunked(body))
	must(t, webhook.Sign(endless.Header, symmetric, "d1", time.Now(), []byte(body)))
	s.send(endless).is(t, 413, "too_large")
	s.postSigned(token, symmetric, "d1", sized(2000), func(h http.Header) {
		h.Set("Webhook-Timestamp", "NaN")
	}).is(t, 413, "too_large")
	if n := len(s.call().Receipts); n != 0 {
		t.Fatalf("%d receipts", n)
	}
	s.postSigned(token, private, "d0", sized(1025)+" ").is(t, 413, "too_large")
	s.postSigned(token, symmetric, "d1", sized(4096)).is(t, 413, "too_large")
	s.postSigned(token, symmetric, "d1", sized(4096)).is(t, 413, "too_large")
	s.postSigned(token, symmetric, "d2", `{"url":"a"}`).is(t, 409, "conflict")
	s.failed(token)
	if r := s.call().Receipts[0]; r.Delivery != "d1" || r.Actor != "payments" {
		t.Errorf("the receipt is %+v", r)
	}
}

// What is announced as larger than what would be hashed is not even asked for.
func TestAnnouncedBodyIsNotHashed(t *testing.T) {
	s := signedSite(t, siteOptions{webhook: large()})
	conn := s.dial("POST /hooks/"+s.paused()+" HTTP/1.1", "Content-Length: 1073741824",
		"Expect: 100-continue")
	defer conn.Close()
	if got := firstLine(t, conn); !strings.HasPrefix(got, "HTTP/1.1 413") {
		t.Errorf("got %q", got)
	}
}

func TestFailTooLargeNeedsWhatItNeeds(t *testing.T) {
	rn, err := runner.New(nil, session.NewStore(kvstore.NewMemory(), nil), nil)
	must(t, err)
	defer rn.Close()
	for name, c := range map[string]webhook.Config{
		"a verifier of whole bodies": {FailTooLarge: true, Verifier: fails{}},
		"a bound below the first":    {FailTooLarge: true, MaxBody: 10, MaxHashed: 9},
	} {
		if _, err := webhook.New(rn, c); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
