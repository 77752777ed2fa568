package openai

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/llm"
)

// recorder is a client that keeps the last request, and its body.
type recorder struct {
	request *http.Request
	body    string
}

func (r *recorder) client() *http.Client {
	return &http.Client{Transport: transport(func(req *http.Request) (*http.Response, error) {
		b, err := io.ReadAll(req.Body)
		r.request, r.body = req, string(b)
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}, err
	})}
}

// request is one with all that depends on the server.
func (r *recorder) ask(t *testing.T, m llm.Model) {
	t.Helper()
	_, _, _ = ask(t, m, llm.Request{System: "s", Limits: llm.Limits{OutputTokens: 7}, Cache: llm.CacheLong, Metadata: map[string]string{"session": "chat-1"}})
	if r.request == nil {
		t.Fatal("no request was made")
	}
}

func TestAzure(t *testing.T) {
	noEnvironment(t)
	const (
		azure = `"max_completion_tokens":7 "role":"developer" "prompt_cache_key":"chat-1" -"prompt_cache_retention" -"max_tokens"`
		other = `"max_tokens":7 "role":"system" -"prompt_cache_key" -"max_completion_tokens"`
	)
	for _, c := range []struct{ base, url, key, body string }{
		{"https://me.openai.azure.com/openai/v1", "https://me.openai.azure.com/openai/v1/chat/completions", "api-key", azure},
		{"https://me.openai.azure.com/openai/v1/?api-version=preview", "https://me.openai.azure.com/openai/v1/chat/completions?api-version=preview", "api-key", azure},
		{"https://Me.OpenAI.azure.com/openai/deployments/gpt-5?api-version=2025-04-01-preview",
			"https://Me.OpenAI.azure.com/openai/deployments/gpt-5/chat/completions?api-version=2025-04-01-preview", "api-key", azure},
		{"https://me.cognitiveservices.azure.com/openai/v1", "https://me.cognitiveservices.azure.com/openai/v1/chat/completions", "api-key", azure},
		{"https://me.openai.azure.us/openai/v1", "https://me.openai.azure.us/openai/v1/chat/completions", "api-key", azure},
		{"https://me.services.ai.azure.com/models?api-version=1", "https://me.services.ai.azure.com/models/chat/completions?api-version=1", "Authorization", other},
		{"https://gateway.example/openai?api-version=1", "https://gateway.example/openai/chat/completions?api-version=1", "Authorization", other},
		{"https://openai.azure.com.evil.example/openai/v1", "https://openai.azure.com.evil.example/openai/v1/chat/completions", "Authorization", other},
	} {
		var r recorder
		m, err := NewChat(Options{Model: "gpt-5", APIKey: "azure-key", BaseURL: c.base, Client: r.client()})
		if err != nil {
			t.Errorf("%s: %v", c.base, err)
			continue
		}
		r.ask(t, m)
		if got := r.request.URL.String(); got != c.url {
			t.Errorf("%s: the request goes to %s", c.base, got)
		}
		h := r.request.Header
		if want := map[string]string{"api-key": "azure-key", "Authorization": "Bearer azure-key"}[c.key]; h.Get(c.key) != want || h.Get("api-key") != "" && h.Get("Authorization") != "" {
			t.Errorf("%s: api-key %q and Authorization %q", c.base, h.Get("api-key"), h.Get("Authorization"))
		}
		holds(t, c.base, r.body, c.body)
		if strings.Contains(m.name, "?") || !strings.HasPrefix(m.name, "openai.chat/") {
			t.Errorf("%s: what it makes belongs to %q", c.base, m.name)
		}
	}
	var r recorder
	m, err := NewResponses(Options{Model: "gpt-5", APIKey: "azure-key", BaseURL: "https://me.openai.azure.com/openai/v1?api-version=preview", Client: r.client()})
	if err != nil {
		t.Fatal(err)
	}
	r.ask(t, m)
	if got := r.request.URL.String(); got != "https://me.openai.azure.com/openai/v1/responses?api-version=preview" || r.request.Header.Get("api-key") != "azure-key" {
		t.Errorf("%s, %v", got, r.request.Header)
	}
	holds(t, "Responses", r.body, `"prompt_cache_key":"chat-1" -"prompt_cache_retention" "max_output_tokens":7`)
}

// holds checks that a body has what is wanted, and not what has a "-" before
// it.
func holds(t *testing.T, name, body, wants string) {
	t.Helper()
	for _, want := range strings.Fields(wants) {
		want, not := strings.CutPrefix(want, "-")
		if strings.Contains(body, want) == not {
			t.Errorf("%s: %s in %s", name, want, body)
		}
	}
}

// prompt_cache_key goes to a server that is known to take it: others may refuse
// what they don't know.
func TestTheCachesKeyGoesToWhoTakesIt(t *testing.T) {
	noEnvironment(t)
	for base, want := range map[string][2]bool{ // Chat Completions, Responses
		"https://api.openai.com/v1": {true, true}, "https://eu.api.openai.com/v1": {true, true}, "https://me.openai.azure.com/openai/v1": {true, true},
		"https://api.moonshot.ai/v1": {true, false}, "https://api.moonshot.cn/v1": {true, false}, "https://api.x.ai/v1": {false, true},
		"https://api.mistral.ai/v1": {false, false}, "https://api.groq.com/openai/v1": {false, false}, "http://localhost:11434/v1": {false, false},
		"https://generativelanguage.googleapis.com/v1beta/openai": {false, false}, "https://notmoonshot.ai/v1": {false, false},
	} {
		for _, by := range []bool{false, true} {
			for i, want := range want {
				var r recorder
				var m llm.Model
				m, err := NewChat(Options{Model: "m", APIKey: "k", BaseURL: base, CacheKey: by, Client: r.client()})
				if i == 1 {
					m, err = NewResponses(Options{Model: "m", APIKey: "k", BaseURL: base, CacheKey: by, Client: r.client()})
				}
				if err != nil {
					t.Fatal(err)
				}
				r.ask(t, m)
				if got := strings.Contains(r.body, "prompt_cache_key"); got != (want || by) {
					t.Errorf("%v at %s, asked for %v: it is sent a key for the cache: %v", m, base, by, got)
				}
			}
		}
	}
}

// A transport that authenticates by itself needs no key. One of net/http
// doesn't.
func TestATransportThatAuthenticatesNeedsNoKey(t *testing.T) {
	noEnvironment(t)
	for _, base := range []string{"", "https://eu.api.openai.com/v1", "https://me.openai.azure.com/openai/v1"} {
		var r recorder
		inner := r.client()
		client := &http.Client{Transport: transport(func(req *http.Request) (*http.Response, error) {
			if a := req.Header.Get("Authorization") + req.Header.Get("api-key"); a != "" {
				t.Errorf("%s: there is a key: %s", base, a)
			}
			req = req.Clone(req.Context())
			req.Header.Set("Authorization", "Bearer token")
			return inner.Transport.RoundTrip(req)
		})}
		chat, err := NewChat(Options{Model: "m", BaseURL: base, Client: client})
		if err != nil {
			t.Fatal(err)
		}
		responses, err := NewResponses(Options{Model: "m", BaseURL: base, Client: client})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []llm.Model{chat, responses} {
			if r.ask(t, m); r.request.Header.Get("Authorization") != "Bearer token" {
				t.Errorf("%s: %v", base, r.request.Header)
			}
		}
		for _, plain := range []*http.Client{nil, {}, {Transport: &http.Transport{}}} {
			if _, err := NewChat(Options{Model: "m", BaseURL: base, Client: plain}); err == nil || !strings.Contains(err.Error(), "APIKey is empty") {
				t.Errorf("%s: %v", base, err)
			}
			if _, err := NewResponses(Options{Model: "m", BaseURL: base, Client: plain}); err == nil || !strings.Contains(err.Error(), "APIKey is empty") {
				t.Errorf("%s: %v", base, err)
			}
		}
	}
}

// A stream that is silent for too long is an error that passes, and tells the
// request; comments count as life.
func TestSilentStreamsEnd(t *testing.T) {
	for idle, want := range map[time.Duration]time.Duration{0: 19 * time.Minute, time.Hour: 69 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			client := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
				body, w := io.Pipe()
				go func() {
					_, _ = io.WriteString(w, ": begun\n\n")
					time.Sleep(9 * time.Minute)
					_, _ = io.WriteString(w, ": still here\n\n")
					<-r.Context().Done()
					w.CloseWithError(r.Context().Err())
				}()
				h := http.Header{"Content-Type": {"text/event-stream"}, "X-Request-Id": {"req_1"}}
				return &http.Response{StatusCode: 200, Header: h, Body: body, Request: r}, nil
			})}
			chat, err := NewChat(Options{Model: "m", BaseURL: "http://localhost/v1", Client: client, Idle: idle})
			if err != nil {
				t.Fatal(err)
			}
			responses, err := NewResponses(Options{Model: "m", BaseURL: "http://localhost/v1", Client: client, Idle: idle})
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range []llm.Model{chat, responses} {
				began := time.Now()
				_, _, err := ask(t, m, llm.Request{})
				if took := time.Since(began); kind(err) != llm.ErrNetwork || took != want || !strings.Contains(err.Error(), "(request req_1)") {
					t.Errorf("%v, idle %v: %v after %v, want after %v", m, idle, err, took, want)
				}
			}
		})
	}
}

// The agent is told how often the SDK tries again by itself: the tries of both
// would multiply.
func TestRetriesAreTold(t *testing.T) {
	chat, err := NewChat(Options{Model: "m", BaseURL: "http://localhost/v1", Retries: 3})
	if err != nil {
		t.Fatal(err)
	}
	responses, err := NewResponses(Options{Model: "m", BaseURL: "http://localhost/v1", Retries: 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []llm.Retrier{chat, responses} {
		if n := m.Retries(); n != 3 {
			t.Errorf("%v: %d", m, n)
		}
	}
}
