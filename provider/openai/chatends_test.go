package openai

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

// framings are the ways in which HTTP tells the end of an answer, the last of
// which doesn't.
var framings = map[string]func(w http.ResponseWriter, body string){
	"counted": func(w http.ResponseWriter, body string) {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = io.WriteString(w, body)
	},
	"chunked": func(w http.ResponseWriter, body string) {
		_, _ = io.WriteString(w, body)
		_ = http.NewResponseController(w).Flush()
	},
	"closed": func(w http.ResponseWriter, body string) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-Request-Id: req_1\r\nConnection: close\r\n\r\n"+body)
	},
}

// A finish_reason or [DONE] is enough where HTTP itself tells that the answer is
// whole. Where a connection that broke looks like the end of one that didn't,
// both are.
func TestOneEndMarkerIsEnoughAtACleanEnd(t *testing.T) {
	const (
		text   = `data: {"choices":[{"index":0,"delta":{"content":"It is"},"finish_reason":null}]}` + "\n\n"
		reason = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
		usage  = `data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}` + "\n\n"
		done   = "data: [DONE]\n\n"
		whole  = `{"choices":[{"index":0,"message":{"role":"assistant","content":"It is"}%s}]}`
	)
	for _, c := range []struct {
		name, body    string
		clean, closed bool // it counts
	}{
		{"both", text + reason + done, true, true},
		{"a reason", text + reason, true, false},
		{"a reason, and the usage", text + reason + usage, true, false},
		{"[DONE]", text + done, true, false},
		{"a whole message", fmt.Sprintf(whole, `,"finish_reason":"stop"`), true, true},
		{"a whole message without a reason", fmt.Sprintf(whole, ""), true, false},
		{"neither", text, false, false},
		{"[DONE] alone", done, false, false},
		{"no choice, and [DONE]", usage + done, false, false},
		{"an empty delta, and [DONE]", `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n" + done, false, false},
		{"half of the reason", text + reason[:len(reason)-8], false, false},
		{"a reason, and half of the usage", text + reason + usage[:len(usage)-8], false, false},
		{"half of [DONE]", text + reason + "data: [DO", false, false},
	} {
		for framing, write := range framings {
			want := c.clean && framing != "closed" || c.closed
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				// Or else the close of the connection may reset it.
				_, _ = io.Copy(io.Discard, r.Body)
				write(w, c.body)
			}))
			check := func(client *http.Client, framing string) {
				m, err := NewChat(Options{Model: "m", BaseURL: s.URL, Client: client})
				if err != nil {
					t.Fatal(err)
				}
				msg, fin, err := ask(t, m, llm.Request{})
				switch {
				case want && (err != nil || msg.Text() != "It is" || fin.Reason != llm.StopEnd):
					t.Errorf("%s, %s: %v, %v, %v", c.name, framing, msg, fin, err)
				case !want && kind(err) != llm.ErrTruncated:
					t.Errorf("%s, %s: %v, want truncated", c.name, framing, err)
				}
			}
			check(s.Client(), framing)
			s.Close()
		}
	}
	t.Run("HTTP/2", func(t *testing.T) {
		for body, want := range map[string]llm.ErrorKind{text + reason: "", text + done: "", text: llm.ErrTruncated} {
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor != 2 {
					t.Error(r.Proto)
				}
				framings["chunked"](w, body)
			}))
			s.EnableHTTP2 = true
			s.StartTLS()
			m, err := NewChat(Options{Model: "m", BaseURL: s.URL, Client: s.Client()})
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := ask(t, m, llm.Request{}); kind(err) != want {
				t.Errorf("%q: %v, want %q", body, err, want)
			}
			s.Close()
		}
	})
}

// Where no finish_reason tells that the model was done, a call counts if its
// arguments are whole JSON.
func TestArgumentsThatNoReasonEnds(t *testing.T) {
	call := func(args string) string {
		return fmt.Sprintf(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":%q}}]}}]}`, args)
	}
	for args, want := range map[string]string{ // "": it is cut off
		`{"n":1}`: `{"n":1}`, `{}`: `{}`, ` {"n":1} `: `{"n":1}`, `{"n":`: "", ``: "", ` `: "", `{"n":1}{`: "",
	} {
		for _, strict := range []bool{false, true} {
			s := newChatServer(t, streamed(call(args), "[DONE]"))
			m, fin, err := ask(t, s.model(t, Options{Strict: strict}), llm.Request{})
			if err != nil || fin.Reason != llm.StopToolCalls || len(m.ToolCalls()) != 1 {
				t.Errorf("%q: %v, %v, %v", args, m, fin, err)
				continue
			}
			got := m.ToolCalls()[0].Arguments
			if _, err := llm.Arguments(got); (err == nil) != (want != "") || err == nil && string(got) != want {
				t.Errorf("%q became %s, %v, want %q", args, got, err, want)
			}
		}
	}
}

// Under a reason that isn't known, a call of which all came runs, with {} too;
// at the limit, or by a filter, none does that may be cut off.
func TestEmptyArgumentsByTheReason(t *testing.T) {
	for _, c := range []struct {
		reason string
		args   []string // in pieces
		runs   bool
	}{
		{"eos", []string{"{", "}"}, true},
		{"eos", []string{"{}"}, true},
		{"eos", []string{`{"n":`, `1}`}, true},
		{"eos", []string{`{"n":`}, false},
		{"eos", []string{""}, false},
		{"stop", []string{""}, true},
		{"length", []string{"{}"}, false},
		{"length", []string{"{", "}"}, false},
		{"LENGTH", []string{"{}"}, false},
		{"content_filter", []string{"{}"}, false},
		{"Content_Filter", []string{""}, false},
	} {
		var deltas []string
		for _, a := range c.args {
			deltas = append(deltas, fmt.Sprintf(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":%q}}]}`, a))
		}
		m, fin, err := ask(t, newChatServer(t, pieces(c.reason, deltas...)).model(t, Options{}), llm.Request{})
		if err != nil || len(m.ToolCalls()) != 1 {
			t.Errorf("%s %q: %v, %v, %v", c.reason, c.args, m, fin, err)
			continue
		}
		if _, err := llm.Arguments(m.ToolCalls()[0].Arguments); (err == nil) != c.runs {
			t.Errorf("%s %q: %s, want that it runs: %v", c.reason, c.args, m.ToolCalls()[0].Arguments, c.runs)
		}
	}
}

// Where the server begins each call with {}, one that has no more at the limit,
// or without a reason, was cut off, also if it isn't the last.
func TestPlaceholdersAtTheLimit(t *testing.T) {
	entry := func(i int, name, args string) string {
		return fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":"c%[1]d","function":{"name":%q,"arguments":%q}}]}`, i, name, args)
	}
	begun := []string{entry(0, "f", "{}"), entry(1, "f", "{}"), entry(2, "f", "{}")}
	for _, c := range []struct {
		finish string
		deltas []string
		runs   []bool
	}{
		{"length", append(begun[:3:3], entry(0, "f", `{"n":1}`)), []bool{true, false, false}},
		{"content_filter", append(begun[:3:3], entry(2, "f", `{"n":1}`)), []bool{false, false, true}},
		// No reason at all.
		{"", append(begun[:3:3], entry(0, "f", `{"n":1}`)), []bool{true, false, false}},
		{"stop", append(begun[:3:3], entry(0, "f", `{"n":1}`)), []bool{true, true, true}},
		{"length", []string{entry(0, "f", "{}"), entry(1, "f", `{"n":1}`)}, []bool{true, true}},
	} {
		for _, strict := range []bool{false, true} {
			m, _, err := ask(t, newChatServer(t, pieces(c.finish, c.deltas...)).model(t, Options{Strict: strict}), llm.Request{})
			if err != nil || len(m.ToolCalls()) != len(c.runs) {
				t.Errorf("%s: %v, %v", c.finish, m, err)
				continue
			}
			for i, call := range m.ToolCalls() {
				if _, err := llm.Arguments(call.Arguments); (err == nil) != c.runs[i] {
					t.Errorf("%s, strict %v, call %d: %s, want that it runs: %v", c.finish, strict, i, call.Arguments, c.runs[i])
				}
			}
		}
	}
}

// A connection that breaks within a stream is an error that tells the request.
func TestBrokenStreamsTellTheRequest(t *testing.T) {
	for name, header := range map[string]string{"x-request-id": "req_1", "request-id": "req_2", "apim-request-id": "req_3"} {
		client := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			h := http.Header{}
			h.Set(name, header)
			body := io.MultiReader(strings.NewReader("data: "+`{"choices":[{"index":0,"delta":{"content":"It is"}}]}`+"\n\n"), failingReader{})
			return &http.Response{StatusCode: 200, Header: h, Body: io.NopCloser(body), Request: r}, nil
		})}
		chat, err := NewChat(Options{Model: "m", BaseURL: "http://localhost/v1", Client: client})
		if err != nil {
			t.Fatal(err)
		}
		responses, err := NewResponses(Options{Model: "m", BaseURL: "http://localhost/v1", Client: client})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []llm.Model{chat, responses} {
			if _, _, err := ask(t, m, llm.Request{}); err == nil || !strings.Contains(err.Error(), "(request "+header+")") {
				t.Errorf("%v: %v", m, err)
			}
		}
	}
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
