package gemini

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/llm"
)

// Text that is cut within a rune is whole again, and what is signed stays a
// part of its own.
func TestTextThatIsCutWithinARune(t *testing.T) {
	says1 := func(part string) string { return says("", part) }
	for name, c := range map[string]struct {
		events []string
		want   []llm.Part
	}{
		"text, within a pair":  {[]string{says1(`{"text":"a\ud834"}`), says1(`{"text":"\udd1eb"}`), says("STOP")}, []llm.Part{llm.Text{Text: "a𝄞b"}}},
		"text, within a rune":  {[]string{says1("{\"text\":\"a\xf0\x9d\"}"), says1("{\"text\":\"\x84\x9eb\"}"), says("STOP")}, []llm.Part{llm.Text{Text: "a𝄞b"}}},
		"thoughts":             {[]string{says1(`{"text":"\ud834","thought":true}`), says1(`{"text":"\udd1e","thought":true}`), says("STOP")}, []llm.Part{llm.Reasoning{Text: "𝄞"}}},
		"thoughts, then text":  {[]string{says1(`{"text":"a\ud834","thought":true}`), says1(`{"text":"\udd1eb"}`), says("STOP")}, []llm.Part{llm.Reasoning{Text: "a\uFFFD"}, llm.Text{Text: "\uFFFDb"}}},
		"at the end":           {[]string{says("STOP", `{"text":"a\ud834"}`)}, []llm.Part{llm.Text{Text: "a\uFFFD"}}},
		"before a signed text": {[]string{says1(`{"text":"a\ud834"}`), says("STOP", `{"text":"b","thoughtSignature":"YQ=="}`)}, []llm.Part{llm.Text{Text: "a\uFFFD"}, llm.Text{Text: "b", Native: native([]byte(`{"text":"b","thoughtSignature":"YQ=="}`))}}},
		"with nothing between": {[]string{says1(`{"text":"\ud834"}`), says1(`{"text":""}`), says("STOP", `{"text":"\udd1e"}`)}, []llm.Part{llm.Text{Text: "𝄞"}}},
		"before a call, which has a pair": {[]string{says1(`{"text":"a\ud834"}`), says("STOP", `{"functionCall":{"name":"f","args":{"x":"\ud834\udd1e"}}}`)},
			[]llm.Part{llm.Text{Text: "a\uFFFD"}, llm.ToolCall{Name: "f", Arguments: []byte(`{"x":"\ud834\udd1e"}`)}}},
	} {
		m, _, err := serve(t, stream(c.events...)).ask(t, Options{})
		if d := cmp.Diff(c.want, m.Parts); d != "" || err != nil {
			t.Errorf("%s: %v; the message differs (-want +got):\n%s", name, err, d)
		}
	}
}

// A page in place of a whole message may pass, as in place of a stream.
func TestAPageInPlaceOfAMessage(t *testing.T) {
	_, _, err := serve(t, fails(200, "<p>Log in to this network")).ask(t, Options{Whole: true})
	if kind(err) != llm.ErrOverloaded || !strings.Contains(err.Error(), "Log in") {
		t.Error(err)
	}
}

func TestBrokenStreamsTellTheRequest(t *testing.T) {
	for name, body := range map[string]string{
		"cut off": "data: " + says("", `{"text":"a"}`) + "\n\n", "malformed": "data: {\n\n", "not read by the service": "data: " + says("MALFORMED_FUNCTION_CALL") + "\n\n",
		"blocked": "data: {\"promptFeedback\":{\"blockReason\":\"OTHER\"}}\n\n", "a page": "<p>",
	} {
		_, _, err := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Request-Id", "req_1")
			fmt.Fprint(w, body)
		}).ask(t, Options{})
		var e *llm.Error
		if !errors.As(err, &e) || e.RequestID != "req_1" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// authenticating is a transport of the caller's that knows who asks.
type authenticating struct{ asked []*http.Request }

func (a *authenticating) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked = append(a.asked, r)
	body := "data: " + says("STOP", `{"text":"a"}`) + "\n\n"
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func TestTransportThatAuthenticates(t *testing.T) {
	t.Setenv("GOOGLE_API_KEY", "")
	t.Setenv("GEMINI_API_KEY", "")
	a := &authenticating{}
	m, err := New(Options{Model: "m", Client: &http.Client{Transport: a}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := llm.Collect(m.Generate(t.Context(), hello())); err != nil {
		t.Fatal(err)
	}
	if r := a.asked[0]; r.Header.Get("X-Goog-Api-Key") != "" || r.URL.Query().Has("key") {
		t.Errorf("without a key, %s is asked with %v", r.URL, r.Header)
	}
	if _, err := New(Options{Model: "m", Client: &http.Client{Transport: &http.Transport{}}}); err == nil {
		t.Error("a transport of net/http is taken for one that authenticates")
	}
}

// What Google's cloud has beside the API is not the API: its key, and what it
// encrypted, go nowhere else.
func TestOwnHosts(t *testing.T) {
	t.Setenv("GOOGLE_API_KEY", "")
	t.Setenv("GEMINI_API_KEY", key)
	for host, want := range map[string]bool{
		"generativelanguage.googleapis.com": true, "GenerativeLanguage.googleapis.com:443": true, "eu.generativelanguage.googleapis.com": true,
		"googleapis.com": false, "storage.googleapis.com": false, "us-central1-aiplatform.googleapis.com": false,
		"generativelanguage.googleapis.com.evil.invalid": false, "evilgenerativelanguage.googleapis.com": false,
	} {
		if _, err := New(Options{Model: "m", BaseURL: "https://" + host}); (err == nil) != want {
			t.Errorf("a model at %s with the environment's key: %v", host, err)
		}
		m, err := New(Options{Model: "m", APIKey: key, BaseURL: "https://" + host})
		if err != nil {
			t.Fatal(err)
		}
		if name := m.origin.Name(); (name == provider) != want {
			t.Errorf("what %s makes is kept as %q's", host, name)
		}
	}
}
