package webhook_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

// untouched checks that nothing has come to the call.
func (s *site) untouched() {
	s.t.Helper()
	c := s.call()
	if p := s.progress(); len(c.Receipts) != 0 || c.Settled != "" || p != nil {
		s.t.Errorf("the call has %d receipts, progress %+v, and is settled as %q",
			len(c.Receipts), p, c.Settled)
	}
}

// Whatever is put together of what was signed before is not signed: each piece
// belongs to its delivery.
func TestForgedAndSplicedDeliveries(t *testing.T) {
	s := keyed(t, siteOptions{}, webhook.KeyConfig{})
	s.paused()
	queued := `{"job":{"id":"job-1"},"state":"queued"}`
	now := time.Now()
	signed := func(secret, id string, at time.Time, body string) http.Header {
		h := http.Header{}
		must(t, webhook.Sign(h, secret, id, at, []byte(body)))
		return h
	}
	with := func(h http.Header, name, value string) http.Header {
		h = h.Clone()
		h.Set(name, value)
		return h
	}
	one := signed(symmetric, "d1", now, queued)
	two := signed(private, "d2", now, queued)
	old := signed(symmetric, "d3", now.Add(-time.Hour), done)
	signature := one.Get("Webhook-Signature")
	for what, h := range map[string]http.Header{
		"nothing":                            {},
		"another body's":                     one,
		"another sender's, for another body": two,
		"another delivery's id":              with(one, "Webhook-Id", "d2"),
		"another time":                       with(one, "Webhook-Timestamp", fmt.Sprint(now.Unix()+1)),
		"an old one":                         old,
		"an old one with a time of today":    with(old, "Webhook-Timestamp", fmt.Sprint(now.Unix())),
		"of the future":                      signed(symmetric, "d4", now.Add(time.Hour), done),
		"v1 as v1a":                          with(one, "Webhook-Signature", "v1a"+signature[2:]),
		"v1a as v1":                          with(two, "Webhook-Signature", "v1"+two.Get("Webhook-Signature")[3:]),
		"by the public key as a secret":      with(one, "Webhook-Signature", "v1,"+hmacOf(t, public, "d1", now, done)),
		"by the empty secret":                with(one, "Webhook-Signature", "v1,"+hmacOf(t, "", "d1", now, done)),
		"in GitHub's header":                 {"X-Hub-Signature-256": {"sha256=" + mac256(gitHubSecret, done)}},
		"with ids of two deliveries":         {"Webhook-Id": {"d1", "d2"}, "Webhook-Timestamp": one["Webhook-Timestamp"], "Webhook-Signature": one["Webhook-Signature"]},
	} {
		r := s.request(http.MethodPost, "../key", strings.NewReader(done))
		for name, values := range h {
			r.Header[name] = values
		}
		got := s.send(r)
		got.is(t, http.StatusUnauthorized, "unverified")
		if t.Failed() {
			t.Fatalf("signed by %s", what)
		}
	}
	for what, body := range map[string]string{"white space": done + "\n", "the order of members": `{"state":"done","job":{"id":"job-1"},"result":{"url":"a"}}`,
		"an escape": strings.Replace(done, "job-1", `job\u002d1`, 1)} {
		r := s.request(http.MethodPost, "../key", strings.NewReader(body))
		r.Header = signed(symmetric, "d5", now, done)
		if got := s.send(r); got.status != 401 {
			t.Errorf("a body that differs by %s: %d %s", what, got.status, got.text)
		}
	}
	s.untouched()
}

// hmacOf returns a signature of v1 by any text, as a forger makes it who knows
// what is public.
func hmacOf(t *testing.T, secret, id string, at time.Time, body string) string {
	t.Helper()
	sum, err := hexBytes(mac256(secret, fmt.Sprintf("%s.%d.%s", id, at.Unix(), body)))
	must(t, err)
	text, err := json.Marshal(sum) // []byte as base64
	must(t, err)
	return strings.Trim(string(text), `"`)
}

func hexBytes(text string) (b []byte, err error) {
	_, err = fmt.Sscanf(text, "%x", &b)
	return b, err
}

// A delivery counts once however it comes: at once from many, after success,
// after a restart, signed anew when it is tried again; and under the same id
// another body is a conflict.
func TestReplayedDeliveries(t *testing.T) {
	s := keyed(t, siteOptions{path: boltFile(t)}, webhook.KeyConfig{})
	s.paused()
	const senders = 8
	got := make([]string, senders)
	var all sync.WaitGroup
	for i := range senders {
		all.Go(func() { got[i] = s.postKey(symmetric, "d1", done).results(t) })
	}
	all.Wait()
	first := 0
	for _, one := range got {
		if one == "0 accepted" {
			first++
		} else if one != "0 accepted duplicate" {
			t.Errorf("one of them is told %q", one)
		}
	}
	if n := len(s.call().Receipts); first != 1 || n != 1 {
		t.Errorf("%d were the first, and there are %d receipts", first, n)
	}
	again := func() {
		t.Helper()
		s.postKey(symmetric, "d1", done).has(t, 200, "0 accepted duplicate")
		s.postKey(symmetric, "d1", strings.Replace(done, `"a"`, `"b"`, 1)).is(t, 409, "conflict")
		s.postKey(symmetric, "d1", strings.Replace(done, `done`, `failed`, 1)).is(t, 409, "conflict")
	}
	again()
	s.restart()
	again()
	s.carryOn()
	again()
	s.restart()
	again()
	// What was captured is good for as long as its time is, and does nothing new.
	r := s.request(http.MethodPost, "../key", strings.NewReader(done))
	must(t, webhook.Sign(r.Header, symmetric, "d1", time.Now().Add(-4*time.Minute), []byte(done)))
	s.send(r).has(t, 200, "0 accepted duplicate")
}

// Whichever write of a delivery fails, or loses its acknowledgement, the next
// try of the same is taken, and counts once.
func TestDeliveryOfWhichAWriteFails(t *testing.T) {
	for name, fault := range map[string]func(int) faultkv.Fault{"fails": faultkv.FailAt, "is not acknowledged": faultkv.LoseAt} {
		for n := 1; ; n++ {
			var store *faultkv.Injector
			s := keyed(t, siteOptions{wrap: func(kv kvstore.Store) kvstore.Store {
				store = faultkv.New(kv)
				return store.Store
			}}, webhook.KeyConfig{})
			s.paused()
			before := store.Applies()
			store.Add(fault(before + n))
			if got := s.postKey(symmetric, "d1", done); got.status != 200 {
				got.is(t, 503, "unavailable")
			}
			reached := store.Applies() >= before+n
			store.Heal()
			if got := s.postKey(symmetric, "d1", done); got.status != 200 {
				t.Errorf("write %d %s: the next try is told %s", n, name, got.text)
			}
			if end := s.carryOn(); end.Finish != event.FinishStop || len(s.call().Receipts) != 1 {
				t.Errorf("write %d %s: the run ended as %s, with %d receipts", n, name, end.Finish, len(s.call().Receipts))
			}
			if !reached {
				break
			}
		}
	}
}

// A token of one session does nothing to another one, wherever else that one is
// named.
func TestTokenOfAnotherSession(t *testing.T) {
	s := newSite(t, siteOptions{})
	ours := s.paused()
	for _, err := range s.rn.Run(t.Context(), "bob", "chat-2", llm.UserText("Build it."), nil) {
		must(t, err)
	}
	theirs := s.tokens[len(s.tokens)-1]
	if ours == theirs {
		t.Fatal("two sessions have one token")
	}
	r := s.request(http.MethodPost, theirs+"?session="+chat+"&token="+ours, strings.NewReader(`{"url":"b"}`))
	r.Header.Set("Authorization", "Bearer "+ours)
	r.Header.Set("X-Session", chat)
	s.send(r).accepted(t, false)
	s.untouched()
	// Pieces of two tokens are none.
	a, b := strings.Split(ours, "."), strings.Split(theirs, ".")
	s.post(a[0]+"."+a[1]+"."+b[2], `{"url":"b"}`).is(t, 401, "bad_token")
	s.post(b[0]+"."+b[1]+"."+a[2], `{"url":"b"}`).is(t, 401, "bad_token")
	s.untouched()
}

// A pause that one sender's answers are for takes nothing of another's, by
// token, by key, and by a token within what is signed.
func TestAnotherSendersAnswer(t *testing.T) {
	s := keyed(t, siteOptions{sender: "payments", permits: []tool.Permit{tool.PermitComplete}},
		webhook.KeyConfig{})
	token := s.paused()
	s.postKey(private, "d1", done).is(t, 503, "not_yet_known")
	s.postKey(private, "d1", `{"state":"done","token":"`+token+`","result":{"url":"a"}}`).
		is(t, 403, "other_sender")
	s.post(token, `{"url":"a"}`).is(t, 403, "other_sender") // this handler wants no signature
	s.untouched()
	s.postKey(symmetric, "d1", done).has(t, 200, "0 accepted")
}
