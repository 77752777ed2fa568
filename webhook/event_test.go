package webhook_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/tool"
)

type offer struct {
	Cents int `json:"cents"`
}

var (
	offers    = tool.Must(tool.NewEvent[offer]("offer"))
	withdrawn = tool.Must(tool.NewEvent[string]("withdrawn"))
)

// racing is a site whose call waits for the first offer. It hands out a token
// for all events, and one for offers alone.
func racing(t *testing.T, o siteOptions) (s *site, all, only string) {
	t.Helper()
	race := tool.Must(tool.Func(
		tool.Spec{
			Name: "race", Effect: tool.Idempotent, MayPause: true,
			Mailbox: []tool.MailboxEvent{offers.Spec(), withdrawn.Spec()},
		},
		func(ctx context.Context, _ struct{}) (tool.Result[int], error) {
			call := tool.CallFrom(ctx)
			came, err := offers.From(call)
			if len(came) > 0 || err != nil {
				return tool.Done(came[0].Value.Cents), err
			}
			all, only = call.MailToken(), call.MailToken("offer")
			return tool.Pending[int](tool.AnyOf(offers.Name())), nil
		}))
	o.tools, o.model = []tool.Tool{race}, fakellm.New(fakellm.Calls("race", `{}`), fakellm.Says("Sold."))
	s = newSite(t, o)
	if end := s.run(); end.Finish != event.FinishPaused {
		t.Fatalf("the run ended as %s, not paused", end.Finish)
	}
	s.tokens = []string{all, only}
	return s, all, only
}

// deliver posts a payload as the delivery of that id.
func (s *site) deliver(path, id, body string) response {
	s.t.Helper()
	r := s.request(http.MethodPost, path, strings.NewReader(body))
	if id != "" {
		r.Header.Set("Webhook-Id", id)
	}
	return s.send(r)
}

func TestEventsByWebhook(t *testing.T) {
	s, all, only := racing(t, siteOptions{path: boltFile(t)})
	const note, cheap = `"sorry"`, `{"cents": 5}`

	s.deliver(all+"/event/withdrawn", "m1", note).accepted(t, false)
	s.restart()
	first := s.deliver(all+"/event/withdrawn", "m1", note)
	first.accepted(t, true)
	if first.Pause != "" || first.Call == "" || !strings.Contains(first.text, `"event":"withdrawn","id":"m1"`) {
		t.Errorf("the answer is %s", first.text)
	}
	s.deliver(all+"/event/withdrawn", "m1", `"oh"`).is(t, http.StatusConflict, "conflict")

	for path, want := range map[string]struct {
		id, body string
		status   int
		code     string
	}{
		all + "/event/offers":     {"m2", cheap, http.StatusNotFound, "unknown_event"},
		only + "/event/withdrawn": {"m2", note, http.StatusForbidden, "not_allowed"},
		only:                      {"m2", cheap, http.StatusForbidden, "not_allowed"},
		only + "/cancel":          {"m2", ``, http.StatusForbidden, "not_allowed"},
		only + "/event/offer":     {"", cheap, http.StatusUnprocessableEntity, "no_id"},
		all + "/event/offer":      {"m2", `{"cents": "5"}`, http.StatusUnprocessableEntity, "invalid"},
		all + "/event":            {"m2", `{"payload": {"cents": 5}}`, http.StatusUnprocessableEntity, "invalid"},
		all + "/event/":           {"m2", cheap, http.StatusNotFound, "no_such_path"},
	} {
		s.deliver(path, want.id, want.body).is(t, want.status, want.code)
	}
	if r := s.deliver(all+"/event/offer", "m2", `{"cents": "5"}`); len(r.Faults) == 0 ||
		r.Faults[0].Path != "/cents" {
		t.Errorf("the faults don't name the member: %s", r.text)
	}
	s.post(only+"/event", `{"id": "m3", "payload": {"cents": 5}}`).accepted(t, false)
	late := `{"name": "withdrawn", "id": "m4", "payload": "late"}`
	s.post(all+"/event", late).accepted(t, false)
	if end := s.carryOn(); end.Finish != event.FinishStop {
		t.Fatalf("the run ended as %s", end.Finish)
	}
	if c := s.call(); string(c.Output) != "5" {
		t.Errorf("the result is %s", c.Output)
	}

	// The call has its result. What it was shown was of use, what came behind it
	// was not, and what is new comes too late.
	s.restart()
	if r := s.deliver(only+"/event/offer", "m3", cheap); r.status != http.StatusOK || !r.Duplicate || r.Fate != "" {
		t.Errorf("the offer that counted is told %s", r.text)
	}
	if r := s.post(all+"/event", late); r.status != http.StatusOK || !r.Duplicate ||
		r.Fate != "superseded" {
		t.Errorf("the note that came behind it is told %s", r.text)
	}
	s.deliver(only+"/event/offer", "m5", cheap).is(t, http.StatusGone, "settled")
}

func TestEventWithItsTokenInTheHeader(t *testing.T) {
	s, _, only := racing(t, siteOptions{})
	for i, path := range []string{"event/offer", "event"} {
		body := []string{`{"cents":5}`, `{"id":"m1","payload":{"cents":5}}`}[i]
		r := s.request(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+only)
		r.Header.Set("Webhook-Id", "m1")
		s.send(r).accepted(t, i > 0)
	}
}

// A token for answers sends no events.
func TestTokenOfAPauseSendsNoEvents(t *testing.T) {
	s := newSite(t, siteOptions{})
	s.deliver(s.paused()+"/event/offer", "m1", `1`).is(t, http.StatusForbidden, "not_allowed")
}
