package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
)

// service is a server that speaks Chat Completions. It answers with the next
// entry of its script.
type service struct {
	*httptest.Server
	t *testing.T

	mu     sync.Mutex
	script []http.HandlerFunc
	asked  []request
}

// request is the part of a request's body that matters here.
type request struct {
	Model    string
	Messages []struct {
		Role    string
		Content json.RawMessage
	}
	Tools []struct{ Function struct{ Name string } }
}

const secret = "sk-this-is-never-shown"

func serveChat(t *testing.T, script ...http.HandlerFunc) *service {
	s := &service{t: t, script: script}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req request
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil ||
		r.URL.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer "+secret {
		s.t.Errorf("%s with %q: %v", r.URL, r.Header.Get("Authorization"), err)
	}
	s.mu.Lock()
	if len(s.script) == 0 {
		s.mu.Unlock()
		s.t.Error("it was asked more often than the script has answers")
		http.Error(w, "no more", http.StatusTeapot)
		return
	}
	next := s.script[0]
	s.script, s.asked = s.script[1:], append(s.asked, req)
	s.mu.Unlock()
	next(w, r)
}

// last returns the last message of the n-th request.
func (s *service) last(n int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n >= len(s.asked) {
		s.t.Fatalf("there were only %d requests", len(s.asked))
	}
	m := s.asked[n].Messages[len(s.asked[n].Messages)-1]
	return m.Role + ": " + string(m.Content)
}

// talk starts the program with this server in its environment.
func (s *service) talk(args ...string) *conversation {
	s.t.Helper()
	return talk(s.t, s.env(), append([]string{"-model", "small"}, args...)...)
}

func (s *service) env() []string {
	return []string{"OPENAI_BASE_URL=" + s.URL + "/v1", "OPENAI_API_KEY=" + secret}
}

// streams returns a handler that answers with chunks of these deltas.
func streams(finish string, deltas ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, d := range deltas {
			fmt.Fprintf(w,
				"data: {\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":null}]}\n\n", d)
			w.(http.Flusher).Flush()
		}
		fmt.Fprintf(w,
			"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}]}\n\n", finish)
		fmt.Fprint(w,
			`data: {"choices":[],"usage":{"prompt_tokens":120,"completion_tokens":30,`+
				`"total_tokens":150,`+
				`"prompt_tokens_details":{"cached_tokens":100},`+
				`"completion_tokens_details":{"reasoning_tokens":7}}}`+"\n\ndata: [DONE]\n\n")
	}
}

// refuses returns a handler that answers with an error.
func refuses(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w,
			`{"error":{"message":"It is refused: %s.","type":"invalid_request_error","code":%q}}`,
			secret, code)
	}
}

// hangs returns a handler that begins to answer, sends to asked, and goes no
// further.
func hangs(asked chan<- struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": nothing yet\n\n")
		w.(http.Flusher).Flush()
		close(asked)
		<-r.Context().Done()
	}
}

const callsDeploy = `{"tool_calls":[{"index":0,"id":"c1","type":"function",` +
	`"function":{"name":"deploy",` +
	`"arguments":"{\"service\":\"cart\",\"version\":\"v1.0.0\",\"environment\":\"staging\"}"}}]}`

// A call that was paused under a model goes on under another one: the script.
func TestCompatibleServer(t *testing.T) {
	t.Parallel()
	db := file(t)
	s := serveChat(t,
		streams("tool_calls", `{"role":"assistant","reasoning_content":"A deployment"}`,
			`{"reasoning_content":" is wanted."}`, callsDeploy),
		streams("stop", `{"content":"It has"}`, `{"content":" gone \u001b[31mwell."}`))

	c := s.talk("-file", db, "-session", "s1", never)
	c.sees(`^Model: openai-chat, small\.$`)
	c.says("deploy cart v1.0.0 to staging")
	c.sees(`^  thinks  A deployment is wanted\.$`,
		`^  calls   deploy {"service":"cart"`, `^  kept    deploy waits`)
	c.leaves()

	c = talk(t, nil, "-file", db, "-session", "s1", atOnce)
	c.sees(`^Model: a script`, `^  result  deploy {"url":"https://cart.staging.example.com"`,
		`^Deployed: https://cart.staging.example.com, after 0 s\.$`)
	c.leaves()

	c = s.talk("-file", db, "-session", "s1", atOnce)
	c.says("Well?")
	c.sees(`^It has gone \[31mwell\.$`, `^  kept    message 5: the model's$`,
		`^  tokens  120 in, 100 of them cached; 30 out, 7 of them reasoning$`)
	c.leaves()

	if got := s.last(0); got != `user: "deploy cart v1.0.0 to staging"` {
		t.Errorf("the first request ends with %s", got)
	}
	if n := len(s.asked[1].Messages); n != 6 { // instructions, and five of the conversation
		t.Errorf("the second request has %d messages", n)
	}
	if s.asked[0].Model != "small" || len(s.asked[0].Tools) != 6 {
		t.Errorf("the model %q was asked, with the tools %v", s.asked[0].Model, s.asked[0].Tools)
	}
}

// Errors are shown with what to do about them, and the session goes on.
func TestTheModelFails(t *testing.T) {
	t.Parallel()
	s := serveChat(t,
		refuses(http.StatusUnauthorized, "invalid_api_key"),
		refuses(http.StatusNotFound, "model_not_found"),
		refuses(http.StatusServiceUnavailable, "overloaded"),
		streams("stop", `{"content":"Here I am."}`),
		func(w http.ResponseWriter, _ *http.Request) { // a connection that breaks
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w,
				`data: {"choices":[{"index":0,"delta":{"content":"Half a"}}]}`+"\n\n")
		},
		streams("stop", `{"content":"A whole answer."}`),
		streams("length", `{"content":"Too long"}`),
		streams("content_filter", `{"content":"I can't."}`))
	c := s.talk("-file", file(t), "-session", "s1")
	c.says("hello")
	c.sees(`^  error   openai\.chat/127.* authentication`,
		`^ +What you said is kept\. The key is not accepted: check OPENAI_API_KEY`)
	c.says("/retry")
	c.sees(`^  error   .*model_not_found`, `check whether it has this model.*-model`)
	c.says("hello again")
	c.sees(`^  again   in .*, since the model failed \(overloaded\)$`, `^Here I am\.$`)
	c.says("and now?")
	c.sees(`^Half a$`, `^  again   .*\(truncated\)$`, `^A whole answer\.$`)
	c.says("more")
	c.sees(`^Too long$`, `^  ends    the model's answer was cut off by its limit of tokens$`)
	c.says("more")
	c.sees(`^  ends    the model declines to answer$`)
	if text := c.leaves(); strings.Contains(text, secret) {
		t.Errorf("the key is shown:\n%s", text)
	}
}

func TestNobodyIsThere(t *testing.T) {
	t.Parallel()
	db := file(t)
	c := talk(t, []string{"OPENAI_BASE_URL=http://127.0.0.1:1"}, "-file", db, "-session", "s1",
		"-model", "small")
	c.says("weather in Oslo")
	c.sees(`^  again   .*\(network\)$`, `^  error   .*connection refused`,
		`^ +What you said is kept\. The service can't be reached: check your connection`)
	c.leaves()

	// The message is answered by the model of the next process.
	c = talk(t, nil, "-file", db, "-session", "s1")
	c.sees(`^Session: s1, with 1 message\.$`, `^It has 3.5 degrees in Oslo\.$`)
	c.leaves()
}

// Ctrl-C leaves at once, also while a model hangs, and an interrupted run goes
// on in the next process.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	db := file(t)
	asked := make(chan struct{})
	s := serveChat(t,
		hangs(asked),
		streams("stop", `{"content":"Here I am."}`))
	c := s.talk("-file", db, "-session", "s1")
	c.says("hello")
	<-asked
	if err := c.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	c.sees(`^  kept    the run is interrupted, and goes on when the session does$`,
		`^Kept: 1 message and 0 waiting calls\.`)
	if text := c.ends(); strings.Contains(text, "  error ") {
		t.Errorf("leaving is no error:\n%s", text)
	}
	c = s.talk("-file", db, "-session", "s1")
	c.sees(`^Here I am\.$`)
	c.leaves()
}
