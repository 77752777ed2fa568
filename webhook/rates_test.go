package webhook_test

import (
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/webhook"
)

// Requests over a limit are refused with when to come again, and those of
// others are not.
func TestRates(t *testing.T) {
	var c clock
	c.options()
	rate := webhook.Rate{PerSecond: 0.1, Burst: 2}
	t.Run("of an address", func(t *testing.T) {
		s := newSite(t, siteOptions{webhook: webhook.Config{Now: func() time.Time { return c.now },
			Limits: webhook.Limits{Address: rate,
				Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}})
		from := func(address string) response {
			r := s.request(http.MethodPost, "x", strings.NewReader(`{}`))
			r.Header.Set("X-Forwarded-For", address)
			return s.send(r)
		}
		from("192.0.2.1").is(t, 401, "bad_token")
		from("192.0.2.1").is(t, 401, "bad_token")
		r := from("192.0.2.1")
		r.is(t, 429, "too_many")
		if r.header.Get("Retry-After") != "10" {
			t.Errorf("Retry-After is %s", r.header.Get("Retry-After"))
		}
		from("192.0.2.2").is(t, 401, "bad_token")
		c.now = c.now.Add(9 * time.Second)
		if r := from("192.0.2.1"); r.status != 429 || r.header.Get("Retry-After") != "1" {
			t.Errorf("a second before: %d, Retry-After %s", r.status, r.header.Get("Retry-After"))
		}
		c.now = c.now.Add(time.Second)
		from("192.0.2.1").is(t, 401, "bad_token")
	})
	t.Run("of a token", func(t *testing.T) {
		s := newSite(t, siteOptions{webhook: webhook.Config{Limits: webhook.Limits{Token: rate}}})
		token := s.paused()
		for range 5 { // which are of no token
			s.post(token+"x", `{}`).is(t, 401, "bad_token")
		}
		s.post(token+"/progress", `{"fraction":0.1}`).accepted(t, false)
		s.post(token+"/progress", `{"fraction":0.2}`).accepted(t, false)
		s.post(token, `{"url":"a"}`).is(t, 429, "too_many")
	})
	t.Run("of a sender", func(t *testing.T) {
		s := keyed(t, siteOptions{}, webhook.KeyConfig{Limits: webhook.Limits{Sender: rate}})
		s.paused()
		forged := "whsec_" + strings.Repeat("A", 32)
		for range 5 {
			s.postKey(forged, "d1", done).is(t, 401, "unverified")
		}
		s.postKey(symmetric, "d1", done).has(t, 200, "0 accepted")
		s.postKey(symmetric, "d1", done).has(t, 200, "0 accepted duplicate")
		s.postKey(symmetric, "d1", done).is(t, 429, "too_many")
		s.postKey(private, "d1", done).has(t, 200, "0 accepted duplicate")
	})
}

// Without proxies of ours, the header counts for nothing.
func TestProxyHeadersAreNotTrusted(t *testing.T) {
	s := newSite(t, siteOptions{webhook: webhook.Config{
		Limits: webhook.Limits{Address: webhook.Rate{PerSecond: 0.001}}}})
	for i, want := range []int{401, 429, 429} {
		r := s.request(http.MethodPost, "x", strings.NewReader(`{}`))
		r.Header.Set("X-Forwarded-For", fmt.Sprint("192.0.2.", i))
		r.Header.Set("X-Real-Ip", fmt.Sprint("192.0.2.", i))
		r.Header.Set("Forwarded", fmt.Sprint("for=192.0.2.", i))
		if got := s.send(r); got.status != want {
			t.Errorf("request %d: %d", i, got.status)
		}
	}
}

func TestLimitsThatAreNone(t *testing.T) {
	rn, err := runner.New(nil, session.NewStore(kvstore.NewMemory(), nil), nil)
	must(t, err)
	defer rn.Close()
	for _, l := range []webhook.Limits{
		{Address: webhook.Rate{PerSecond: -1}}, {Token: webhook.Rate{Burst: 1}},
		{Sender: webhook.Rate{PerSecond: math.NaN()}}, {Sender: webhook.Rate{PerSecond: math.Inf(1)}},
		{Address: webhook.Rate{PerSecond: 1, Burst: -1}}, {Remembered: -1},
		{Proxies: []netip.Prefix{{}}},
	} {
		if _, err := webhook.New(rn, webhook.Config{Limits: l}); err == nil {
			t.Errorf("%+v is taken", l)
		}
	}
}
