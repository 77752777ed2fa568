package gemini

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/llm"
)

// What the model signed goes back in its place and byte for byte, though text
// before it was not signed.
func TestSignedTextKeepsItsPlace(t *testing.T) {
	parts := []string{
		`{"text":"Let me "}`, `{"text":"look.","thoughtSignature":"c2ln+/=="}`, `{"text":" Done, "}`, `{"text":"and","thoughtSignature":"YW5k"}`,
		`{"text":"done."}`, `{"text":"","thoughtSignature":"ZW5k"}`,
	}
	var events []string
	for _, p := range parts {
		events = append(events, says("", p))
	}
	s := serve(t, stream(append(events, says("STOP"))...))
	m, fin, err := s.ask(t, Options{})
	if err != nil || fin.Reason != llm.StopEnd {
		t.Fatal(fin, err)
	}
	if got := m.Text(); got != "Let me look. Done, anddone." {
		t.Errorf("the text is %q", got)
	}
	if _, _, err := s.ask(t, Options{}, llm.UserText("Hi"), m, llm.UserText("And now?")); err != nil {
		t.Fatal(err)
	}
	want := `[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[` + strings.Join(parts, ",") + `]},` +
		`{"role":"user","parts":[{"text":"And now?"}]}]`
	if got := s.contents(t); got != want {
		t.Errorf("contents are\n%s\nwant\n%s", got, want)
	}
}

// The client's timeout is for the whole reply, and not for the SDK's part of
// it.
func TestAClientWithATimeout(t *testing.T) {
	heard := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		stream(says("", `{"text":"a"}`))(w, r)
		_ = http.NewResponseController(w).Flush()
		<-heard
		stream(says("STOP", `{"text":"b"}`))(w, r)
	})
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	m := s.model(t, Options{Client: &http.Client{Transport: transport, Timeout: time.Minute}})
	var got []string
	for ev, err := range m.Generate(t.Context(), hello()) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, fmt.Sprintf("%T", ev)); len(got) == 1 {
			close(heard)
		}
	}
	if want := "llm.TextDelta llm.TextDelta llm.Finish"; strings.Join(got, " ") != want {
		t.Errorf("the events are %q", got)
	}
}
