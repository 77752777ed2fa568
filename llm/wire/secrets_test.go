package wire

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

func TestSecrets(t *testing.T) {
	h := http.Header{
		"Authorization": {"Bearer tok-abcdefgh"}, "X-Api-Key": {"xak-abcdefgh"}, "x-goog-api-key": {"goo-abcdefgh"}, "api-key": {"azu-abcdefgh"},
		"Cookie": {"session=12345678"}, "X-Team": {"the-database-team"}, "X-Token": {"none"},
	}
	s := NewSecrets("sk-12345678", h)
	for in, want := range map[string]string{
		"no key sk-12345678, or sk-12345678":     "no key (the key), or (the key)",
		"it was Bearer tok-abcdefgh":             "it was (the key)",
		"the token tok-abcdefgh":                 "the token (the key)",
		"xak-abcdefgh goo-abcdefgh azu-abcdefgh": "(the key) (the key) (the key)",
		"session=12345678":                       "(the key)",
		"the-database-team has none":             "the-database-team has none",
	} {
		if got := s.Text(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
	if got := NewSecrets("none", nil).Text("none was found"); got != "none was found" {
		t.Error(got)
	}

	cause := errors.New("the SDK's")
	err := s.Error(fmt.Errorf("asking: %w", AnswerError("acme", Answer{Status: 401, Header: http.Header{"X-Request-Id": {"req_1"}}, Message: "xak-abcdefgh is unknown", Cause: cause})))
	var e *llm.Error
	if !errors.As(err, &e) || e.Kind != llm.ErrAuth || e.RequestID != "req_1" || !errors.Is(err, cause) {
		t.Errorf("%#v", err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%q"} {
		if text := fmt.Sprintf(verb, err); strings.Contains(text, "xak-abcdefgh") {
			t.Error(text)
		}
	}
	if got := s.Error(cause); got != cause {
		t.Errorf("%v became %v", cause, got)
	}
	shown := fmt.Sprint(ShownHeader(h), ShownKey("sk-12345678"))
	for _, secret := range s {
		if strings.Contains(shown, secret) {
			t.Errorf("%q is in %s", secret, shown)
		}
	}
	if !strings.Contains(shown, "the-database-team") || ShownKey("") != "" {
		t.Error(shown)
	}
	if len(h["Authorization"]) != 1 || h.Get("Authorization") != "Bearer tok-abcdefgh" {
		t.Error("the headers were changed")
	}
}
