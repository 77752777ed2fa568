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
	long := NewSecrets("sk-proj-0123.4567", nil)
	for in, want := range map[string]string{
		"an excerpt of sk-proj-0123.45...":          "an excerpt of (the key)...",
		"cut at a dot: sk-proj-0123....":            "cut at a dot: (the key)...",
		"cut before one: sk-proj-0123...":           "cut before one: (the key)...",
		"no more than sk-proj-... of it":            "no more than (the key)... of it",
		`an event "with sk-proj-01": more`:          `an event "with (the key)": more`,
		"at the end sk-proj-0":                      "at the end (the key)",
		"sk-proj-0... and sk-proj-0123.4567":        "(the key)... and (the key)",
		"sk-proj-sk-proj-0":                         "sk-proj-(the key)",
		"keys such as sk-proj-**** begin alike":     "keys such as sk-proj-**** begin alike",
		"keys begin with sk-proj and end with more": "keys begin with sk-proj and end with more",
		"sk-proj": "sk-proj",
		"":        "",
	} {
		if got := long.Text(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
	if got := NewSecrets("aaaaaaaaab", nil).Text("aaaaaaaaaaaa..."); got != "aaa(the key)..." {
		t.Error(got)
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
