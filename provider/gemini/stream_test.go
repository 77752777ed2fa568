package gemini

import (
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

// What the model signed goes back in its place and byte for byte, though text before it was not signed.
func TestSignedTextKeepsItsPlace(t *testing.T) {
	const first, second, last = `{"text":"Let me "}`, `{"text":"look.","thoughtSignature":"c2ln+/=="}`, `{"text":"","thoughtSignature":"ZW5k"}`
	s := serve(t, stream(says("", first), says("", second), says("", `{"text":" Done."}`), says("STOP", last)))
	m, fin, err := s.ask(t, Options{})
	if err != nil || fin.Reason != llm.StopEnd {
		t.Fatal(fin, err)
	}
	if got := m.Text(); got != "Let me look. Done." {
		t.Errorf("the text is %q", got)
	}
	if _, _, err := s.ask(t, Options{}, llm.UserText("Hi"), m, llm.UserText("And now?")); err != nil {
		t.Fatal(err)
	}
	want := `[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[` + first + `,` + second + `,{"text":" Done."},` + last + `]},` +
		`{"role":"user","parts":[{"text":"And now?"}]}]`
	if got := s.contents(t); got != want {
		t.Errorf("contents are\n%s\nwant\n%s", got, want)
	}
}
