package gemini

import (
	"io"
	"log"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/genai"
)

func TestOptions(t *testing.T) {
	for _, name := range []string{"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"} {
		t.Setenv(name, "")
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{APIKey: key}, "Options.Model is empty"},
		{Options{Model: "a?b", APIKey: key}, "can't be part of a URL"},
		{Options{Model: "../b", APIKey: key}, "can't be part of a URL"},
		{Options{Model: "m"}, "GEMINI_API_KEY"},
		{Options{Model: "m", APIKey: "secret\n"}, "white space"},
		{Options{Model: "m", APIKey: key, BaseURL: "localhost:1"}, "Options.BaseURL"},
		{Options{Model: "m", APIKey: key, BaseURL: "http://"}, "Options.BaseURL"},
		{Options{Model: "m", APIKey: key, BaseURL: "https://u:secret@x"}, "a user"},
		{Options{Model: "m", APIKey: key, BaseURL: "https://x?key=secret"}, "a query"},
		{Options{Model: "m", APIKey: key, Timeout: -1}, "Timeout"},
		{Options{Model: "m", APIKey: key, Retries: -1}, "Retries"},
		{Options{Model: "m", APIKey: key, Thinking: Thinking{Level: "hard"}}, "Level"},
		{Options{Model: "m", APIKey: key, Thinking: Thinking{Level: "low", Budget: genai.Ptr(1)}}, "one of them"},
		{Options{Model: "m", APIKey: key, Thinking: Thinking{Budget: genai.Ptr(-2)}}, "Budget"},
	} {
		m, err := New(c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") || m != nil {
			t.Errorf("%+v: %v, want an error of %q", c.o, err, c.want)
		}
	}
}

// The environment fills in what is left out.
func TestEnvironment(t *testing.T) {
	s := serve(t, stream(says("STOP", `{"text":"a"}`)))
	t.Setenv("GOOGLE_GEMINI_BASE_URL", s.URL+"/proxy/v1beta/")
	t.Setenv("GOOGLE_GENAI_USE_VERTEXAI", "true") // this package is not for Vertex AI
	defer log.SetOutput(log.Writer())
	// The SDK says which of two keys it takes, and it is the one that we take.
	log.SetOutput(io.Discard)
	for _, c := range []struct{ gemini, google, want string }{{"one", "two", "two"}, {"one", "", "one"}} {
		t.Setenv("GEMINI_API_KEY", c.gemini)
		t.Setenv("GOOGLE_API_KEY", c.google)
		m, err := New(Options{Model: "models/gemini-3-flash", Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range m.Generate(t.Context(), hello()) {
			if err != nil {
				t.Fatal(err)
			}
		}
		r := s.asked[len(s.asked)-1]
		if got := r.Header.Get("x-goog-api-key"); got != c.want {
			t.Errorf("the key was %q, want %q", got, c.want)
		}
		if got := r.URL.String(); got != "/proxy/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse" {
			t.Errorf("the address was %s", got)
		}
	}
}

// A key of the environment goes to Google, or to where GOOGLE_GEMINI_BASE_URL
// says, and to no other server.
func TestTheEnvironmentsKeyGoesToItsServerOnly(t *testing.T) {
	t.Setenv("GOOGLE_API_KEY", "")
	t.Setenv("GEMINI_API_KEY", key)
	t.Setenv("GOOGLE_GEMINI_BASE_URL", "http://gateway.invalid")
	for base, want := range map[string]bool{"": true, "https://generativelanguage.googleapis.com": true, "http://other.invalid": false, "http://evilgoogleapis.com": false} {
		if _, err := New(Options{Model: "m", BaseURL: base}); (err == nil) != want {
			t.Errorf("a model at %q: %v", base, err)
		}
	}
}

func TestThinking(t *testing.T) {
	for want, o := range map[string]Thinking{
		`"generationConfig":{"thinkingConfig":{"includeThoughts":true}}`: {Include: true},
		`"generationConfig":{"thinkingConfig":{"thinkingLevel":"LOW"}}`:  {Level: "low"},
		`"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}`:     {Budget: genai.Ptr(0)},
		`"generationConfig":{"thinkingConfig":{"thinkingBudget":-1}}`:    {Budget: genai.Ptr(-1)},
		`{"contents":[{"role":"user","parts":[{"text":"Hello."}]}]}`:     {},
	} {
		s := serve(t, stream(says("STOP", `{"text":"a"}`)))
		if _, _, err := s.ask(t, Options{Thinking: o, Timeout: time.Minute}); err != nil {
			t.Fatal(err)
		}
		if got := string(s.body[0]); !strings.Contains(got, want) {
			t.Errorf("%+v: the request is %s", o, got)
		}
	}
}

// What the options point to may be changed afterwards.
func TestOptionsAreCopied(t *testing.T) {
	budget := 1
	own, err := Options{Model: "m", APIKey: "k", Thinking: Thinking{Budget: &budget}}.complete()
	if budget = 2; err != nil || *own.Thinking.Budget != 1 {
		t.Errorf("the budget is %d, %v", *own.Thinking.Budget, err)
	}
}
