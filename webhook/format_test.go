package webhook_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

// cloudEvent is an event about a job, whose data is what a CI server sends.
func cloudEvent(id, kind, job, data string) string {
	return `{"specversion":"1.0","id":"` + id + `","type":"` + kind + `","source":"/ci","subject":"` +
		job + `","time":"2026-01-02T03:04:05.5Z","data":` + data + `}`
}

// bySubject takes the subject of a CloudEvent for the key, and its type for
// what happened.
func bySubject() webhook.KeyConfig {
	return webhook.KeyConfig{
		Format:  webhook.FromCloudEvents,
		KeyFunc: func(e webhook.Event) (string, error) { return e.Subject, nil },
		Map: func(e webhook.Event) ([]webhook.Action, error) {
			switch e.Type {
			case "built":
				return []webhook.Action{
					{Do: tool.PermitProgress, Fraction: 1}, {Do: tool.PermitComplete, Payload: e.Data}}, nil
			case "broken":
				return []webhook.Action{{Do: tool.PermitFail, Message: string(e.Data)}}, nil
			}
			return nil, nil
		},
	}
}

// Each event of a list is judged by itself: what can't be taken now makes the
// sender send all again, which does the others no harm.
func TestListOfEvents(t *testing.T) {
	c := bySubject()
	now := time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)
	c.Now = func() time.Time { return now }
	list := func(events ...string) string { return "\n[" + strings.Join(events, ",") + "]" }
	s := keyed(t, siteOptions{}, c)
	s.paused()
	post := func(body string) response {
		r := s.request(http.MethodPost, "../key", strings.NewReader(body))
		must(t, webhook.Sign(r.Header, symmetric, "d1", now, []byte(body)))
		return s.send(r)
	}
	queued := cloudEvent("e0", "queued", "job-1", `null`)
	built := cloudEvent("e1", "built", "job-1", `{"url":"a"}`)
	unknown := cloudEvent("e2", "built", "job-2", `{"url":"a"}`)
	other := cloudEvent("e3", "built", "job-1", `{"url":"b"}`)

	post(queued).has(t, 200, "0 ignored")
	r := post(list(queued, built, unknown))
	r.has(t, 503, "0 ignored, 1 accepted, 1 accepted, 2 refused not_yet_known, 2 refused not_yet_known")
	r.is(t, 503, "not_yet_known")
	now = now.Add(2 * time.Hour)
	// The progress comes too late by now; the rest is told as before.
	post(list(queued, built, unknown)).has(t, 200, "0 ignored, 1 refused not_paused, "+
		"1 accepted duplicate, 2 refused unknown_pause, 2 refused unknown_pause")
	post(list(other, unknown)).is(t, 409, "not_paused")
	post(other).has(t, 409, "0 refused not_paused, 0 refused conflict")
	post(list()).has(t, 200, "")
	post(list(queued, `{"specversion":"1.0"}`, `7`)).has(t, 200,
		"0 ignored, 1 refused invalid, 2 refused invalid")
	post(list(make101(queued)...)).is(t, 413, "too_large")
	if got := s.call().Receipts; len(got) != 1 || got[0].Delivery != "d1" {
		t.Errorf("the receipts are %+v", got)
	}
	for what, bad := range map[string]string{
		"no id":         strings.Replace(built, `"id":"e1",`, "", 1),
		"version 0.3":   strings.Replace(built, "1.0", "0.3", 1),
		"two data":      strings.Replace(built, `"data":`, `"data_base64":"e30=","data":`, 1),
		"two types":     strings.Replace(built, `"id"`, `"type":"x","id"`, 1),
		"two cases":     strings.Replace(built, `"id"`, `"Type":"x","id"`, 1),
		"no time":       strings.Replace(built, "2026-01", "2026-13", 1),
		"a list within": list(list(built)),
		"a string":      `"built"`,
		"none":          ``,
	} {
		if got := post(bad); got.status != 422 {
			t.Errorf("%s: %d %s", what, got.status, got.text)
		}
	}
}

func make101(one string) []string {
	all := make([]string, 101)
	for i := range all {
		all[i] = one
	}
	return all
}

// What formats find in a body is all of the event; the confirmation of a
// subscription is none.
func TestFormats(t *testing.T) {
	notification := func(message string) string {
		text, err := json.Marshal(map[string]string{"Type": "Notification", "MessageId": "m1",
			"TopicArn": "arn:topic", "Subject": "s", "Timestamp": "2026-01-02T03:04:05.000Z", "Message": message})
		must(t, err)
		return string(text)
	}
	form := func(pairs ...string) string {
		v := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			v.Add(pairs[i], pairs[i+1])
		}
		return v.Encode()
	}
	const faulty = "faulty"
	for name, test := range map[string]struct {
		f    webhook.Format
		body string
		want string // the data of each event, or faulty
	}{
		"JSON":                      {webhook.FromJSON, ` {"a": 1.0e2}`, ` {"a": 1.0e2}`},
		"JSON twice":                {webhook.FromJSON, `{"a":1,"a":2}`, faulty},
		"JSON and more":             {webhook.FromJSON, `{} {}`, faulty},
		"CloudEvents, binary data":  {webhook.FromCloudEvents, `{"specversion":"1.0","id":"e","type":"t","source":"s","data_base64":"e30="}`, `"e30="`},
		"CloudEvents, no data":      {webhook.FromCloudEvents, `[{"specversion":"1.0","id":"e","type":"t","source":"s"}]`, ``},
		"SNS, an object":            {webhook.FromSNS, notification(`{"id":"<1>"}`), `{"id":"<1>"}`},
		"SNS, a word":               {webhook.FromSNS, notification(`done`), `"done"`},
		"SNS, a number":             {webhook.FromSNS, notification(`17`), `"17"`},
		"SNS, almost an object":     {webhook.FromSNS, notification(`[alert]`), `"[alert]"`},
		"SNS, encoded twice":        {webhook.FromSNS, notification(`"{\"id\":1}"`), `"\"{\\\"id\\\":1}\""`},
		"SNS, a confirmation":       {webhook.FromSNS, `{"Type":"SubscriptionConfirmation","MessageId":"m","Message":"You have chosen","SubscribeURL":"https://x"}`, faulty + "none"},
		"SNS, no message":           {webhook.FromSNS, `{"Type":"Notification","MessageId":"m"}`, faulty},
		"a form":                    {webhook.FromForm, form("payload", `{"id": "a&b=c"}`), `{"id": "a&b=c"}`},
		"a form, two payloads":      {webhook.FromForm, form("payload", `{}`, "payload", `{}`), faulty},
		"a form without":            {webhook.FromForm, form("body", `{}`), faulty},
		"a form of no JSON":         {webhook.FromForm, "payload=%7B", faulty},
		"a form that is none":       {webhook.FromForm, "payload=%zz", faulty},
		"a form, encoded twice":     {webhook.FromForm, form("payload", "%7B%7D"), faulty},
		"a form, a payload of text": {webhook.FromForm, form("payload", `"{}"`), `"{}"`},
	} {
		t.Run(name, func(t *testing.T) {
			events, err := test.f([]byte(test.body))
			switch {
			case test.want == faulty:
				if err == nil || webhook.Status(err) != 422 {
					t.Errorf("it is read as %+v, %v", events, err)
				}
			case test.want == faulty+"none":
				if err != nil || len(events) != 0 {
					t.Errorf("it is read as %+v, %v", events, err)
				}
			case err != nil || len(events) != 1 || string(events[0].Data) != test.want:
				t.Errorf("it is read as %+v, %v", events, err)
			}
		})
	}
	events, err := webhook.FromSNS([]byte(notification("x")))
	must(t, err)
	if e := events[0]; e.ID != "m1" || e.Source != "arn:topic" || e.Subject != "s" ||
		!e.Time.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) || e.Sender != "" {
		t.Errorf("the event is %+v", e)
	}
}

// A form is signed as it is sent, and its payload is the event.
func TestFormOverHTTP(t *testing.T) {
	s := keyed(t, siteOptions{}, webhook.KeyConfig{Format: webhook.FromForm})
	s.paused()
	s.postKey(symmetric, "d1", url.Values{"payload": {done}}.Encode()).has(t, 200, "0 accepted")
}
