package agui_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/httpapi/internal/agui"
	"github.com/fermata-ai/fermata/llm"
)

// A body that two readers might understand differently, or that isn't the
// protocol's, is refused as a whole.
func TestInputsThatAreRefused(t *testing.T) {
	for body, want := range map[string]string{
		``:   "no JSON",
		`[]`: "no RunAgentInput",
		`{"threadId":"a","runId":"r","messages":[]} {}`:                               "no JSON",
		`{"threadId":"a","threadId":"b","runId":"r","messages":[]}`:                   "no JSON",
		`{"threadId":"a","THREADID":"b","runId":"r","messages":[]}`:                   "no JSON",
		`{"runId":"r","messages":[]}`:                                                 "no threadId",
		`{"threadId":"a","messages":[]}`:                                              "no runId",
		`{"threadId":"a","runId":"r"}`:                                                "no messages",
		`{"threadId":"a","runId":"r","messages":{}}`:                                  "no RunAgentInput",
		`{"threadId":"a","runId":"r","messages":[{"id":"m","content":7}]}`:            "no RunAgentInput",
		`{"threadId":"a","runId":"r","messages":[{"role":"user","content":"a"}]}`:     "no id",
		`{"threadId":"a","runId":"r","messages":[],"resume":[{"status":"resolved"}]}`: "no interruptId",
		`{"threadId":"a","runId":"r","messages":[],"resume":[{"interruptId":"i","status":"ok"}]}`: "is not " +
			"resolved or cancelled",
		`{"threadId":"a","runId":"r","messages":[],"resume":[{"interruptId":"i","status":"resolved"},` +
			`{"interruptId":"i","status":"cancelled"}]}`: "twice",
		`{"threadId":"a","runId":"r","messages":[],"resume":[{"interruptId":"i","status":"resolved",` +
			`"payload":{"approved":false,"approved":true}}]}`: "no JSON",
	} {
		if _, err := agui.ReadInput([]byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

// What the protocol's next version may add is passed over.
func TestInputOfANewerClient(t *testing.T) {
	in, err := agui.ReadInput([]byte(`{"threadId":"a","runId":"r","protocolVersion":"1.9","news":1,
		"messages":[{"id":"m","role":"user","content":[{"type":"hologram"},{"type":"text","text":"hi"}],
		"mood":"good"}],"state":{},"context":[],"forwardedProps":{"a":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	m, left, err := in.Said()[0].UserMessage(func(string) bool { return true })
	if diff := cmp.Diff(llm.UserText("hi"), m); diff != "" || left != 1 || err != nil {
		t.Errorf("%s, %d are left out, %v", diff, left, err)
	}
	if diff := cmp.Diff([]string{"forwardedProps"}, in.Unused()); diff != "" {
		t.Error(diff)
	}
}

// Only what the user has said since the last answer may be new. What a client
// makes of the rest, an approval in the words of a tool, say, is no message.
func TestOnlyTheUsersLastMessagesAreNew(t *testing.T) {
	for messages, want := range map[string]string{
		`[]`: "",
		`[{"id":"1","role":"user","content":"a"}]`:                                             "1",
		`[{"id":"1","role":"user","content":"a"},{"id":"2","role":"assistant","content":"b"}]`: "",
		`[{"id":"1","role":"user","content":"a"},{"id":"2","role":"assistant","content":"b"},
		  {"id":"3","role":"user","content":"c"},{"id":"4","role":"reasoning","content":"d"},
		  {"id":"5","role":"system","content":"e"},{"id":"6","role":"user","content":"f"}]`: "3 6",
		`[{"id":"1","role":"user","content":"a"},
		  {"id":"2","role":"tool","toolCallId":"call-1","content":"approved"}]`: "",
		// One of another client of the user's, as the session has sent it.
		`[{"id":"fermata:message:0","role":"user","content":"a"},
		  {"id":"2","role":"user","content":"b"}]`: "2",
	} {
		in, err := agui.ReadInput([]byte(`{"threadId":"a","runId":"r","messages":` + messages + `}`))
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, m := range in.Said() {
			ids = append(ids, m.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s: %q is new, want %q", messages, got, want)
		}
	}
}

// Nothing is fetched for a client, and no file comes in that the handler's
// uploads would refuse.
func TestPartsOfMessages(t *testing.T) {
	image := func(media string) bool { return media == "image/png" }
	for part, want := range map[string]string{
		`{"type":"text","text":""}`: "taken",
		`{"type":"text"}`:           "refused",
		`{"type":"image","source":{"type":"data","value":"AQ==","mimeType":"image/png"}}`:     "taken",
		`{"type":"image","source":{"type":"data","value":"AQ==","mimeType":"image/svg+xml"}}`: "left",
		`{"type":"image","source":{"type":"data","value":"A","mimeType":"image/png"}}`:        "refused",
		`{"type":"image","source":{"type":"data","value":"","mimeType":"image/png"}}`:         "refused",
		`{"type":"image","source":{"type":"data","value":"AQ=="}}`:                            "refused",
		`{"type":"image"}`: "refused",
		`{"type":"image","source":{"type":"url","value":"http://10.0.0.1/","mimeType":"image/png"}}`: "left",
		`{"type":"document","source":{"type":"file","value":"file-1","mimeType":"image/png"}}`:       "left",
	} {
		in, err := agui.ReadInput([]byte(`{"threadId":"a","runId":"r","messages":[
			{"id":"m","role":"user","content":[` + part + `]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		m, left, err := in.Said()[0].UserMessage(image)
		got := "taken"
		switch {
		case err != nil:
			got = "refused"
		case left == 1 && len(m.Parts) == 0:
			got = "left"
		}
		if got != want {
			t.Errorf("%s is %s, want %s", part, got, want)
		}
	}
}
