package anthropic

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/llm"
)

func TestOptions(t *testing.T) {
	for _, name := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"} {
		t.Setenv(name, "")
	}
	good := Options{Model: "claude-opus-5-5", APIKey: "sk-test"}
	with := func(change func(*Options)) Options {
		o := good
		change(&o)
		return o
	}
	for _, c := range []struct {
		name    string
		options Options
		words   []string // nil: it is good
	}{
		{"good", good, nil},
		{"no model", with(func(o *Options) { o.Model = " " }), []string{"Options.Model"}},
		{"no key", with(func(o *Options) { o.APIKey = "" }), []string{"ANTHROPIC_API_KEY"}},
		{"no key, elsewhere", with(func(o *Options) { o.APIKey, o.BaseURL = "", "http://localhost:8080/anthropic" }), nil},
		{"no key, but its header", with(func(o *Options) { o.APIKey, o.Header = "", http.Header{"x-api-key": {"sk"}} }), nil},
		{"a key with its line's end", with(func(o *Options) { o.APIKey = "sk-secret\n" }), []string{"line break"}},
		{"no URL", with(func(o *Options) { o.BaseURL = "https://user:secret@[" }), []string{"BaseURL"}},
		{"no scheme", with(func(o *Options) { o.BaseURL = "localhost:8080" }), []string{"https://"}},
		{"no host", with(func(o *Options) { o.BaseURL = "https://" }), []string{"https://"}},
		{"a query", with(func(o *Options) { o.BaseURL = "https://example.com/?key=secret" }), []string{"?"}},
		{"v1 twice", with(func(o *Options) { o.BaseURL = "https://user:secret@example.com/v1/" }), []string{"/v1", "leave it out"}},
		{"negative timeout", with(func(o *Options) { o.Timeout = -time.Second }), []string{"Timeout", "-1s"}},
		{"negative retries", with(func(o *Options) { o.Retries = -1 }), []string{"Retries", "-1"}},
		{"negative tokens", with(func(o *Options) { o.MaxTokens = -1 }), []string{"MaxTokens", "-1"}},
		{"thinking of no kind", with(func(o *Options) { o.Thinking.Type = "deep" }), []string{"deep", "adaptive"}},
		{"thinking without a budget", with(func(o *Options) { o.Thinking.Type = "enabled" }), []string{"Budget", "1024"}},
		{"a budget without thinking", with(func(o *Options) { o.Thinking.Budget = 2000 }), []string{"Budget", "enabled"}},
		{"a budget of everything", with(func(o *Options) { o.MaxTokens, o.Thinking = 2000, Thinking{Type: "enabled", Budget: 2000} }), []string{"2000", "MaxTokens"}},
		{"a display of no kind", with(func(o *Options) { o.Thinking = Thinking{Type: "adaptive", Display: "all"} }), []string{"Display", "all"}},
		{"a display of nothing", with(func(o *Options) { o.Thinking = Thinking{Type: "disabled", Display: "omitted"} }), []string{"Display", "disabled"}},
		{"effort of no kind", with(func(o *Options) { o.Effort = "heroic" }), []string{"Effort", "heroic", "xhigh"}},
		{"a header that breaks the line", with(func(o *Options) { o.Header = http.Header{"X-A": {"secret\r\nX-B: 1"}} }), []string{"X-A"}},
		{"a header without a name", with(func(o *Options) { o.Header = http.Header{"": {"a"}} }), []string{"header"}},
		{"a tool that is none", with(func(o *Options) { o.ServerTools = []json.RawMessage{json.RawMessage(`"web_search"`)} }), []string{"ServerTools[0]", "type"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := New(c.options)
			if (err == nil) != (c.words == nil) || (m == nil) == (err == nil) {
				t.Fatalf("%v, %v", m, err)
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("the error doesn't say %q: %v", w, err)
				}
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error tells a secret: %v", err)
			}
		})
	}
}

// What the environment says counts where the options say nothing, and nothing
// else of it does.
func TestEnvironment(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "sk-environment")
	t.Setenv("ANTHROPIC_BASE_URL", "http://gateway.invalid/claude")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "token")
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Environment: yes")
	s := &service{body: recorded(t, "text.stream.http")}
	m, err := New(Options{Model: "m", Client: &http.Client{Transport: s}, Betas: []string{"a-2026-01-01", "b-2026-01-01"},
		Header: http.Header{"x-team": {"blue"}, "user-agent": {"mine/1"}}})
	if err != nil {
		t.Fatal(err)
	}
	collect(t, m, hello())
	r := s.requests[0]
	if got := r.URL.String(); got != "http://gateway.invalid/claude/v1/messages" {
		t.Errorf("the URL is %s", got)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer sk-environment", "Anthropic-Version": "2026-10-21", "Anthropic-Beta": "a-2026-01-01,b-2026-01-01",
		"X-Team": "blue", "User-Agent": "mine/1", "X-Environment": "", "Content-Type": "application/json", "X-Stainless-Timeout": "",
	} {
		if got := strings.Join(r.Header.Values(name), "; "); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// ANTHROPIC_API_KEY goes to Anthropic, or to where ANTHROPIC_BASE_URL says, and
// to no other server.
func TestTheEnvironmentsKeyGoesToItsServerOnly(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "sk-environment")
	t.Setenv("ANTHROPIC_BASE_URL", "http://gateway.invalid")
	for base, want := range map[string]string{
		"": "sk-environment", "https://api.anthropic.com": "sk-environment", "http://other.invalid": "", "http://evilanthropic.com": "",
	} {
		m, err := New(Options{Model: "m", BaseURL: base})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.options.APIKey; got != want {
			t.Errorf("the key for %q is %q", base, got)
		}
	}
}

// Without a key, none is sent, wherever the SDK would look for one.
func TestNoKey(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "token")
	s := &service{body: recorded(t, "text.stream.http")}
	m, err := New(Options{Model: "m", BaseURL: "http://localhost:1", Client: &http.Client{Transport: s}, Header: http.Header{"x-api-key": {"mine"}}})
	if err != nil {
		t.Fatal(err)
	}
	collect(t, m, hello())
	if h := s.requests[0].Header; h.Get("Authorization") != "" || h.Get("X-Api-Key") != "mine" {
		t.Errorf("the headers are %v", h)
	}
}

// A message of any length may be asked for at once: the SDK's own limits don't
// count.
func TestWholeAndLong(t *testing.T) {
	s := &service{body: recorded(t, "text.whole.http")}
	req := hello()
	req.Limits.OutputTokens = 128000
	if _, fin := collect(t, s.model(t, Options{Whole: true}), req); fin.Reason != llm.StopEnd {
		t.Error(fin)
	}
	if got := s.requests[0].Header.Get("X-Stainless-Timeout"); got != "" {
		t.Errorf("the service is told of a timeout of %s", got)
	}
}

// What the options were made of may be changed afterwards.
func TestOptionsAreCopied(t *testing.T) {
	o := Options{
		ServerTools: []json.RawMessage{json.RawMessage(`{"type":"a","name":"a"}`)}, Betas: []string{"b"}, Header: http.Header{"X-A": {"a"}},
	}
	own := o.complete()
	copy(o.ServerTools[0], "XXXX")
	o.ServerTools[0], o.Betas[0], o.Header["X-A"][0] = nil, "x", "x"
	if string(own.ServerTools[0]) != `{"type":"a","name":"a"}` || own.Betas[0] != "b" || own.Header.Get("X-A") != "a" {
		t.Errorf("they are %s, %v and %v", own.ServerTools, own.Betas, own.Header)
	}
}
