package webhook_test

import (
	"context"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

// A sender that was given a token puts it into what it signs. The token does
// what it permits.
func TestTokenInAnEvent(t *testing.T) {
	s := keyed(t, siteOptions{permits: []tool.Permit{tool.PermitComplete}}, webhook.KeyConfig{})
	token := s.paused()
	with := func(state, token string) string {
		return `{"state":"` + state + `","token":"` + token + `","result":{"url":"a"}}`
	}
	s.postKey(symmetric, "d1", with("failed", token)).is(t, 403, "not_allowed")
	s.postKey(symmetric, "d1", with("offer", token)).is(t, 403, "not_allowed")
	s.postKey(symmetric, "d1", with("done", token+"x")).is(t, 401, "bad_token")
	s.postKey(symmetric, "d1", with("done", token)).has(t, 200, "0 accepted")
	s.postKey(symmetric, "d1", with("done", token)).has(t, 200, "0 accepted duplicate")
}

// An event for a call's mailbox comes by the call's key, and needs an id.
func TestMailByKey(t *testing.T) {
	race := tool.Must(tool.Func(tool.Spec{Name: "race", Effect: tool.Idempotent, MayPause: true,
		Mailbox: []tool.MailboxEvent{offers.Spec(), {Name: "withdrawn", Sender: "ci"}}},
		func(ctx context.Context, _ struct{}) (tool.Result[int], error) {
			a := tool.AnyOf(offers.Name())
			a.Key = "race-1"
			return tool.Pending[int](a), nil
		}))
	s := keyed(t, siteOptions{tools: []tool.Tool{race},
		model: fakellm.New(fakellm.Calls("race", `{}`), fakellm.Says("Sold."))},
		webhook.KeyConfig{Tool: "race"})
	s.run()
	body := `{"job":{"id":"race-1"},"state":"offer","result":{"cents":5}}`
	r := s.postKey(symmetric, "d1", body)
	r.has(t, 200, "0 accepted")
	if !strings.Contains(r.text, `"event":"offer","id":"d1"`) {
		t.Errorf("it is told %s", r.text)
	}
	s.postKey(symmetric, "d1", body).has(t, 200, "0 accepted duplicate")
	s.postKey(symmetric, "d1", strings.Replace(body, "5", "6", 1)).is(t, 409, "conflict")
	gone := `{"job":{"id":"race-1"},"state":"withdrawn","result":"sorry"}`
	s.postKey(symmetric, "d2", gone).is(t, 503, "not_yet_known") // it is ci's to send
	s.postKey(private, "d2", gone).has(t, 200, "0 accepted")
}

// A token of a mailbox, within what is signed, sends the events that it was
// made for.
func TestMailTokenInAnEvent(t *testing.T) {
	s, _, only := racing(t, siteOptions{byKey: &webhook.KeyConfig{
		Verifier: made(webhook.StandardWebhooks(secrets(symmetric)))(t), Map: ciMeans}})
	with := func(state, result string) string {
		return `{"state":"` + state + `","token":"` + only + `","result":` + result + `}`
	}
	s.postKey(symmetric, "d1", with("withdrawn", `"sorry"`)).is(t, 403, "not_allowed")
	s.postKey(symmetric, "d1", with("done", `5`)).is(t, 403, "not_allowed")
	s.postKey(symmetric, "d1", with("offer", `{"cents":5}`)).has(t, 200, "0 accepted")
}

// Code of the user's that panics spoils its own event alone, which the sender
// sends again.
func TestMappingThatPanics(t *testing.T) {
	s := keyed(t, siteOptions{}, webhook.KeyConfig{Format: webhook.FromCloudEvents,
		KeyFunc: func(e webhook.Event) (string, error) { return e.Subject, nil },
		Map: func(e webhook.Event) ([]webhook.Action, error) {
			if e.Type == "odd" {
				panic("an odd event")
			}
			return []webhook.Action{{Do: tool.PermitComplete, Payload: e.Data}}, nil
		}})
	s.paused()
	body := "[" + cloudEvent("e1", "odd", "job-1", `{"url":"b"}`) + "," +
		cloudEvent("e2", "built", "job-1", `{"url":"a"}`) + "]"
	r := s.postKey(symmetric, "d1", body)
	r.has(t, 503, "0 refused unavailable, 1 accepted")
	if strings.Contains(r.text, "odd event") || !strings.Contains(s.logs.String(), "an odd event") {
		t.Errorf("the sender is told %s, and the log has\n%s", r.text, s.logs.String())
	}
}

func TestByKeyRefuses(t *testing.T) {
	rn, err := runner.New(nil, session.NewStore(kvstore.NewMemory(), nil), nil)
	must(t, err)
	defer rn.Close()
	v := fails{}
	key := func(webhook.Event) (string, error) { return "", nil }
	for name, c := range map[string]webhook.KeyConfig{
		"no verifier":      {Tool: "job", Key: "/id"},
		"no key":           {Verifier: v, Tool: "job"},
		"no tool":          {Verifier: v, Key: "/id"},
		"two keys":         {Verifier: v, Tool: "job", Key: "/id", KeyFunc: key},
		"no pointer":       {Verifier: v, Tool: "job", Key: "id"},
		"a broken pointer": {Verifier: v, Tool: "job", Key: "/~2"},
		"a negative size":  {Verifier: v, Tool: "job", Key: "/id", MaxBody: -1},
	} {
		if h, err := webhook.ByKey(rn, c); err == nil || h != nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := webhook.ByKey(nil, webhook.KeyConfig{Verifier: v, Tool: "job", Key: "/id"}); err == nil {
		t.Error("a nil runner is taken")
	}
}
