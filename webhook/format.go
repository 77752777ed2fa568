package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/fermata-ai/fermata/session"
)

// Format finds the events in a body. What it finds must not depend on anything
// but the body, since nothing else is signed. [FromJSON], [FromCloudEvents],
// [FromSNS] and [FromForm] ship. An error refuses the request.
type Format func(body []byte) ([]Event, error)

// FromJSON takes a body for one event, whose Data it is.
func FromJSON(body []byte) ([]Event, error) {
	if err := anyJSON.Validate(body); err != nil {
		return nil, unreadable(err)
	}
	return []Event{{Data: body}}, nil
}

// FromCloudEvents takes CloudEvents 1.0 as JSON: one event, or a list of them
// (the structured and the batched content mode). Binary data is the text of its
// base64. The binary content mode, with attributes in headers, is not taken:
// they aren't signed.
func FromCloudEvents(body []byte) ([]Event, error) {
	if err := anyJSON.Validate(body); err != nil {
		return nil, unreadable(err)
	}
	texts := []json.RawMessage{body}
	if bytes.TrimLeft(body, " \t\r\n")[0] == '[' {
		if err := json.Unmarshal(body, &texts); err != nil {
			return nil, unreadable(err)
		}
	}
	events := make([]Event, len(texts))
	for i, text := range texts {
		e, err := cloudEventOf(text)
		if err != nil && len(texts) == 1 {
			return nil, err
		}
		e.Err = err
		events[i] = e
	}
	return events, nil
}

func cloudEventOf(text []byte) (Event, error) {
	if err := cloudEvent.Validate(text); err != nil {
		return Event{}, unreadable(err)
	}
	m, err := membersOf(text)
	if err != nil {
		return Event{}, err
	}
	at, err := m.time("time")
	if err != nil {
		return Event{}, err
	}
	e := Event{
		ID: m.text("id"), Type: m.text("type"), Source: m.text("source"),
		Subject: m.text("subject"), Time: at, Data: m["data"],
	}
	if base64 := m["data_base64"]; base64 != nil {
		e.Data = base64
	}
	return e, nil
}

// FromSNS takes the notification of Amazon's SNS. Data is its Message: as it is
// if it is a JSON object or list, and else as a JSON string. The confirmation of
// a subscription is no event; confirm it by hand.
//
// SNS signs with a certificate at an address that the message itself names.
// Checking that is a [Verifier] of your own.
func FromSNS(body []byte) ([]Event, error) {
	if err := notification.Validate(body); err != nil {
		return nil, unreadable(err)
	}
	m, err := membersOf(body)
	if err != nil || m.text("Type") != "Notification" {
		return nil, err
	}
	at, err := m.time("Timestamp")
	if err != nil {
		return nil, err
	}
	message := m.text("Message")
	data := m["Message"]
	if inner := json.RawMessage(message); len(inner) > 0 && (inner[0] == '{' || inner[0] == '[') &&
		anyJSON.Validate(inner) == nil {
		data = inner
	}
	return []Event{{
		ID: m.text("MessageId"), Type: "Notification", Source: m.text("TopicArn"),
		Subject: m.text("Subject"), Time: at, Data: data,
	}}, nil
}

// FromForm takes a form (application/x-www-form-urlencoded) with one field
// "payload", which is JSON, as GitHub and Slack send it.
func FromForm(body []byte) ([]Event, error) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, unreadable(errors.New("it is not a form"))
	}
	if len(form["payload"]) != 1 {
		return nil, unreadable(fmt.Errorf("it has %d fields \"payload\", and one is taken",
			len(form["payload"])))
	}
	return FromJSON([]byte(form.Get("payload")))
}

func unreadable(err error) error { return &session.PayloadError{Event: "of the request", Err: err} }

// members are those of a JSON object, under their exact names: a struct of Go
// would take "Type" for "type".
type members map[string]json.RawMessage

func membersOf(object []byte) (m members, err error) {
	if err := json.Unmarshal(object, &m); err != nil {
		return nil, unreadable(err)
	}
	return m, nil
}

// text returns a member that is a string; empty, if it isn't one.
func (m members) text(name string) (s string) {
	if json.Unmarshal(m[name], &s) != nil {
		return ""
	}
	return s
}

// time returns a member that is a time of RFC 3339, or nothing.
func (m members) time(name string) (time.Time, error) {
	text := m.text(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, unreadable(fmt.Errorf("its member %q is no time of RFC 3339", name))
	}
	return at, nil
}
