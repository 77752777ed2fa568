package openai

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// noEnvironment leaves nothing of the machine's own settings.
func noEnvironment(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY", "OPENAI_CUSTOM_HEADERS"} {
		t.Setenv(name, "")
	}
}

func TestOptionsAreChecked(t *testing.T) {
	noEnvironment(t)
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"no model", Options{APIKey: "k"}, "Options.Model is empty"},
		{"no key at OpenAI", Options{Model: "m"}, "OPENAI_API_KEY"},
		{"no key at OpenAI in Europe", Options{Model: "m", BaseURL: "https://eu.api.openai.com/v1"}, "OPENAI_API_KEY"},
		{"a key with a line break", Options{Model: "m", APIKey: "sk-secret\n"}, "APIKey (or OPENAI_API_KEY) holds a space"},
		{"no URL", Options{Model: "m", BaseURL: "http://[::1"}, "BaseURL (or OPENAI_BASE_URL) is no URL"},
		{"no scheme", Options{Model: "m", BaseURL: "localhost:11434/v1"}, "neither http:// nor https://"},
		{"no host", Options{Model: "m", BaseURL: "http:///v1"}, "names no host"},
		{"a password in the URL", Options{Model: "m", BaseURL: "http://me:secret@example.com"}, "holds a user"},
		{"a query", Options{Model: "m", BaseURL: "http://example.com/v1?key=secret"}, "has a query"},
		{"a query beside the version", Options{Model: "m", BaseURL: "http://example.com/v1?api-version=1&key=secret"}, "has a query other than api-version"},
		{"a query that is none", Options{Model: "m", BaseURL: "http://example.com/v1?secret;"}, "has a query"},
		{"no key on Azure", Options{Model: "m", BaseURL: "https://me.openai.azure.com/openai/v1"}, "Azure needs a key"},
		{"ids without a length", Options{Model: "m", APIKey: "k", Chat: ChatOptions{CallIDs: wire.Form{Also: "_"}}}, "CallIDs is of 0 to 0 bytes"},
		{"ids of no length", Options{Model: "m", APIKey: "k", Chat: ChatOptions{CallIDs: wire.Form{Min: 9, Max: 8}}}, "CallIDs is of 9 to 8 bytes"},
		{"the path of the API on Azure", Options{Model: "m", APIKey: "k", BaseURL: "https://me.openai.azure.com/openai/deployments/d/chat/completions?api-version=1"}, "goes on behind"},
		{"the path of the API", Options{Model: "m", BaseURL: "http://localhost/v1/chat/completions/"}, "goes on behind the version"},
		{"a negative timeout", Options{Model: "m", APIKey: "k", Timeout: -time.Second}, "Timeout is negative"},
		{"negative retries", Options{Model: "m", APIKey: "k", Retries: -1}, "Retries is negative"},
		{"a role", Options{Model: "m", APIKey: "k", Chat: ChatOptions{SystemRole: "user"}}, `SystemRole is "user"`},
		{"a field", Options{Model: "m", APIKey: "k", Chat: ChatOptions{LimitField: "max"}}, `LimitField is "max"`},
		{"what is for Responses alone", Options{Model: "m", APIKey: "k", Responses: ResponsesOptions{Summary: "auto"}}, "Responses is set"},
		{"extra that is no object", Options{Model: "m", APIKey: "k", Extra: []byte(`[1]`)}, "Extra is no JSON object"},
		{"extra that is null", Options{Model: "m", APIKey: "k", Extra: []byte(`null`)}, "Extra is no JSON object"},
		{"extra that is Generate's", Options{Model: "m", APIKey: "k", Extra: []byte(`{"stream":false}`)}, `Extra holds "stream"`},
	} {
		m, err := NewChat(c.o)
		switch {
		case err == nil:
			t.Errorf("%s: no error", c.name)
		case !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") || m != nil:
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	if c, err := NewChat(Options{Model: "m", BaseURL: "http://localhost:11434/v1"}); err != nil || c.name != "openai.chat/localhost:11434" {
		t.Errorf("a server that needs no key: %v", err)
	}
	if c, err := NewChat(Options{Model: "m", APIKey: "k"}); err != nil || c.name != "openai.chat" {
		t.Errorf("OpenAI: %v", err)
	}
}

// OPENAI_API_KEY goes to OpenAI, or to where OPENAI_BASE_URL says, and to no
// other server.
func TestTheEnvironmentsKeyGoesToItsServerOnly(t *testing.T) {
	for _, c := range []struct{ name, env, option, want string }{
		{"OpenAI", "", "", "Bearer env-key"},
		{"OpenAI by name", "", "https://api.openai.com/v1/", "Bearer env-key"},
		{"both from the environment", "http://proxy.example/v1", "", "Bearer env-key"},
		{"another server", "", "http://other.example/v1", ""},
		{"another server than the environment's", "http://proxy.example/v1", "http://other.example/v1", ""},
		{"a host that only ends alike", "", "http://evilopenai.com/v1", ""},
	} {
		noEnvironment(t)
		t.Setenv("OPENAI_API_KEY", "env-key")
		t.Setenv("OPENAI_BASE_URL", c.env)
		t.Setenv("OPENAI_ORG_ID", "org")
		var got *http.Request
		client := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			got = r
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}, nil
		})}
		m, err := NewChat(Options{Model: "m", BaseURL: c.option, Client: client})
		if err != nil {
			t.Fatal(c.name, err)
		}
		_, _, _ = ask(t, m, llm.Request{})
		if a := got.Header.Get("Authorization"); a != c.want || (got.Header.Get("OpenAI-Organization") != "") != (c.want != "") {
			t.Errorf("%s: Authorization %q and organization %q at %s", c.name, a, got.Header.Get("OpenAI-Organization"), got.URL)
		}
		if !strings.HasSuffix(got.URL.Path, "/v1/chat/completions") {
			t.Errorf("%s: %s", c.name, got.URL)
		}
	}
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }
