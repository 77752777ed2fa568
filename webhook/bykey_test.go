package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

// ciEvent is what a CI server sends that knows nothing of fermata.
type ciEvent struct {
	State    string          `json:"state"`
	Result   json.RawMessage `json:"result"`
	Why      string          `json:"why"`
	Fraction float64         `json:"fraction"`
	Token    string          `json:"token"`
}

// ciMeans is its Mapping. Of the states it knows some.
func ciMeans(e webhook.Event) ([]webhook.Action, error) {
	var in ciEvent
	if err := json.Unmarshal(e.Data, &in); err != nil {
		return nil, err
	}
	a := webhook.Action{Message: in.Why, Token: in.Token, Fraction: in.Fraction, Payload: in.Result}
	switch in.State {
	case "running":
		a.Do = tool.PermitProgress
	case "done":
		a.Do = tool.PermitComplete
	case "failed":
		a.Do, a.Retryable = tool.PermitFail, true
	case "aborted":
		a.Do = tool.PermitCancel
	case "offer", "withdrawn":
		a.Do, a.Name = tool.PermitEvent, in.State
	case "approved":
		a.Do = tool.PermitApprove
	}
	return []webhook.Action{a}, nil
}

// keyed is a site to which two senders send by keys.
func keyed(t *testing.T, o siteOptions, c webhook.KeyConfig) *site {
	t.Helper()
	ci := secrets(public)
	ci.Sender = "ci"
	c.Verifier = made(webhook.Senders(made(webhook.StandardWebhooks(secrets(symmetric)))(t),
		made(webhook.StandardWebhooks(ci))(t)))(t)
	if c.Tool == "" {
		c.Tool = "job"
	}
	if c.Key == "" && c.KeyFunc == nil {
		c.Key = "/job/id"
	}
	if c.Map == nil {
		c.Map = ciMeans
	}
	o.byKey = &c
	return newSite(t, o)
}

// progress returns that of the open call.
func (s *site) progress() *tool.Progress {
	s.t.Helper()
	transcript, err := s.rn.Show(s.t.Context(), chat, "ada")
	must(s.t, err)
	return transcript.Pending[0].Progress
}

// result is one of the results of a list.
type result struct {
	Item      int             `json:"item"`
	Status    string          `json:"status"`
	Duplicate bool            `json:"duplicate"`
	Call      string          `json:"call"`
	Pause     string          `json:"pause"`
	Problem   webhook.Problem `json:"problem"`
}

// say returns a result in brief.
func (r result) say() string {
	out := fmt.Sprint(r.Item, " ", r.Status)
	if r.Duplicate {
		out += " duplicate"
	}
	if _, code, ok := strings.Cut(r.Problem.Type, "#"); ok {
		out += " " + code
	}
	return out
}

// postKey sends what the holder of a secret signs as the delivery of that id.
func (s *site) postKey(secret, id, body string) response {
	s.t.Helper()
	return s.postSigned("../key", secret, id, body)
}

// results are those in the answer, in brief.
func (r response) results(t *testing.T) string {
	t.Helper()
	var out struct {
		Results []result `json:"results"`
	}
	must(t, json.Unmarshal([]byte(r.text), &out))
	var all []string
	for _, one := range out.Results {
		all = append(all, one.say())
	}
	return strings.Join(all, ", ")
}

func (r response) has(t *testing.T, status int, results string) {
	t.Helper()
	if got := r.results(t); r.status != status || got != results {
		t.Errorf("got %d with %q, want %d with %q: %s", r.status, got, status, results, r.text)
	}
}

const done = `{"job":{"id":"job-1"},"state":"done","result":{"url":"a"}}`

// What a sender signs finds its call by its own key, counts once, and is known
// again after a restart; what means nothing is accepted and leaves nothing.
func TestEventsByTheirKeys(t *testing.T) {
	s := keyed(t, siteOptions{path: boltFile(t)}, webhook.KeyConfig{})
	s.paused()
	s.postKey(symmetric, "d1", `{"job":{"id":"job-1"},"state":"queued"}`).has(t, 200, "0 ignored")
	s.postKey(symmetric, "d2", `{"state":"queued"}`).has(t, 200, "0 ignored")
	if p := s.progress(); len(s.call().Receipts) != 0 || p != nil {
		t.Errorf("what means nothing has left %+v, %+v", s.call().Receipts, p)
	}
	running := `{"job":{"id":"job-1"},"state":"running","fraction":0.5,"why":"half"}`
	s.postKey(symmetric, "d3", running).has(t, 200, "0 accepted")
	if p := s.progress(); p == nil || p.Fraction != 0.5 || p.Message != "half" {
		t.Errorf("the progress is %+v", p)
	}
	bad := s.postKey(symmetric, "d4", `{"job":{"id":"job-1"},"state":"done","result":{"url":1}}`)
	bad.is(t, 422, "invalid")
	if len(bad.Faults) == 0 || bad.Faults[0].Path != "/url" || bad.Call == "" {
		t.Errorf("it is told %s", bad.text)
	}
	s.postKey(symmetric, "d5", `{"state":"done"}`).is(t, 422, "invalid")
	s.postKey(symmetric, "d5", `{"job":{"id":"job-1"},"state":7}`).is(t, 422, "invalid")
	s.postKey(symmetric, "d5", `{"job":{"id":"job-1"},"job":{"id":"x"},"state":"done"}`).is(t, 422, "invalid")
	s.postKey(symmetric, "d6", done).has(t, 200, "0 accepted")
	s.postKey(symmetric, "d6", done).has(t, 200, "0 accepted duplicate")
	s.restart()
	s.postKey(symmetric, "d6", done).has(t, 200, "0 accepted duplicate")
	s.carryOn()
	s.postKey(symmetric, "d6", done).has(t, 200, "0 accepted duplicate")
	s.postKey(symmetric, "d6", strings.Replace(done, `"a"`, `"b"`, 1)).is(t, 409, "conflict")
	s.postKey(symmetric, "d7", running).is(t, 410, "settled")
	r := s.call().Receipts
	if len(r) != 1 || r[0].Delivery != "d6" || r[0].Actor != "payments" {
		t.Errorf("the receipts are %+v", r)
	}
}

// Without a mapping an event completes its call, and its key may be a number.
func TestEventsThatCompleteByDefault(t *testing.T) {
	c := webhook.KeyConfig{Map: nil, Key: "/no"}
	o := siteOptions{}
	c.Verifier, c.Tool = made(webhook.GitHub(secrets(gitHubSecret)))(t), "count"
	o.byKey = &c
	o.tools = []tool.Tool{tool.Must(tool.Func(tool.Spec{Name: "count", MayPause: true},
		func(context.Context, struct{}) (tool.Result[map[string]int], error) {
			return tool.Pending[map[string]int](tool.Await{Key: "9007199254740993"}), nil
		}))}
	o.model = fakellm.New(fakellm.Calls("count", `{}`), fakellm.Says("Counted."))
	s := newSite(t, o)
	s.run()
	post := func(body string) response {
		r := s.request(http.MethodPost, "../key", strings.NewReader(body))
		r.Header.Set("X-Hub-Signature-256", "sha256="+mac256(gitHubSecret, body))
		r.Header.Set("X-GitHub-Delivery", "forged")
		r.Header.Set("Webhook-Id", "forged")
		return s.send(r)
	}
	post(`{"of": 1}`).has(t, 200, "0 ignored")
	post(`{"no": 9007199254740993}`).has(t, 200, "0 accepted")
	if r := s.call().Receipts[0]; r.Delivery != "" {
		t.Errorf("an id that is not signed is kept: %q", r.Delivery)
	}
}

func TestOtherMeaningsByKey(t *testing.T) {
	for state, want := range map[string]event.Status{"failed": event.Failed, "aborted": event.Cancelled} {
		s := keyed(t, siteOptions{}, webhook.KeyConfig{Actor: "the CI"})
		s.paused()
		body := `{"job":{"id":"job-1"},"why":"no disk","state":"` + state + `"}`
		s.postKey(symmetric, "d1", body).has(t, 200, "0 accepted")
		s.postKey(symmetric, "d1", body).has(t, 200, "0 accepted duplicate")
		s.carryOn()
		if c := s.call(); c.Settled != want || !strings.Contains(string(c.Output), "no disk") ||
			c.Receipts[0].Actor != "the CI" {
			t.Errorf("%s settles the call as %s, %s", state, c.Settled, c.Output)
		}
	}
	s := keyed(t, siteOptions{}, webhook.KeyConfig{})
	s.paused()
	s.postKey(symmetric, "d1", `{"job":{"id":"job-1"},"state":"approved"}`).is(t, 503, "unavailable")
	if !strings.Contains(s.logs.String(), "not one of those that an event may mean") {
		t.Errorf("the log has\n%s", s.logs.String())
	}
}

// A sender may be faster than the commit of the pause: it is asked to try
// again, and its next try is taken.
func TestEventBeforeItsPause(t *testing.T) {
	s := keyed(t, siteOptions{body: func(s *site, _ string) {
		s.postKey(symmetric, "d1", done).is(s.t, 503, "not_yet_known")
	}}, webhook.KeyConfig{})
	s.paused()
	s.postKey(symmetric, "d1", done).has(t, 200, "0 accepted")
}

// A sender that never delivers again is heard all the same, by option.
func TestEventThatIsKeptForItsPause(t *testing.T) {
	s := keyed(t, siteOptions{path: boltFile(t)}, webhook.KeyConfig{Keep: &runner.Keep{}})
	s.postKey(symmetric, "d1", done).has(t, 200, "0 accepted")
	s.postKey(symmetric, "d1", done).has(t, 200, "0 accepted duplicate")
	if r := s.postKey(symmetric, "d1", done); !strings.Contains(r.text, `"fate":"kept"`) {
		t.Errorf("the answer is %s", r.text)
	}
	old := `{"job":{"id":"job-1"},"state":"running"}`
	s.postKey(symmetric, "d2", old).is(t, 503, "not_yet_known")
	s.restart()
	s.run()
	if c := s.call(); c.Settled != event.Done || string(c.Output) != `{"url":"a"}` ||
		c.Receipts[0].Delivery != "d1" {
		t.Errorf("the call is %+v", c)
	}
	s.postKey(symmetric, "d1", done).has(t, 200, "0 accepted duplicate")
}

// A heartbeat keeps the call alive, and its sender is told of a cancellation,
// by token and by key.
func TestHeartbeatsOverHTTP(t *testing.T) {
	s := keyed(t, siteOptions{heartbeat: time.Minute}, webhook.KeyConfig{})
	token := s.paused()
	running := `{"job":{"id":"job-1"},"state":"running"}`
	beats := map[string]func() response{
		"bare":     func() response { return s.post(token+"/heartbeat", "") },
		"by token": func() response { return s.post(token+"/heartbeat", `{"fraction":0.5}`) },
		"by key":   func() response { return s.postKey(symmetric, "d1", running) },
	}
	for name, beat := range beats {
		if r := beat(); r.status != 200 || !strings.Contains(r.text, `"due":"`) ||
			strings.Contains(r.text, "cancelled") {
			t.Errorf("%s: %d %s", name, r.status, r.text)
		}
	}
	_, err := s.rn.Cancel(t.Context(), chat, s.call().Call, "ada", "enough")
	must(t, err)
	for name, beat := range beats {
		if r := beat(); r.status != 200 || !strings.Contains(r.text, `"cancelled":true`) {
			t.Errorf("%s: %d %s", name, r.status, r.text)
		}
	}
}

// Whether there is such a call is shown to its sender alone: neither to a request
// without a signature, nor to another sender.
func TestKeysOfOthersAreHidden(t *testing.T) {
	s := keyed(t, siteOptions{sender: "payments"}, webhook.KeyConfig{})
	s.paused()
	other := strings.Replace(done, "job-1", "job-2", 1)
	forged := "whsec_" + strings.Repeat("A", 32)
	check := func(secret string, status int, states ...string) {
		t.Helper()
		for _, state := range append(states, "done", "failed") {
			ours := s.postKey(secret, "d1", strings.Replace(done, "done", state, 1))
			none := s.postKey(secret, "d1", strings.Replace(other, "done", state, 1))
			if ours.status != status || ours.text != none.text {
				t.Errorf("%s: a call that is there is told\n%s, and none\n%s", state, ours.text, none.text)
			}
		}
	}
	check(forged, 401, "running", "aborted")
	check(private, 503, "running", "aborted")
	s.postKey(symmetric, "d1", done).has(t, 200, "0 accepted")
	check(private, 503)
	s.carryOn()
	check(private, 503)
	s.postKey(symmetric, "d1", strings.Replace(done, "job-1", strings.Repeat("x", tool.MaxKey+1), 1)).
		is(t, 404, "unknown_pause")
}

// The path, the query and headers name nothing.
func TestOnlyTheBodyCounts(t *testing.T) {
	s := keyed(t, siteOptions{}, webhook.KeyConfig{})
	token := s.paused()
	r := s.request(http.MethodPost, "../key?key=job-2&state=failed&token="+token,
		strings.NewReader(done))
	must(t, webhook.Sign(r.Header, symmetric, "d1", time.Now(), []byte(done)))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "text/plain; charset=UTF-8")
	r.Header.Set("X-HTTP-Method-Override", "DELETE")
	s.send(r).has(t, 200, "0 accepted")
	if c := s.call(); c.Receipts[0].Kind != session.KindComplete {
		t.Errorf("the receipt is %+v", c.Receipts[0])
	}
	s.send(s.request(http.MethodGet, "../key", nil)).is(t, 405, "method")
	s.send(s.request(http.MethodPost, "../key", strings.NewReader(done))).is(t, 401, "unverified")
}
