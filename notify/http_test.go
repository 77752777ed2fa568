package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/notify"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

const (
	secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqr"
	newer  = "whsec_NfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqr"
)

// receiver is a server that notifications are sent to.
type receiver struct {
	*httptest.Server
	status int
	header http.Header // of the next answers
	got    []*http.Request
	bodies []string
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{status: http.StatusNoContent, header: http.Header{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.got, r.bodies = append(r.got, req), append(r.bodies, string(body))
		for k, v := range r.header {
			w.Header()[k] = v
		}
		w.WriteHeader(r.status)
	}))
	t.Cleanup(func() {
		r.CloseClientConnections()
		r.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return r
}

func asks() notify.Notification {
	return notify.Notification{ID: "n2_chat-1", Kind: notify.NeedsPerson, Number: 2,
		At: time.Unix(1_700_000_000, 0).UTC(), Session: chat, Text: "It <waits>.",
		Call: "call_1", Tool: "refund",
		Pause: &tool.Pause{ID: "call_1.1", Await: tool.Await{Reason: tool.ReasonApproval,
			Prompt: "Pay <!channel>\n& more?"}},
		Links: []notify.Link{{Label: "Yes > no", URL: "https://example.com/a?b=1|2"},
			{Label: "bad", URL: "javascript:alert(1)"}}}
}

func TestHTTPSendsSigned(t *testing.T) {
	to := newReceiver(t)
	s, err := notify.HTTP(notify.HTTPConfig{URL: to.URL + "/told", Secrets: []string{secret, newer}})
	must(t, err)
	must(t, s.Send(t.Context(), asks()))
	req, body := to.got[0], to.bodies[0]
	for _, one := range []string{secret, newer} {
		v, err := webhook.StandardWebhooks(webhook.Secrets{Sender: "fermata", Current: webhook.Fixed(one)})
		must(t, err)
		signed, err := v.Verify(req.Header, []byte(body), time.Now())
		if err != nil || signed.Delivery != "n2_chat-1" {
			t.Errorf("signed is %+v, %v", signed, err)
		}
	}
	var got struct {
		Type      string
		Timestamp time.Time
		Data      notify.Notification
	}
	must(t, json.Unmarshal([]byte(body), &got))
	if got.Type != "needs_person" || !got.Timestamp.Equal(asks().At) || got.Data.ID != "n2_chat-1" ||
		got.Data.Pause.Await.Prompt != asks().Pause.Await.Prompt || len(got.Data.Links) != 2 ||
		req.Method != "POST" || req.URL.Path != "/told" ||
		req.Header.Get("Content-Type") != "application/json" {
		t.Errorf("sent is %s %s %+v", req.Method, req.URL, got)
	}
}

// Only 2xx counts, no redirection is followed, and the URL is in no error.
func TestHTTPTakesNothingElse(t *testing.T) {
	to := newReceiver(t)
	url := to.URL + "/hidden-path"
	s, err := notify.HTTP(notify.HTTPConfig{URL: url, Secrets: []string{secret}})
	must(t, err)
	to.header.Set("Location", "/elsewhere")
	for _, status := range []int{302, 307, 308, 304, 400, 410, 500, 503} {
		to.status = status
		if err = s.Send(t.Context(), asks()); err == nil {
			t.Errorf("status %d counts", status)
		}
	}
	if len(to.got) != 8 {
		t.Errorf("%d requests came", len(to.got))
	}
	to.header.Set("Retry-After", "120")
	var later *notify.LaterError
	if err = s.Send(t.Context(), asks()); !errors.As(err, &later) || later.After != 2*time.Minute {
		t.Errorf("told to come later, it says %v", err)
	}
	to.Server.Close()
	err = s.Send(t.Context(), asks())
	if err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("without a server, it says %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err = s.Send(ended, asks()); !errors.Is(err, context.Canceled) {
		t.Errorf("cut off, it says %v", err)
	}
}

func TestHTTPIsRefusedAtOnce(t *testing.T) {
	for what, c := range map[string]notify.HTTPConfig{
		"no URL":         {Secrets: []string{secret}},
		"a path":         {URL: "/hidden", Secrets: []string{secret}},
		"another scheme": {URL: "file:///hidden", Secrets: []string{secret}},
		"no secret":      {URL: "https://example.com"},
		"a short secret": {URL: "https://example.com", Secrets: []string{secret, "whsec_aGlkZGVu"}},
	} {
		s, err := notify.HTTP(c)
		if s != nil || err == nil || strings.Contains(err.Error(), "hidden") ||
			strings.Contains(err.Error(), "aGlk") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if s, err := notify.Slack(notify.SlackConfig{URL: "hooks/hidden"}); s != nil || err == nil ||
		strings.Contains(err.Error(), "hidden") {
		t.Errorf("%v", err)
	}
}

// A message has the text, the prompt as a quotation, and the links; nothing of
// what a model wrote becomes a mention or a link.
func TestSlackMessages(t *testing.T) {
	to := newReceiver(t)
	to.status = http.StatusOK
	s, err := notify.Slack(notify.SlackConfig{URL: to.URL})
	must(t, err)
	must(t, s.Send(t.Context(), asks()))
	var got struct {
		Text   string
		Blocks []struct {
			Type string
			Text struct {
				Type, Text string
				Verbatim   bool
			}
		}
	}
	must(t, json.Unmarshal([]byte(to.bodies[0]), &got))
	var lines []string
	for _, b := range got.Blocks {
		if b.Type != "section" || b.Text.Type != "mrkdwn" || !b.Text.Verbatim {
			t.Errorf("a block is %+v", b)
		}
		lines = append(lines, b.Text.Text)
	}
	is(t, append(lines, got.Text), "It &lt;waits&gt;.",
		"&gt; Pay &lt;!channel&gt;\n&gt; &amp; more?",
		"<https://example.com/a?b=1%7C2|Yes &gt; no>", "It &lt;waits&gt;.")

	n := asks()
	n.Pause.Await.Prompt, n.Text = strings.Repeat("<", 40_000), strings.Repeat(">", 40_000)
	must(t, s.Send(t.Context(), n))
	must(t, json.Unmarshal([]byte(to.bodies[1]), &got))
	for _, b := range got.Blocks {
		if len(b.Text.Text) > 3000 {
			t.Errorf("a block has %d characters", len(b.Text.Text))
		}
	}
}
